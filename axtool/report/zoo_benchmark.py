"""Times of a pipeline  ->  a JSON document and text. Measured here, but for the device's time on the chip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from axtool.report.tables import table
from axtool.report.units import header, size
from axtool.runtime.frame import modelled_ms
from axtool.runtime.frame_times import FrameTimes, spread_ms
from axtool.target_file import target_from_dict
from axtool.zoo.loaded import LoadedEntry

SPREAD = ("min", "mean", "p50", "p95", "p99", "max", "stddev")


def benchmark_document(
    loaded: LoadedEntry, axm: Path, picture: Path, times: FrameTimes, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """`asked` are the options that have an effect on the figures: warmup, threads, optimize."""
    artefact, postamble = loaded.model.artefact, loaded.model.postamble
    target = target_from_dict(artefact.target)
    chip_ms, frames = modelled_ms(artefact), len(times.seconds)
    total = float(times.frame_s.sum())
    rows = [
        {
            "operator": name,
            "where": "device" if device else "host",
            "ms_measured": spread_ms(column),
            "share": float(column.sum() / total) if total else 0.0,
        }
        for name, device, column in zip(times.operators, times.on_device, times.seconds.T, strict=True)
    ]
    return {
        **header("axzoo benchmark"),
        "name": loaded.entry.config.name,
        "licence": loaded.entry.config.licence,
        "axm": str(axm),
        "target": target.name,
        "picture": str(picture),
        "postamble": None if postamble is None or postamble.is_empty else postamble.to_dict(),
        "frames": frames,
        **asked,
        "frame_ms_measured": spread_ms(times.frame_s),
        "host_ms_measured": spread_ms(times.host_s),
        "simulated_device_ms_measured": spread_ms(times.device_s),
        "device_ms_modelled": chip_ms,
        "operators": rows,
        "frames_per_s_measured": frames / total,
        "host_frames_per_s_measured": _rate(float(times.host_s.mean())),
        "device_frames_per_s_modelled": _rate(1e-3 * chip_ms / target.cores),
        "cpu_ms_per_frame_measured": 1e3 * times.cpu_s / frames,
        "peak_memory_bytes_measured": times.peak_bytes,
    }


def benchmark_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    frames, warmup = document["frames"], document["warmup"]
    threads = document["threads"]
    lines = [
        f"{document['name']}: {frames} frames of {document['picture']} after {warmup} unmeasured, "
        f"{threads} thread{'s' if threads > 1 else ''}, kernel: {_kernel(document['postamble'])}",
        "",
    ]
    parts = {
        "frame": "frame_ms_measured", "  host": "host_ms_measured",
        "  device, simulated here": "simulated_device_ms_measured",
    }  # fmt: skip
    spreads = [(name, *(f"{document[key][one]:.3f}" for one in SPREAD)) for name, key in parts.items()]
    lines.append(table(("ms a frame, measured", *SPREAD), spreads, right=tuple(range(1, 8))))
    rows = [
        (
            row["operator"], "simulated device" if row["where"] == "device" else "host",
            *(f"{row['ms_measured'][key]:.3f}" for key in ("p50", "mean", "p99")), f"{100 * row['share']:.1f} %",
        )
        for row in document["operators"]
    ]  # fmt: skip
    columns = ("operator", "where", "p50 ms", "mean ms", "p99 ms", "of the frame")
    lines += ["", table(columns, rows, right=(2, 3, 4, 5)), ""]
    host = document["host_frames_per_s_measured"]
    lines += [
        f"on the chip ({document['target']}): device {document['device_ms_modelled']:.3f} ms a frame, "
        f"{document['device_frames_per_s_modelled']:,.0f} frames/s, modelled",
        f"here: {document['frames_per_s_measured']:,.1f} frames/s with the simulated device, "
        f"{'-' if host is None else f'{host:,.1f}'} frames/s of the host's part alone, measured",
        f"processor: {document['cpu_ms_per_frame_measured']:.3f} ms a frame, over all cores, measured",
    ]
    if document["peak_memory_bytes_measured"] is not None:
        lines.append(f"memory: {size(document['peak_memory_bytes_measured'])} of this process at its peak, measured")
    return "\n".join(lines)


def _rate(seconds: float) -> float | None:
    """Frames a second; None where a frame takes no time."""
    return float(1 / seconds) if np.isfinite(seconds) and seconds > 0 else None


def _kernel(postamble: Mapping[str, Any] | None) -> str:
    if postamble is None:
        return "none, the tail is onnxruntime's"
    return str(postamble.get("fused_kernel", postamble.get("kernel")))
