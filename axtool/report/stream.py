"""A run over streams  ->  a JSON document and text: sources, operators, rates. Measured, but for what boards model.

The rate of the device is what its cores give when they never wait, that of the host what one thread gives when it never
waits for a core, that of the system what came out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from axtool.errors import plural
from axtool.report.tables import folded, table
from axtool.report.units import header, seconds, size
from axtool.runtime.devices.seam import DeviceInfo
from axtool.runtime.durations import Durations
from axtool.runtime.op.device_ops import AxRuntimeModel
from axtool.runtime.op.operator import Operator, walk
from axtool.runtime.profiler import Row
from axtool.runtime.streams.counts import SourceRun
from axtool.runtime.streams.run import StreamRun

LABELS = 20  # of a source in the document, the most frequent ones
SHOWN = 4  # of a source in the text
SHOWN_CORES = 16  # a row each
SHOWN_BOARDS = 2  # by name, in the line of the device
WAIT = "wait for a core"
KEPT = 0.9  # of the modelled rate: below, the cores of --realtime have not kept their pace


def stream_document(model: str, run: StreamRun) -> dict[str, Any]:
    """Everything of a run but its frames."""
    rows = _operators(run)
    return {
        **header("run.stream", "ok" if run.stopped_by is None else "interrupted"),
        "model": model,
        "boards": [_board(info) for info in run.boards],
        "realtime": run.options.realtime,
        "replay": bool(run.options.replay),
        "workers": run.workers,
        "max_in_flight": run.in_flight,
        "order": run.options.order,
        "frames": run.frames,
        "seconds_measured": run.seconds,
        "sources": [_source(one) for one in run.sources],
        "operators": rows,
        "operators_frames": run.profiled_frames,
        "cores": _cores(run),
        "rates": _rates(run, rows),
        "process": {
            "cpu_percent_measured": run.resources.cpu_percent,
            "cpu_ms_per_frame_measured": 1e3 * run.resources.cpu_s / run.frames if run.frames else None,
            "processors": run.resources.core_count,
            "peak_memory_bytes_measured": run.resources.peak_rss_bytes,
        },
    }


def _source(one: SourceRun) -> dict[str, Any]:
    reader, width_height = one.source.reader, one.source.size
    found = sorted(one.found.items(), key=lambda item: (-item[1][0], item[0]))
    return {
        "source": reader.name,
        "kind": one.source.kind,
        "live": reader.live,
        "size": None if width_height is None else list(width_height),
        "frames": one.frames,
        "frames_per_s_measured": one.fps,
        "source_frames_per_s": None if one.source.fps is None else float(one.source.fps),
        "dropped_frames": reader.dropped,
        "damaged_packets": reader.damaged,
        "latency_ms_measured": _spread(one.latency, 1e3) if one.frames else None,
        "queue_depth_measured": None if one.depths.mean is None else {"mean": one.depths.mean, "max": one.depths.most},
        "found": [{"label": label, "objects": n, "frames": frames} for label, (n, frames) in found[:LABELS]],
        "other_labels": max(len(found) - LABELS, 0),
        "saved": None if one.saved is None or not one.frames else str(one.saved),
    }


def _operators(run: StreamRun) -> list[dict[str, Any]]:
    """Stages, then operators in the order of the pipeline; those of the copies that other sources run are one row.

    Of the device, what its cores were taken; the rest of the operator's time is the wait for one of them. Operators are
    those of the frames behind the first full window, where there are such: the first ones pay for what is loaded late.
    """
    busy, frames = Durations(), run.profiled_frames
    for row in run.profiler.rows("core"):
        busy.update(row.durations)
    made = [_row(row.name, "source", row.durations, run.frames) for row in run.profiler.rows("stage")]
    for row in _merged(run.profiler.rows("operator"), run.pipelines):
        if not isinstance(row.operator, AxRuntimeModel) or not busy.count:
            on_device = isinstance(row.operator, AxRuntimeModel)
            made.append(_row(row.name, "device" if on_device else "host", row.durations, frames))
            continue
        made.append(_row(row.name, "device", busy, frames))
        waited = Durations()
        waited.add(max(row.durations.total_s - busy.total_s, 0.0))
        made.append(_row(WAIT, "wait", waited, frames, calls=row.durations.count))
    return made


def _row(name: str, where: str, durations: Durations, frames: int, calls: int = 0) -> dict[str, Any]:
    """`calls` where only their sum is known: then there is a mean and no quantile."""
    count = calls or durations.count
    mean = durations.total_s / count if count else 0.0
    each = {"mean": 1e6 * mean, "p50": None, "p99": None, "max": None} if calls else _spread(durations, 1e6)
    return {
        "operator": name,
        "where": where,
        "calls": count,
        "us_measured": each,
        "us_per_frame_measured": 1e6 * durations.total_s / frames if frames else None,
        "effective_frames_per_s_measured": 1 / mean if mean > 0 and where != "wait" else None,
    }


def _merged(rows: Sequence[Row], pipelines: Iterable[Operator]) -> list[Row]:
    """Rows of the same place in pipelines that are copies as one, in the order of the pipeline; others behind them."""
    places = {id(leaf): place for one in pipelines for place, leaf in enumerate(_leaves(one))}
    made: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: places.get(id(row.operator), len(places))):
        key = places.get(id(row.operator), id(row.operator))
        if key in made:
            made[key].durations.update(row.durations)
        else:
            made[key] = row
    return list(made.values())


def _leaves(operator: Operator) -> Iterator[Operator]:
    return (one for one in walk(operator) if not one._parts)


def _spread(durations: Durations, factor: float) -> dict[str, float | None]:
    return {
        "mean": factor * durations.mean_s, "p50": factor * durations.quantile(0.5),
        "p99": factor * durations.quantile(0.99), "max": factor * durations.max_s,
    }  # fmt: skip


def _cores(run: StreamRun) -> list[dict[str, Any]]:
    return [
        {
            "core": core.name,
            "model": core.model,
            "alive": core.alive,
            "frames": core.frames,
            "busy_share_measured": min(core.busy_s / run.seconds, 1.0) if run.seconds else None,
            "modelled_ms_per_frame": 1e3 * core.modelled_s / core.frames if core.frames else None,
            "switches": core.switches,
            "switch_ms_modelled": 1e3 * core.switch_s,
        }
        for core in run.cores
    ]


def _rates(run: StreamRun, rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Frames a second."""
    cores = [core for core in run.cores if core.alive]
    frames = sum(core.frames for core in run.cores)
    modelled = sum(core.modelled_s for core in run.cores)
    host_us, device_us = (
        sum(row["us_per_frame_measured"] or 0.0 for row in rows if row["where"] == where)
        for where in ("host", "device")
    )
    return {
        "device_frames_per_s_modelled": len(cores) * frames / modelled if modelled > 0 else None,
        "device_frames_per_s_measured": 1e6 * len(cores) / device_us if device_us > 0 else None,
        "host_frames_per_s_measured": 1e6 / host_us if host_us > 0 else None,
        "system_frames_per_s_measured": run.fps,
    }


