"""Figures of quantizers  ->  what is asked of axtool, what was measured, and whether it holds.

Each row also has a ratio, higher is better, and the target that it has to reach. Of accuracy that is the peer's error
over ours (3 dB are 1.41), of counts, CPU and memory what it says. Under 1 dB is noise, so a row that only asks for no
loss wants 0.89.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import quantizer_peers as peers
from benchmarks import table
from benchmarks.table import Row

OURS = frozenset(quantizer.name for quantizer in (*peers.OURS, peers.PLAIN))
NOISE_DB = 1.0
MARGIN_DB: Mapping[tuple[str, str], float] = {  # over the best peer, by model and part of its outputs
    ("efficientnet-lite0", ""): 3.0,
    ("nudenet-320n", "scores"): 5.0,
    ("ppocr-rec", ""): 2.5,
    ("resnet50", ""): -NOISE_DB,
    ("mobilenet_v2", ""): -NOISE_DB,
    ("segformer-b0", ""): -NOISE_DB,
}
KNOWN_DB: Mapping[tuple[str, str, str], float] = {  # reached before with other pictures: for orientation
    ("efficientnet-lite0", "", peers.AXTOOL.name): 24.5,
    ("nudenet-320n", "scores", peers.AXTOOL.name): 21.0,
    ("ppocr-rec", "", peers.AXTOOL.name): 14.0,
    ("ppocr-rec", "", peers.MAC_ONLY.name): 17.5,
    ("segformer-b0", "", peers.AXTOOL.name): 28.5,
}
KNOWN_SHARE: Mapping[tuple[str, str, str], float] = {
    ("efficientnet-lite0", "top1_agreement", peers.AXTOOL.name): 0.99,
    ("ppocr-rec", "lines_same", peers.MAC_ONLY.name): 0.5,
    ("segformer-b0", "pixels_same", peers.AXTOOL.name): 0.965,
}
SHARES = {"lines_same": "lines that read the same", "top1_agreement": "same class", "pixels_same": "same pixels"}
SAME_OPS = frozenset(("ppocr-rec",))  # a peer leaves most of it in float: that one is held against `mac-only`
MAP_LOSS = 0.01
CPU: Mapping[str, float] = {"resnet50": 1.6, "detr-r101": 1.6}  # times the plain pass; of the others:
SMALL_CPU = 2.6
MEMORY = (1.25, 150.0)  # times the plain pass, and MB on top
MOST_MB: Mapping[str, float] = {"detr-r101": 1600.0}
FASTER, MUCH_FASTER, MOST_OF_ALL = 2.0, 3.0, 5 / 6  # than onnxruntime's percentile: always, and on five of six


@dataclass(frozen=True)
class Result:
    """One quantizer on one model: `absent` and `failed` say why there are no figures."""

    model: str
    quantizer: str
    version: str = ""
    cost: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    absent: str = ""
    failed: str = ""

    def side(self, value: float, unit: str) -> dict[str, Any]:
        """One side of a row."""
        return {"name": self.quantizer, "version": self.version, "value": value, "unit": unit}

    @property
    def work_s(self) -> float:
        """CPU without what was gone before the work began: imports, and reading the model."""
        return self.cost["cpu_s"] - self.cost.get("imports_cpu_s", 0.0)

    @property
    def floats(self) -> int:
        """How many ops stay float."""
        return sum(self.figures["stays_float"].values())


def rows(results: Sequence[Result]) -> list[Row]:
    """What is asked, of every model that axtool has figures of."""
    made: list[Row] = []
    for model in dict.fromkeys(result.model for result in results):
        own = {r.quantizer: r for r in results if r.model == model and not (r.absent or r.failed)}
        others = [r for r in own.values() if r.quantizer not in OURS and r.figures]
        for quantizer in (peers.AXTOOL, peers.MAC_ONLY):
            ours = own.get(quantizer.name)
            if ours is not None and ours.figures:
                rivals = _rivals(model, ours, others, quantizer)
                made += [*_sqnr(model, ours, rivals), *_objects(model, ours, rivals), *_shares(model, ours, rivals)]
        made += [*_calibration(model, own), *_compile(model, own)]
    return [*made, *_over_models(made)]


def _rivals(
    model: str, ours: Result, others: Sequence[Result], quantizer: peers.Quantizer
) -> tuple[Sequence[Result], float]:
    """The peers that are compared, and the margin in dB over them where none is listed: as much in int8 as ours."""
    if model not in SAME_OPS:
        return others, 0.0
    if quantizer == peers.MAC_ONLY:
        return others, -NOISE_DB
    return [peer for peer in others if peer.floats <= ours.floats], 0.0


def _sqnr(model: str, ours: Result, rivals: tuple[Sequence[Result], float]) -> Iterable[Row]:
    for part, db in ours.figures["sqnr_db"].items():
        label = part if len(ours.figures["sqnr_db"]) > 1 else ""
        best = max(rivals[0], key=lambda peer: peer.figures["sqnr_db"][part], default=None)
        margin = rivals[1] or MARGIN_DB.get((model, label))
        what = f"SQNR{f' of {label}' if label else ''}{_how(ours)}"
        if best is not None:
            theirs = best.figures["sqnr_db"][part]
            asked = f"{best.quantizer} {theirs:.1f} dB" + ("" if margin is None else f" {margin:+g}")
            target = None if margin is None else round(10 ** (margin / 20), 4)
            sides = {"ours": ours.side(db, "dB"), "peer": best.side(theirs, "dB")}
            yield _row(model, what, asked, f"{db:.1f} dB", 10 ** ((db - theirs) / 20), target, **sides)
        known = KNOWN_DB.get((model, label, ours.quantizer))
        if known is not None:
            yield _known(model, what, ours, f"{known:g} dB", f"{db:.1f} dB", 10 ** ((db - known) / 20), (db, known))


def _how(ours: Result) -> str:
    return "" if ours.quantizer == peers.AXTOOL.name else f", {ours.quantizer.removeprefix('axtool ')}"


def _shares(model: str, ours: Result, rivals: tuple[Sequence[Result], float]) -> Iterable[Row]:
    """Of samples or pixels, against the peer that is best at them."""
    for key, words in SHARES.items():
        if key not in ours.figures:
            continue
        value, what = _share(ours, key), words + _how(ours)
        best = max(rivals[0], key=lambda peer: _share(peer, key), default=None)
        if best is not None:
            theirs = _share(best, key)
            sides = {"ours": ours.side(value, ""), "peer": best.side(theirs, "")}
            yield _row(model, what, f"{best.quantizer} {theirs:.1%}", f"{value:.1%}", value / max(theirs, 1e-9), None,
                       **sides)  # fmt: skip
        known = KNOWN_SHARE.get((model, key, ours.quantizer))
        if known is not None:
            yield _known(model, what, ours, f"{known:.1%}", f"{value:.1%}", value / known, (value, known))


def _share(result: Result, key: str) -> float:
    value: float = result.figures[key]
    return value / result.figures["samples"] if key == "lines_same" else value


def _objects(model: str, ours: Result, rivals: tuple[Sequence[Result], float]) -> Iterable[Row]:
    """Against the peer that finds the most. What is invented too: who finds nothing invents nothing."""
    figures = ours.figures
    if "map50" in figures:
        wanted, got = figures["map50_float"], figures["map50"]
        side = {"name": "float", "version": "", "value": wanted, "unit": ""}
        yield _row(model, "mAP50", f"float {wanted:.3f} -{MAP_LOSS:g}", f"{got:.3f}", got / max(wanted, 1e-9),
                   round(1 - MAP_LOSS / max(wanted, MAP_LOSS), 4), ours=ours.side(got, ""), peer=side)  # fmt: skip
    best = max((p for p in rivals[0] if "found" in p.figures), key=lambda p: p.figures["found"], default=None)
    if best is None or "found" not in figures:
        return
    asked = model == "nudenet-320n"
    for key, what in (("found", "objects kept"), ("invented", "objects invented")):
        value, theirs = figures[key], best.figures[key]
        sides = {"ours": ours.side(value, ""), "peer": best.side(theirs, "")}
        if key == "found":
            target, words, told = 1.0, f"{best.quantizer} {theirs}", f"{value} of {figures['objects']}"
            ratio = value / max(theirs, 1e-9)
        else:  # half as many; none counts as a half
            target, words, told = 2.0, f"half of {best.quantizer}'s {theirs}", f"{value}"
            ratio = max(theirs, 1) / max(value, 0.5)
        yield _row(model, what + _how(ours), words, told, ratio, target if asked else None, **sides)


def _calibration(model: str, own: Mapping[str, Result]) -> Iterable[Row]:
    """Of calibration alone: CPU and memory of the plain pass, and CPU of onnxruntime's percentile."""
    ours, plain, slow = (own.get(q.name) for q in (peers.CALIBRATION, peers.PLAIN, peers.PERCENTILE))
    if ours is None:
        return
    peak = ours.cost["peak_mb"]
    if plain is not None:
        times = CPU.get(model, SMALL_CPU)
        spent, allowed = ours.work_s, times * plain.work_s
        sides = {"ours": ours.side(round(spent, 2), "s"), "peer": plain.side(round(plain.work_s, 2), "s")}
        yield _row(model, "CPU of calibration", f"{times:g} x {plain.work_s:.2f} = {allowed:.2f} s",
                   f"{spent:.2f} s", allowed / max(spent, 1e-3), 1.0, **sides)  # fmt: skip
        most = MEMORY[0] * plain.cost["peak_mb"] + MEMORY[1]
        sides = {"ours": ours.side(peak, "MB"), "peer": plain.side(plain.cost["peak_mb"], "MB")}
        asked = f"{MEMORY[0]} x {plain.cost['peak_mb']:.0f} + {MEMORY[1]:.0f} = {most:.0f} MB"
        yield _row(model, "memory of calibration", asked, f"{peak:.0f} MB", most / peak, 1.0, **sides)
    if model in MOST_MB:
        yield _known(model, "memory of calibration", ours, f"{MOST_MB[model]:.0f} MB", f"{peak:.0f} MB",
                     MOST_MB[model] / peak, (peak, MOST_MB[model]), orientation=False)  # fmt: skip
    if slow is not None:
        cpu, theirs = ours.cost["cpu_s"], slow.cost["cpu_s"]
        sides = {"ours": ours.side(cpu, "s"), "peer": slow.side(theirs, "s")}
        yield _row(model, FASTER_ROW, f"{FASTER:g} x as fast as {theirs:.1f} s",
                   f"{cpu:.1f} s, {theirs / cpu:.1f} x", theirs / cpu, FASTER, **sides)  # fmt: skip


