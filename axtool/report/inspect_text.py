"""The document of `info`  ->  text: a summary, and the parts that the user asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axtool.errors import plural
from axtool.ops.arithmetic import LIMITS
from axtool.report.compiled import tried, widened_lines, worst_lines
from axtool.report.postambles import kernel_lines
from axtool.report.prepared import prepared_text
from axtool.report.regions import in_words
from axtool.report.support import support_text
from axtool.report.tables import table
from axtool.report.units import large, shape, size


def info_text(document: Mapping[str, Any], *, support: bool, layers: bool, tensors: bool, memory: bool) -> str:
    """The summary first, then what was asked for."""
    parts = [_summary(document)]
    if support:
        parts.append(support_text(document["support"]))
    devices = [stage for stage in document["stages"] if stage["kind"] == "device" and "slots" in stage]
    for stage in devices:
        if layers:
            rows = [(x["index"], x["op"], x["name"], x["output"], ", ".join(x["origin"])) for x in stage["layers"]]
            parts.append(
                table(
                    ("#", "op", "layer", "output", "from ONNX nodes"),
                    rows,
                    title="Layers",
                    right=(0,),
                    droppable=(4, 3),
                )
            )
        if tensors:
            parts.append(_tensors(stage["tensors"]))
        if memory:
            parts.append(_memory(stage))
    return "\n\n".join(parts)


def _summary(document: Mapping[str, Any]) -> str:
    host = [row for row in document["support"] if row["kind"] == "host"]
    nodes = len(document["support"])
    share = 100 * document["device_macs"] / max(document["macs"], 1)
    lines = [f"{document['file']}: {document['kind']}, {size(document['file_bytes'])}, target {document['target']}"]
    lines += [f"  input   {s['name']}  {s['dtype']} {shape(s['shape'])}" for s in document["inputs"]]
    lines += [f"  output  {s['name']}  {s['dtype']} {shape(s['shape'])}" for s in document["outputs"]]
    lines.append(f"  ops     {', '.join(f'{count} {op}' for op, count in document['ops'].items())}")
    lines.append(f"  work    {large(document['macs'])} MACs, {share:.1f} % on the device")
    if "parameters" in document:
        lines.append(f"  weights {large(document['parameters'])} parameters")
    lines.append(
        f"  split   {nodes - len(host)} of {plural(nodes, 'node')} after passes on the device: "
        + _kinds([stage["kind"] for stage in document["stages"]])
        + ("" if not host else f"; host: {_few([row['op'] for row in host])} (--support says why)")
    )
    lines += _details(document)
    return "\n".join(lines)


def _kinds(kinds: Sequence[str], shown: int = 8) -> str:
    """The stages in their order; of many, the first and how many."""
    if len(kinds) <= shown:
        return " | ".join(kinds)
    return f"{' | '.join(kinds[:3])} | … ({len(kinds)} stages, {kinds.count('device')} of them on the device)"


def _export(export: Mapping[str, Any] | None) -> list[str]:
    """The exporter's task, and the licence first of all that it says."""
    if not export:
        return []
    words = [f"licence {export['license']}"] if export.get("license") else ["no licence"]
    words += [f"task {export['task']}", plural(len(export.get("names", ())), "class name")]
    if export.get("kpt_shape"):
        words.append(f"{export['kpt_shape'][0]} keypoints of {export['kpt_shape'][1]} values")
    return [f"  export  {', '.join(words)}" + (f": {export['description']}" if export.get("description") else "")]


def _details(document: Mapping[str, Any]) -> list[str]:
    lines = _export(document["export"])
    if document["kind"] == "axm":
        for stage in document["stages"]:
            if stage["kind"] == "device":
                memory = stage["memory_bytes"]
                lines.append(
                    f"  plan    {plural(len(stage['layers']), 'layer')}, {plural(stage['commands'], 'command')}, "
                    f"{size(memory.get('ocm', 0))} on chip, {size(memory.get('ext', 0))} external, "
                    f"{size(stage['constant_bytes'])} of it constants"
                )
        quantization, provenance = document["quantization"], document["provenance"]
        if provenance.get("regions"):
            lines.append(f"  regions {in_words(provenance['regions'])}")
        samples = f", {plural(quantization['samples'], 'sample')}" if quantization.get("samples") else ""
        lines.append(f"  ranges  {quantization.get('method', '')}{samples}{tried(quantization.get('trials') or ())}")
        lines += _recipe(quantization.get("recipe"))
        lines += [f"  {head:<7} {text}" for head, text in worst_lines(quantization.get("layers"))]
        lines.append(f"  from    {provenance.get('model')} (sha256 {provenance.get('sha256', '')[:12]}…), "
                     f"axtool {provenance.get('axtool')}")  # fmt: skip
        lines += _directives(provenance.get("directives"))
        if document["task"]:
            task = document["task"]
            labels = task.get("labels") or ()
            decode = f":{task['decode']}" if task.get("decode") else ""
            lines.append(f"  task    {task['kind']}{decode}, {plural(len(labels), 'label') if labels else 'no labels'}")
        if document["preparation"]:
            lines.append(f"  picture {prepared_text(document['preparation'])}")
        return lines + (kernel_lines(document["file"], document["kernels"]) or [_no_kernel(document["stages"])])
    lines.append(
        f"  file    opset {document['opset']}, IR {document['ir_version']}, {document['producer'] or 'no producer'}"
    )
    lines += [f"  data    {item['file']} {size(item['bytes'])}" for item in document["external_files"]]
    lines += [f"  fault   {fault}" for fault in document["weight_faults"]]
    if document["random_ops"]:
        lines.append(f"  random  {', '.join(document['random_ops'])}: results differ from run to run")
    return lines