def _board(info: DeviceInfo) -> dict[str, Any]:
    return {
        "name": info.name, "board_model": info.board_model, "board_type": info.board_type, "cores": info.cores,
        "clock_hz": info.clock_hz, "memory_bytes": info.memory_bytes, "provenance": info.provenance,
    }  # fmt: skip


def stream_text(document: Mapping[str, Any], *, stats: bool = False) -> str:
    """The same for people; with `stats` also operators, cores and rates."""
    parts = [_sources_text(document)]
    if stats:
        parts += [_operators_text(document), _cores_text(document), _rates_text(document)]
    else:
        parts.append(f"system: {_rate(document['rates']['system_frames_per_s_measured'])}, measured")
    return "\n\n".join(part for part in parts if part)


def _sources_text(document: Mapping[str, Any]) -> str:
    rows = []
    for one in document["sources"]:
        latency, depth = one["latency_ms_measured"], one["queue_depth_measured"]
        rows.append(
            (
                one["source"], f"{one['frames']:,}", _number(one["frames_per_s_measured"]),
                *("-" if latency is None else seconds(latency[key] / 1e3) for key in ("p50", "p99")),
                f"{one['dropped_frames']:,}" if one["live"] else "-",
                "-" if depth is None else f"{depth['mean']:.1f}", _found(one["found"], one["other_labels"]),
            )
        )  # fmt: skip
    what = "interrupted after " if document["status"] == "interrupted" else ""
    title = (
        f"{document['model']}: {what}{plural(document['frames'], 'frame')} of "
        f"{plural(len(document['sources']), 'source')} in {seconds(document['seconds_measured'])}, measured here"
    )
    if document["replay"]:
        title += "; outputs are replayed: what was found is in other frames"
    columns = ("source", "frames", "frames/s", "latency p50", "p99", "dropped", "queue", "found")
    may_go = (6, 4) if any(one["live"] for one in document["sources"]) else (5, 6, 4)  # a file drops nothing
    return f"{title}\n\n" + table(columns, rows, right=(1, 2, 3, 4, 5, 6), prose=(7,), droppable=may_go, shorten=(0,))


def _found(found: Sequence[Mapping[str, Any]], others: int) -> str:
    more = max(len(found) - SHOWN, 0) + others
    shown = [f"{one['label']} {one['objects']:,}" for one in found[:SHOWN]]
    return ", ".join([*shown, *([f"{more:,} more"] if more else [])]) or "-"


