"""`axtool verify`: a compiled model against the model it came from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axtool.cli import options as o
from axtool.cli.console import Json, Progress, Quiet, Verbose, emit, set_up
from axtool.legible import legible_values

if TYPE_CHECKING:
    from axtool.inputs.prepare import Preparation

LIMITS = "Limits: exit 1 when broken"


def verify_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.axm", help="The compiled model.")],
    against: Annotated[Path, typer.Option("--against", "-a", metavar="MODEL.onnx", help="Its source.")],
    data: Annotated[
        list[str], typer.Option("--data", "-d", metavar="PATH", help="A folder of images, .npz, .npy, or random:N.")
    ],
    stage: Annotated[
        str, typer.Option("--stage", metavar="NAME", help="all, float, quant, reference or native: what is compared.")
    ] = "all",
    layers: Annotated[bool, typer.Option("--layers", help="Every layer: accumulated error, and its own.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Use at most this many samples.")] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, max=256)] = 1,
    min_sqnr: Annotated[
        float | None,
        typer.Option("--min-sqnr", metavar="DB", help="Of each output (10, or a note).", rich_help_panel=LIMITS),
    ] = None,
    min_channel_sqnr: Annotated[
        float | None, typer.Option("--min-channel-sqnr", metavar="DB", rich_help_panel=LIMITS)
    ] = None,
    min_cosine: Annotated[float | None, typer.Option("--min-cosine", rich_help_panel=LIMITS)] = None,
    max_error: Annotated[float | None, typer.Option("--max-error", rich_help_panel=LIMITS)] = None,
    min_top1: Annotated[
        float | None,
        typer.Option("--min-top1", help="Share of the samples, 0..1 (0.9 for classes).", rich_help_panel=LIMITS),
    ] = None,
    min_found: Annotated[
        float | None,
        typer.Option("--min-found", help="Share of the objects found again, 0..1 (0.9).", rich_help_panel=LIMITS),
    ] = None,
    resize: o.Resize = None,
    mean: o.Mean = None,
    std: o.Std = None,
    scale: o.Scale = None,
    color: o.Color = None,
    layout: o.Layout = None,
    fill: o.Fill = None,
    preprocess: o.Preprocess = None,
    permissive: o.Permissive = False,
    fix_fp16: o.FixFp16 = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare a compiled model with its source over a data set; exit 1 if out of tolerance.

    \b
    What is checked when no limit is given:
      classification  the best class agrees on 0.9 of the samples; the SQNR is noted
      detection       0.9 of the objects are found again (10 objects or more; fewer: SQNR)
      no task known   SQNR of 10 dB per output, and of a (1, n) output the best class on 0.9
      always          no dead channels, no value that is finite in only one of the two
    Stage float wants 60 dB, stage native equal bits. A limit replaces its default.

    \b
    Examples:
      axtool verify model.axm --against model.onnx --data images/
      axtool verify model.axm --against model.onnx --data images/ --layers --limit 8
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.verified import verified_document, verified_text
    from axtool.verify.check import Request, verify
    from axtool.verify.judge import Limits
    from axtool.verify.layers import verify_layers

    def prepare(base: "Preparation | None") -> "Preparation | None":
        return o.preparation(resize, mean, std, scale, color, layout, fill, base)

    request = Request(model, against, tuple(data), stage, limit, threads, prepare, preprocess, permissive, fix_fp16)
    limits = Limits(min_sqnr, min_cosine, max_error, min_top1, min_channel_sqnr, min_found)
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        progress.step("comparing")
        verdict = verify(request, limits, progress.count)
        rows = None
        if layers and not verdict.incomparable:
            progress.step("comparing layers")
            rows = [row.to_dict() for row in verify_layers(request, progress.count)]
    document = verified_document(
        str(model),
        str(against),
        verdict.stage,
        verdict.samples,
        [comparison.to_dict() for comparison in verdict.outputs],
        None if verdict.agreement is None else verdict.agreement.to_dict(),
        verdict.failures,
        verdict.incomparable,
        rows,
        verdict.checks,
        verdict.notes,
        verdict.next_steps,
        verdict.calibrated_with,
    )
    if as_json:
        emit(document)
    else:
        typer.echo(verified_text(legible_values(document)))
    raise typer.Exit(1 if verdict.failures else 0)