def _no_kernel(stages: Sequence[Mapping[str, Any]]) -> str:
    """Why no kernel is named."""
    kinds = [stage["kind"] for stage in stages]
    if kinds[-1] == "device":
        return "  kernels none needed: the device makes the outputs itself"
    return (
        "  kernels none of the built-in ones fits by shape" if "device" in kinds else "  kernels none: no device part"
    )


def _directives(told: Mapping[str, Any] | None) -> list[str]:
    """For which layers the user fixed what."""
    entries = [entry for entry in (told or {}).get("directives", ()) if isinstance(entry, Mapping)]
    if not entries:
        return []
    words = [
        f"{', '.join(map(str, entry.get('layers', ())))} ({', '.join(sorted(set(entry) - {'layers'}))})"
        for entry in entries
    ]
    return [f"  told    {plural(len(words), 'directive')}: {'; '.join(words)}"]


def _recipe(recipe: Mapping[str, Any] | None) -> list[str]:
    """What the recipe is called, and what its entries say of how many nodes."""
    if not recipe:
        return []
    told = f"{recipe['name']}: {recipe['description']}" if recipe.get("description") else recipe["name"]
    lines = [f"  recipe  {told}"]
    for entry, hit in zip(recipe.get("layers", ()), recipe["resolved"].get("layers", ()), strict=True):
        says = [entry["format"]] if "format" in entry else []
        says += [f"range {entry['range'][0]:g} to {entry['range'][1]:g}"] if "range" in entry else []
        says += [entry.get("method", "percentile")] if "method" in entry or "percentile" in entry else []
        says += [f"{entry['percentile']:g}"] if "percentile" in entry else []
        says += scales_said(entry)
        if not (hit["nodes"] or hit["tensors"]):
            lines.append(f"          {' '.join(says)}: no node")
            continue
        what = plural(len(hit["nodes"]), "node") if hit["nodes"] else "input"
        lines.append(f"          {' '.join(says)}: {what} ({_shortened(hit['nodes'] or hit['tensors'])})")
    bought = recipe["resolved"]
    told = widened_lines(bought.get("int16", ()), bought.get("mixed", ()))
    return lines + [f"  {head:<7} {text}" for head, text in told]


def scales_said(entry: Mapping[str, Any]) -> list[str]:
    """What an entry of a recipe says of scales and turns, in words."""
    says = [f"weights per {entry['weights']['granularity']}"] if "weights" in entry else []
    if style := entry.get("activations"):
        says.append("symmetric" if style["symmetric"] else "asymmetric")
        says += ["but after Relu"] if style["asymmetric_after_relu"] else []
    return says + ([f"in turn {entry['turn']}"] if "turn" in entry else [])


def _shortened(names: Sequence[str], shown: int = 3) -> str:
    return ", ".join(names[:shown]) + (", …" if len(names) > shown else "")


def _tensors(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        (
            row["name"], shape(row["onnx_shape"]), row["format"], _step(row),
            row["zero_point"],
            _range(row),
        )
        for row in rows
    ]  # fmt: skip
    return table(
        ("tensor", "shape", "format", "scale", "zero point", "range"),
        cells,
        title="Tensors",
        right=(3, 4),
        droppable=(4, 3),
        shorten=(0,),
    )


def _step(row: Mapping[str, Any]) -> str:
    """The real size of a step."""
    return f"2^-{row['fraction_bits']}" if row["format"] == "fx32" else f"{row['scale']:.6g}" if row["scale"] else "-"


def _range(row: Mapping[str, Any]) -> str:
    """The real numbers that a tensor can hold."""
    if row["format"] == "fx32":
        low, high = (level * 2.0 ** -row["fraction_bits"] for level in LIMITS["int32"])
        return f"{low:.4g} … {high:.4g}"
    if not row["scale"]:
        return "-65504 … 65504" if row["format"] == "fp16" else "-"
    low, high = ((level - row["zero_point"]) * row["scale"] for level in LIMITS[row["format"]])
    return f"{low:.4g} … {high:.4g}"


def _memory(stage: Mapping[str, Any]) -> str:
    cells = [
        (s["tensor"], s["memory"], f"{s['offset']:,}", f"{s['bytes']:,}", s["first_layer"], s["last_layer"])
        for s in stage["slots"]
    ]
    columns = ("tensor", "memory", "offset (bytes)", "size (bytes)", "first layer", "last layer")
    return table(columns, cells, title="Memory plan", right=(2, 3, 4, 5), droppable=(5, 4), shorten=(0,))


def _few(names: Sequence[str]) -> str:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    shown = [f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    return ", ".join(shown[:6]) + (", …" if len(shown) > 6 else "")
