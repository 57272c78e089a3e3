"""What `compile` made  ->  a JSON document and the summary lines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from axtool.artefact.axm import Artefact, DeviceStage
from axtool.errors import plural
from axtool.report.prepared import effective, prepared_text
from axtool.report.regions import in_words
from axtool.report.units import header, large, seconds, size
from axtool.target_file import target_from_dict
from axtool.timing.clock import time_plan


def compiled_document(
    artefact: Artefact,
    out: Path,
    given: Collection[str] | None = None,
    *,
    qdq: Path | None = None,
    elapsed_s: float = 0.0,
) -> dict[str, Any]:
    """The document of `axtool compile` for the file it wrote, and for the QDQ model beside it.

    Cycles and latency are modelled, not measured. `given` are the steps of the input preparation that the user chose,
    None where nothing of it is a default.
    """
    preparation = effective(artefact.preparation)
    target = target_from_dict(artefact.target)
    timings = [time_plan(stage.plan, target) for stage in artefact.device_stages]
    latency_s = sum(timing.latency_s for timing in timings)
    on_device = [row for row in artefact.support if row["kind"] == "device"]
    recipe = artefact.quantization.get("recipe") or {}
    return {
        **header("compile"),
        "file": str(out),
        "file_bytes": out.stat().st_size,
        "qdq": None if qdq is None else {"file": str(qdq), "file_bytes": qdq.stat().st_size},
        "target": target.name,
        "model": artefact.provenance.get("model", ""),
        "stages": [_stage(stage) for stage in artefact.stages],
        "nodes": {"device": len(on_device), "host": len(artefact.support) - len(on_device)},
        "regions": dict(artefact.provenance.get("regions", {})),
        "macs": {
            "device": sum(row["macs"] for row in on_device),
            "host": sum(row["macs"] for row in artefact.support if row["kind"] == "host"),
        },
        "preparation": preparation,
        "preprocess": artefact.provenance.get("preprocess", ""),
        "preparation_defaults": []
        if given is None or preparation is None
        else [key for key in ("resize", "color", "scale") if key not in given],
        "calibration": {
            **{key: artefact.quantization.get(key) for key in ("method", "samples", "bias_corrected", "trials")},
            "recipe": recipe.get("name", ""),
            "int16": recipe.get("resolved", {}).get("int16", []),
            "mixed": recipe.get("resolved", {}).get("mixed", []),
        },
        "layers": artefact.quantization.get("layers"),
        "elapsed_s_measured": elapsed_s,
        "device": {
            "cycles_modelled": sum(timing.total for timing in timings),
            "latency_ms_modelled": 1e3 * latency_s,
            "cores": target.cores,
            "frames_per_s_modelled": target.cores / latency_s if latency_s else 0.0,
            "peak_ocm_bytes": max((timing.peak_ocm_bytes for timing in timings), default=0),
            "ocm_bytes": target.memory.ocm_bytes,
            "external_read_bytes": sum(timing.read_bytes for timing in timings),
            "external_write_bytes": sum(timing.write_bytes for timing in timings),
        },
    }


def compiled_text(document: dict[str, Any]) -> str:
    """The same for people."""
    device, nodes, macs, qdq = document["device"], document["nodes"], document["macs"], document["qdq"]
    share = 100 * macs["device"] / max(macs["device"] + macs["host"], 1)
    calibration = document["calibration"]
    samples = f", {plural(calibration['samples'], 'sample')}" if calibration["samples"] else ""
    total = plural(nodes["device"] + nodes["host"], "node")
    return "\n".join(
        (
            f"{document['file']}: {size(document['file_bytes'])} for {document['target']}",
            f"  device      {nodes['device']} of {total} after passes, {share:.1f} % of "
            f"{large(macs['device'] + macs['host'])} MACs, {plural(len(document['stages']), 'stage')}",
            *([f"  regions     {in_words(document['regions'])}"] if document["regions"] else []),
            f"  input       {_input(document)}",
            f"  calibration {calibration['method']}{samples}{tried(calibration['trials'])}",
            *([f"  recipe      {calibration['recipe']}"] if calibration["recipe"] != "default" else []),
            *(f"  {head:<11} {text}" for head, text in widened_lines(calibration["int16"], calibration["mixed"])),
            *(f"  {head:<11} {text}" for head, text in worst_lines(document["layers"])),
            f"  modelled    {device['cycles_modelled']:,} cycles, {seconds(device['latency_ms_modelled'] / 1e3)}"
            f"{_together(device)}",
            f"  memory      {size(device['peak_ocm_bytes'])} of {size(device['ocm_bytes'])} on chip, "
            f"{size(device['external_read_bytes'])} read, {size(device['external_write_bytes'])} written",
            *([f"  QDQ         {qdq['file']}: {size(qdq['file_bytes'])}"] if qdq else []),
            f"  elapsed     {seconds(document['elapsed_s_measured'])}, measured here",
        )
    )


def _together(device: Mapping[str, Any]) -> str:
    """What all cores do together; "" of one core, of which the latency says it."""
    if device["cores"] == 1:
        return ""
    return f" a frame on one core, {device['frames_per_s_modelled']:,.1f} frames/s on all {device['cores']}"


def tried(trials: Sequence[Mapping[str, Any]]) -> str:
    """How the recipe was chosen, in a few words; "" where there was no choice."""
    if not trials:
        return ""
    figures = [trial["sqnr_db"] for trial in trials]
    gains = [f"{trial['refines']} {trial['gain_db']:+.1f} dB" for trial in trials if trial.get("gain_db") is not None]
    told = f"; best of {len(trials)} recipes on samples held back ({min(figures):.1f} to {max(figures):.1f} dB"
    return f"{told}; {', '.join(gains)})" if gains else f"{told})"


def widened_lines(steps: Sequence[Mapping[str, Any]], mixed: Sequence[Mapping[str, Any]] = ()) -> list[tuple[str, str]]:
    """(head, text) of the lines that say what a budget bought: tensors in int16, nodes in fp16 and fx32, and what was
    reached at what cost.
    """
    lines = []
    if steps:
        names = ", ".join(f"'{step['tensor']}'" for step in steps[:3]) + (", …" if len(steps) > 3 else "")
        lines.append(("int16", f"{plural(len(steps), 'tensor')}: {names}"))
    for kind in sorted({step["format"] for step in mixed}):
        mine = [step for step in mixed if step["format"] == kind]
        count = len({name for step in mine for name in step["outputs"]})
        names = ", ".join(f"'{step['node']}'" for step in mine[:3]) + (", …" if len(mine) > 3 else "")
        lines.append((kind, f"{plural(count, 'node')}: {names}"))
    if lines:
        last = max((*steps, *mixed), key=lambda step: step["sqnr_db"])
        reached = f"{last['sqnr_db']:.1f} dB on samples held back, {last['cycles_added']:+.1%} of modelled cycles"
        head, text = lines[-1]
        lines[-1] = (head, f"{text}; {reached}")
    return lines


def worst_lines(layers: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """(head, text) of each line: how much was checked, then the layers that lose most, with cause and what helps."""
    if not layers or not layers["checked"]:
        return []
    checked = f"{plural(layers['checked'], 'layer')} checked on {plural(layers['samples'], 'sample')}"
    if not layers["worst"]:
        return [("layers", f"{checked}: each loses next to nothing")]
    lines = [("layers", f"{checked}; those that lose most on their own, and their share of what all lose:")]
    for row in layers["worst"]:
        figure = "no signal" if row["single_sqnr_db"] is None else f"{row['single_sqnr_db']:.1f} dB"
        share = f"{100 * row['noise_share']:.0f} %"
        lines.append(("", f"{figure}, {share}: {row['op']} '{row['name']}': {row['cause']}; {row['advice']}"))
    return lines


def _input(document: dict[str, Any]) -> str:
    if document["preprocess"]:
        return f"by {document['preprocess']}: give --preprocess to run and verify too"
    defaults = document["preparation_defaults"]
    given = [key for key in ("resize", "color", "scale") if key not in defaults]
    return prepared_text(document["preparation"], given)


def _stage(stage: Any) -> dict[str, Any]:
    kind = "device" if isinstance(stage, DeviceStage) else "host"
    row: dict[str, Any] = {"kind": kind, "inputs": list(stage.inputs), "outputs": list(stage.outputs)}
    if isinstance(stage, DeviceStage):
        row |= {"layers": len(stage.plan.program.layers), "commands": len(stage.plan.commands)}
    return row
