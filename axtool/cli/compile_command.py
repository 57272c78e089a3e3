"""`axtool compile`: model.onnx and calibration data in, one .axm file out."""

from pathlib import Path
from typing import Annotated

import typer

from axtool.cli import options as o
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, set_up
from axtool.config import refuse_overwrite
from axtool.errors import UsageError
from axtool.legible import legible_values

QUANT = "Calibration"
TASK_HELP = (
    "What the outputs mean, for run --save and verify: classification; detection:DECODER with yolo, yolo-anchored, "
    "yolox, centerface, dbnet, retinaface, ssd or detr; pose:DECODER:KEYPOINTS with yolo, yolo-anchored or retinaface; "
    "segmentation:DECODER with yolo, yolo-anchored or yolact; semantic, a label a pixel. By default what the "
    "exporter's metadata say."
)
MEANING = "What the outputs mean (for run --save, and verify)"
RECIPE_HELP = (
    "A YAML file that says how to quantize, and what is different where; or by name: default, plain and everything "
    "(-O 1, 0, 2), auto, mac-only, int16, symmetric, per-tensor, detr-mixed, segformer-int8, segformer-int8-fx32-in."
)
CACHE_HELP = "Keep what calibration saw, and take it from there next time: no float pass for other recipes."
METHOD_HELP = "Of the ranges: minmax, percentile, mse or entropy. By default recipes with several are tried."
SQNR_HELP = (
    "Keep tensors in int16 (--recipe auto: nodes in fp16 and fx32, too) until the mean SQNR of the outputs reaches "
    "this, on samples held back."
)
CYCLES_HELP = (
    "Keep tensors in int16 (with auto: as above), the most useful first, while modelled cycles grow by no more than "
    "this."
)
EMIT_HELP = "Also write the quantized model as QDQ ONNX, which onnxruntime runs; by default beside --out."
DISABLE_HELP = "Leave out a pass or an optimisation (repeatable); NAME:2 is the second place of one with several."
ENABLE_HELP = "Add an optimisation that the target leaves off, such as replicate-labels (approximate)."
EXPLAIN_PASSES_HELP = "Also compile without the optimisations, and print the cycles that each is worth (slow)."
LAYER_CHECK_HELP = "Name the layers that lose most, on a few samples (not with -O 0)."
OPTIMIZE_HELP = (
    "0: plain ranges and biases; 1: a few recipes, tried on samples held back, and the best kept; 2: weights rounded "
    "for the data, too, where that is better, and the most useful tensors in int16 for 5 % of cycles (slow). "
    "[default: 1]"
)