FASTER_ROW = "calibration against onnxruntime percentile"


def _compile(model: str, own: Mapping[str, Result]) -> Iterable[Row]:
    """Of all of compile, whatever it does with what was calibrated: against each bound once more, for information."""
    ours, plain, slow = (own.get(q.name) for q in (peers.AXTOOL, peers.PLAIN, peers.PERCENTILE))
    if ours is None:
        return
    if plain is not None:
        most, peak = MEMORY[0] * plain.cost["peak_mb"] + MEMORY[1], ours.cost["peak_mb"]
        sides = {"ours": ours.side(peak, "MB"), "peer": plain.side(plain.cost["peak_mb"], "MB")}
        yield _row(model, "memory of all of compile", f"{most:.0f} MB", f"{peak:.0f} MB", most / peak, None, **sides)
    if slow is not None:
        cpu, theirs = ours.cost["cpu_s"], slow.cost["cpu_s"]
        sides = {"ours": ours.side(cpu, "s"), "peer": slow.side(theirs, "s")}
        yield _row(model, "all of compile against onnxruntime percentile", f"{theirs:.1f} s",
                   f"{cpu:.1f} s, {theirs / cpu:.1f} x", theirs / cpu, None, **sides)  # fmt: skip


def _over_models(made: Sequence[Row]) -> Iterable[Row]:
    found = [row["ratio"] for row in made if row["measured"] == FASTER_ROW]
    if not found:
        return
    share = sum(ratio >= MUCH_FASTER for ratio in found) / len(found)
    side = {"name": "models", "version": "", "value": len(found), "unit": ""}
    yield _row("all", FASTER_ROW, f"{MUCH_FASTER:g} x on five of six", f"on {share * len(found):.0f} of {len(found)}",
               share, round(MOST_OF_ALL, 4), ours=side, peer=side)  # fmt: skip


def _known(
    model: str, what: str, ours: Result, asked: str, found: str, ratio: float, values: tuple[float, float], *,
    orientation: bool = True,
) -> Row:  # fmt: skip
    """Against a fixed figure; `values` are ours and that figure."""
    side = {"name": "figure", "version": "", "value": values[1], "unit": ""}
    words = f"{asked}, for orientation" if orientation else asked
    return _row(model, what, words, found, ratio, 1.0, ours=ours.side(values[0], ""), peer=side)


def _row(model: str, what: str, asked: str, found: str, ratio: float, target: float | None, **sides: object) -> Row:
    """A row; `asked` and `found` are for a person."""
    row: Callable[..., Row] = table.row
    return row(model, what, ratio, target, asked=asked, found=found, **sides)
