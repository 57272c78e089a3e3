"""Figures of quantizers  ->  comparisons with the best peer of the same run, and the tables that a person reads.

A ratio of accuracy is the peer's error over ours (3 dB are 1.41); of counts, CPU and memory what it says. Higher is
better. Under 1 dB is noise, so a row that only asks for no loss wants 0.89.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import table
from benchmarks.quantizer_peers import AXTOOL, PERCENTILE, PLAIN, ROUNDED
from benchmarks.table import Row

OURS = (AXTOOL.name, ROUNDED.name)  # the default is what is compared; -O2 is shown beside it
NOISE_DB = 1.0
MARGIN_DB: Mapping[tuple[str, str], float] = {  # over the best peer
    ("efficientnet-lite0", "logits"): 3.0,
    ("nudenet-320n", "scores"): 5.0,
    ("ppocr-rec", ""): 2.5,
    ("resnet50", ""): -NOISE_DB,
    ("mobilenet_v2", ""): -NOISE_DB,
}
SAME_OPS = frozenset(("ppocr-rec",))  # models of which a peer leaves most in float: level with it, ahead of the others
FASTER = 2.0  # times the CPU of onnxruntime's percentile
MEMORY = (1.25, 150.0)  # times the plain pass, and MB on top: the most that any calibration should take


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


def rows(results: Sequence[Result]) -> list[Row]:
    """The comparisons of every model that axtool has figures of."""
    made: list[Row] = []
    for model in dict.fromkeys(result.model for result in results):
        own = [result for result in results if result.model == model]
        ours = next((r for r in own if r.quantizer == AXTOOL.name and r.figures), None)
        peers = [r for r in own if r.quantizer not in OURS and r.figures]
        if ours is not None:
            made += [*_accuracy(model, ours, peers), *_counts(model, ours, peers), *_cost(model, ours, own)]
    return made


def _accuracy(model: str, ours: Result, peers: Sequence[Result]) -> list[Row]:
    made = []
    for part, db in ours.figures["sqnr_db"].items():
        margin = MARGIN_DB.get((model, part), MARGIN_DB.get((model, "")))
        groups = [(f"SQNR {part}", peers, margin)]
        if model in SAME_OPS:
            most = _floats(ours)
            alike = [peer for peer in peers if _floats(peer) <= most]
            groups = [(f"SQNR {part}", peers, -NOISE_DB), (f"SQNR {part}, as much in int8", alike, margin)]
        for measured, group, wanted in groups:
            best = max(group, key=lambda peer: peer.figures["sqnr_db"][part], default=None)
            if best is None:
                continue
            theirs = best.figures["sqnr_db"][part]
            target = None if wanted is None else round(10 ** (wanted / 20), 4)
            sides = {"ours": ours.side(db, "dB"), "peer": best.side(theirs, "dB")}
            made.append(table.row(model, measured, 10 ** ((db - theirs) / 20), target, **sides))
    return made


def _floats(result: Result) -> int:
    return sum(result.figures["stays_float"].values())


def _counts(model: str, ours: Result, peers: Sequence[Result]) -> list[Row]:
    """Against the peer that finds the most. What is invented too: who finds nothing invents nothing."""
    made = []
    wanted = 1.0 if model == "nudenet-320n" else None
    for key, words in (("found", "kept"), ("lines_same", "lines the same"), ("top1_agreement", "top-1 the same")):
        best = max((p for p in peers if key in p.figures), key=lambda p: p.figures[key], default=None)
        if best is None or key not in ours.figures:
            continue
        value, theirs = ours.figures[key], best.figures[key]
        sides = {"ours": ours.side(value, ""), "peer": best.side(theirs, "")}
        made.append(table.row(model, words, value / max(theirs, 1e-9), wanted, **sides))
        if key == "found":
            few, many = ours.figures["invented"], best.figures["invented"]
            sides = {"ours": ours.side(few, ""), "peer": best.side(many, "")}
            target = None if wanted is None else 2.0  # half as many; none counts as a half
            made.append(table.row(model, "invented", max(many, 1) / max(few, 0.5), target, **sides))
    return made


def _cost(model: str, ours: Result, own: Sequence[Result]) -> list[Row]:
    made = []
    by_name = {result.quantizer: result for result in own if result.cost and not result.failed}
    cpu_s, peak_mb = ours.cost["cpu_s"], ours.cost["peak_mb"]
    if PERCENTILE.name in by_name:
        peer = by_name[PERCENTILE.name]
        sides = {"ours": ours.side(cpu_s, "s"), "peer": peer.side(peer.cost["cpu_s"], "s")}
        made.append(table.row(model, "CPU", peer.cost["cpu_s"] / cpu_s, FASTER, **sides))
    others = [r for name, r in by_name.items() if name not in (*OURS, PLAIN.name)]
    for key, words, unit in (("cpu_s", "CPU, least", "s"), ("peak_mb", "peak memory, least", "MB")):
        if others:
            peer = min(others, key=lambda r: r.cost[key])
            sides = {"ours": ours.side(ours.cost[key], unit), "peer": peer.side(peer.cost[key], unit)}
            made.append(table.row(model, words, peer.cost[key] / ours.cost[key], None, **sides))
    if PLAIN.name in by_name:
        plain = by_name[PLAIN.name]
        most = round(MEMORY[0] * plain.cost["peak_mb"] + MEMORY[1], 1)
        sides = {"ours": ours.side(peak_mb, "MB"), "peer": plain.side(most, "MB")}
        made.append(table.row(model, "peak memory, of 1.25 plain + 150", most / peak_mb, 1.0, **sides))
    return made


HEAD = ("model", "quantizer", "SQNR dB", "task", "CPU s", "peak MB", "stays float")


def text(results: Sequence[Result]) -> str:
    """Every figure, then every comparison, as two Markdown tables."""
    comparisons = [
        (r["name"], r["measured"], _value(r["ours"]), _value(r["peer"]), r["peer"]["name"], f"{r['ratio']:.2f}",
         "" if r["target"] is None else f"{r['target']:.2f}", {True: "ok", False: "MISSED", None: ""}[r["met"]])
        for r in rows(results)
    ]  # fmt: skip
    head = ("model", "measured", "ours", "theirs", "peer", "ratio", "wanted", "")
    return "\n\n".join([_markdown(HEAD, [_cells(r) for r in results]), _markdown(head, comparisons)])


def _cells(result: Result) -> tuple[str, ...]:
    name, cost = f"{result.quantizer} {result.version}".strip(), result.cost
    spent = (f"{cost['cpu_s']:.1f}", f"{cost['peak_mb']:.0f}") if cost else ("", "")
    if result.absent or result.failed:
        told = f"absent: {result.absent}" if result.absent else f"failed: {result.failed}"
        return (result.model, name, told.replace("|", "/")[:120], "", *spent, "")
    if not result.figures:
        return (result.model, name, "", "", *spent, "")
    sqnr, floats = result.figures["sqnr_db"], result.figures["stays_float"]
    shown = ", ".join(f"{db:.1f}" if len(sqnr) == 1 else f"{part} {db:.1f}" for part, db in sqnr.items())
    return (result.model, name, shown, _task(result.figures), *spent, _ops(floats))


def _task(figures: Mapping[str, Any]) -> str:
    if "lines_same" in figures:
        return f"{figures['lines_same']} of {figures['samples']} lines"
    if "top1_agreement" in figures:
        return f"top-1 {figures['top1_agreement']:.3f}"
    return f"{figures['found']} of {figures['objects']} kept, {figures['invented']} invented"


def _ops(floats: Mapping[str, int], shown: int = 4) -> str:
    named = ", ".join(f"{count} {op}" for op, count in list(floats.items())[:shown])
    more = sum(list(floats.values())[shown:])
    return f"{named} and {more} more" if more else named or "nothing"


def _value(side: Mapping[str, Any]) -> str:
    return f"{side['value']:g} {side['unit']}".strip()


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    cells = [tuple(head), *map(tuple, lines)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(head))]
    drawn = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in cells]
    drawn.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(drawn)