def compile_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The trained model.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.axm", help="Default: MODEL.axm in this folder.")
    ] = None,
    emit_: Annotated[
        str | None, typer.Option("--emit", metavar="qdq[=FILE.onnx]", help=EMIT_HELP, show_default=False)
    ] = None,
    target: o.Target = "qc-u-1d7-16mb",
    directives: o.Directives = None,
    custom_ops: o.CustomOps = None,
    calib: Annotated[
        list[str] | None,
        typer.Option(
            "--calib", metavar="PATH", help="A folder of images, .npz, .npy, or random:N.", rich_help_panel=QUANT
        ),
    ] = None,
    ranges: Annotated[
        Path | None,
        typer.Option("--ranges", metavar="FILE.json", help="Ranges instead of calibration.", rich_help_panel=QUANT),
    ] = None,
    save_ranges: Annotated[
        Path | None, typer.Option("--save-ranges", metavar="FILE.json", help="Write them.", rich_help_panel=QUANT)
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="NAME|FILE", help=RECIPE_HELP, rich_help_panel=QUANT)
    ] = None,
    optimize: Annotated[
        int | None,
        typer.Option("--optimize", "-O", min=0, max=2, metavar="N", help=OPTIMIZE_HELP, rich_help_panel=QUANT),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", metavar="METHOD", help=METHOD_HELP, rich_help_panel=QUANT),
    ] = None,
    percentile: Annotated[
        float | None,
        typer.Option("--percentile", help="Per cent of the values inside (99.999).", rich_help_panel=QUANT),
    ] = None,
    budget_sqnr: Annotated[
        float | None,
        typer.Option("--budget-sqnr", metavar="DB", help=SQNR_HELP, rich_help_panel=QUANT, show_default=False),
    ] = None,
    budget_cycles: Annotated[
        str | None,
        typer.Option("--budget-cycles", metavar="+N%", help=CYCLES_HELP, rich_help_panel=QUANT, show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Use at most this many samples.", rich_help_panel=QUANT)
    ] = None,
    calib_cache: Annotated[
        str | None,
        typer.Option("--calib-cache", metavar="DIR|FILE", help=CACHE_HELP, rich_help_panel=QUANT),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Calibrating processes.", rich_help_panel=QUANT)] = 1,
    resize: o.Resize = None,
    mean: o.Mean = None,
    std: o.Std = None,
    scale: o.Scale = None,
    color: o.Color = None,
    layout: o.Layout = None,
    fill: o.Fill = None,
    preprocess: o.Preprocess = None,
    input_shape: o.InputShape = None,
    dim: o.Dim = None,
    outputs: Annotated[
        str | None,
        typer.Option("--outputs", metavar="A,B", help="End the model at these tensors.", rich_help_panel=o.GRAPH),
    ] = None,
    permissive: o.Permissive = False,
    fix_fp16: o.FixFp16 = False,
    disable_pass: Annotated[
        list[str] | None, typer.Option("--disable-pass", metavar="NAME", help=DISABLE_HELP, rich_help_panel=o.GRAPH)
    ] = None,
    enable_pass: Annotated[
        list[str] | None, typer.Option("--enable-pass", metavar="NAME", help=ENABLE_HELP, rich_help_panel=o.GRAPH)
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="KIND", help=TASK_HELP, rich_help_panel=MEANING),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE|A,B",
            help="Names of the classes: A,B or a file, one a line.",
            rich_help_panel=MEANING,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Tell why each tensor has its format and range.", rich_help_panel=QUANT)
    ] = False,
    explain_passes: Annotated[
        bool, typer.Option("--explain-passes", help=EXPLAIN_PASSES_HELP, rich_help_panel=o.GRAPH)
    ] = False,
    layer_check: Annotated[
        bool,
        typer.Option("--layer-check/--no-layer-check", help=LAYER_CHECK_HELP, rich_help_panel=QUANT),
    ] = True,
    check: Annotated[
        bool, typer.Option("--check", help="Run onnxruntime after each pass and verify each step.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compile MODEL.onnx: cut, calibrate, quantize, plan, and write one .axm file.

    \b
    Examples:
      axtool compile model.onnx --calib images/ --resize letterbox -o model.axm
      axtool compile det.onnx --calib images/ --task detection:yolo --labels names.txt
      axtool compile model.onnx --calib images/ -o model.axm --emit qdq
      axtool compile model.onnx --calib images/ --recipe mac-only
      axtool compile model.onnx --calib images/ --budget-sqnr 30 --budget-cycles +5%
      axtool compile model.onnx --ranges ranges.json --target my-chip.yaml --directives tiles.yaml
    """
    set_up(quiet=quiet, verbose=verbose)
    if calib and ranges is not None:
        raise UsageError("--calib and --ranges are both given", hint="give one of them", code="bad-option")
    from axtool.cli.task import task_of

    if percentile is not None and method not in (None, "percentile"):
        hint = "leave out --percentile, or use --method percentile"
        raise UsageError(f"--percentile means nothing with --method {method}", hint=hint, code="bad-option")
    from axtool.artefact.axm import is_axm
    from axtool.compiler import compile_file
    from axtool.graph.front import Reading
    from axtool.inputs.prepare import Preparation
    from axtool.options import Options
    from axtool.pass_table import pass_table
    from axtool.quant.calib_cache import open_cache
    from axtool.quant.clip import METHODS
    from axtool.quant.ranges import read_ranges
    from axtool.quant.widen import budget_of
    from axtool.report.compiled import compiled_document, compiled_text
    from axtool.report.explain import explain_rows, explain_text
    from axtool.report.passes import passes_text

    if model.is_file() and is_axm(model):
        hint = f"`axtool info {model}` shows what it holds"
        raise UsageError("already compiled; want an .onnx", where=str(model), hint=hint, code="not-onnx")
    out = out or Path(model.name or "model").with_suffix(".axm")  # '.' has no name; the reader says that it is a folder
    named = [ranges, directives, *map(Path, filter(None, (recipe, calib_cache)))]
    inputs = [model, *filter(None, named), *map(Path, calib or ())]
    refuse_overwrite(out, force=force, inputs=inputs)
    o.choice(out.suffix.lower(), (".axm",), "--out")
    qdq = o.qdq_file(emit_, out)
    outs = [out, *filter(None, (qdq,))]
    if qdq is not None:
        refuse_overwrite(qdq, force=force, inputs=[*inputs, out])
    if save_ranges is not None:
        refuse_overwrite(save_ranges, force=force, inputs=[*inputs, *outs])
    cache = None if calib_cache is None else open_cache(calib_cache)
    base = None
    if ranges is not None and (stored := read_ranges(ranges).preparation) is not None:
        base = Preparation.from_dict(stored)
    given = {"resize": resize, "color": color, "scale": scale or mean or std}
    chosen = Options(
        target=target,
        reading=Reading(
            input_shapes=o.shapes(input_shape),
            dims=o.dims(dim),
            outputs=o.names(outputs, "--outputs"),
            permissive=permissive,
            fix_fp16=fix_fp16,
            check=check,
            disable=tuple(disable_pass or ()),
            enable=tuple(enable_pass or ()),
        ),
        calib=tuple(calib or ()),
        ranges=ranges,
        recipe=recipe,
        budget=budget_of(budget_sqnr, budget_cycles),
        method=None if method is None else o.choice(method, METHODS, "--method"),
        percentile=percentile,
        limit=limit,
        calib_cache=cache,
        preparation=o.preparation(resize, mean, std, scale, color, layout, fill, base),
        preprocess=preprocess,
        jobs=jobs,
        optimize=optimize,
        layer_check=layer_check,
        directives=directives,
        task=task_of(task, labels),
    )
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        compiled = compile_file(model, out, chosen, progress, force=force, qdq=qdq, ranges=save_ranges)
        worth = pass_table(model, chosen, progress).to_dict() if explain_passes else None
    known = None if base is not None else [key for key, value in given.items() if value is not None]
    document = compiled_document(compiled.artefact, out, known, qdq=qdq, elapsed_s=progress.elapsed_s)
    if explain:
        document["explain"] = explain_rows(compiled.numbers, compiled.layers.ties)
    if worth is not None:
        document["passes"] = worth
    if as_json:
        emit(document)
        return
    shown = legible_values(document)
    if not quiet:
        typer.echo(compiled_text(shown))
    if explain:
        typer.echo(explain_text(shown["explain"]))
    if worth is not None:
        typer.echo(passes_text(shown["passes"]))