def _operators_text(document: Mapping[str, Any]) -> str:
    rows = []
    for row in document["operators"]:
        each, fps = row["us_measured"], row["effective_frames_per_s_measured"]
        device = "simulated device" if row["where"] == "device" else row["where"]
        rows.append(
            (
                row["operator"], device, f"{each['mean']:,.1f}", "-" if each["p99"] is None else f"{each['p99']:,.1f}",
                _number(fps), f"{row['calls']:,}",
            )
        )  # fmt: skip
    columns = ("element", "where", "time µs", "p99 µs", "effective FPS", "calls")
    title = f"operators, a call of {plural(document['frames'], 'frame')}, all there were, measured:"
    if document["operators_frames"] < document["frames"]:
        title = (
            f"operators, a call of the {document['operators_frames']:,} frames behind the first full window, measured:"
        )
    return table(columns, rows, right=(2, 3, 4, 5), droppable=(4,), shorten=(0,), title=title)


def _cores_text(document: Mapping[str, Any]) -> str:
    """A row for each core, or for each board where there are many."""
    cores = document["cores"]
    if len(cores) > SHOWN_CORES:
        return _boards_text(cores)
    rows = [
        (
            core["core"], core["model"] or "-", f"{core['frames']:,}", _share(core["busy_share_measured"]),
            "-" if core["modelled_ms_per_frame"] is None else f"{core['modelled_ms_per_frame']:.3f}",
            f"{core['switches']:,}", "" if core["alive"] else "lost",
        )
        for core in cores
    ]  # fmt: skip
    columns = ("core", "model", "frames", "busy, measured", "ms a frame, modelled", "switches", "")
    return table(columns, rows, right=(2, 3, 4, 5), shorten=(1,)) if rows else ""


def _boards_text(cores: Sequence[Mapping[str, Any]]) -> str:
    boards: dict[str, list[Mapping[str, Any]]] = {}
    for core in cores:
        boards.setdefault(core["core"].rpartition("/")[0], []).append(core)
    rows = []
    for board, own in boards.items():
        busy = [core["busy_share_measured"] or 0.0 for core in own]
        lost = sum(not core["alive"] for core in own)
        rows.append(
            (
                board, len(own), sum(core["frames"] > 0 for core in own), f"{sum(core['frames'] for core in own):,}",
                _share(sum(busy) / len(busy)), f"{sum(core['switches'] for core in own):,}",
                f"{lost} lost" if lost else "",
            )
        )  # fmt: skip
    columns = ("board", "cores", "used", "frames", "busy, measured", "switches", "")
    return table(columns, rows, right=(1, 2, 3, 4, 5))


def _share(value: float | None) -> str:
    return f"{100 * (value or 0):.1f} %"


def _rates_text(document: Mapping[str, Any]) -> str:
    rates, process = document["rates"], document["process"]
    boards, cores = document["boards"], sum(board["cores"] for board in document["boards"])
    names = ", ".join(board["name"] for board in boards) if len(boards) <= SHOWN_BOARDS else f"{len(boards)} boards"
    how = "replayed" if document["replay"] else "simulated"
    if document["realtime"]:
        how += " at the modelled pace" if _keeps_pace(rates) else " but slower than modelled"
    latency = [one["latency_ms_measured"] for one in document["sources"] if one["latency_ms_measured"]]
    lines = [
        f"device: {_rate(rates['device_frames_per_s_modelled'])} on {plural(cores, 'core')} of {names}, modelled; "
        f"{_rate(rates['device_frames_per_s_measured'])} here, {how}, measured",
        f"host:   {_rate(rates['host_frames_per_s_measured'])} by one thread, measured",
        f"system: {_rate(rates['system_frames_per_s_measured'])} {_together(document)}, measured",
    ]
    if latency:
        p50, p99 = (max(one[key] for one in latency) for key in ("p50", "p99"))
        which = " of the slowest source" if len(latency) > 1 else ""
        lines.append(
            f"latency{which}: p50 {seconds(p50 / 1e3)}, p99 {seconds(p99 / 1e3)}, from source to result, measured"
        )
    if process["cpu_ms_per_frame_measured"] is not None:
        peak = process["peak_memory_bytes_measured"]
        memory = "" if peak is None else f"; memory: {size(peak)} at the peak"
        lines.append(
            f"processor: {process['cpu_percent_measured']:.0f} % of one of {process['processors']}, "
            f"{process['cpu_ms_per_frame_measured']:.3f} ms a frame{memory}; measured, of this process"
        )
    return folded("\n".join(lines), hang=8)


def _together(document: Mapping[str, Any]) -> str:
    """How many frames are under way at once, and who works on them."""
    if document["max_in_flight"] == 1 and len(document["sources"]) == 1:
        return "with one frame after the other in one thread"
    frames = plural(document["max_in_flight"], "frame")
    return f"with {plural(document['workers'], 'worker')} and up to {frames} in flight a source"


def _keeps_pace(rates: Mapping[str, float | None]) -> bool:
    """Whether cores that are to take their modelled time did so on this machine."""
    modelled, measured = rates["device_frames_per_s_modelled"], rates["device_frames_per_s_measured"]
    return modelled is None or measured is None or measured >= KEPT * modelled


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} frames/s"
