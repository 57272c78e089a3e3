"""`axtool verify`: a compiled model against the model it came from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axtool.cli import options as o
from axtool.cli import postamble as p
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, say, set_up
from axtool.errors import UsageError, plural
from axtool.legible import legible_values

if TYPE_CHECKING:
    from axtool.inputs.prepare import Preparation
    from axtool.verify.seen import Seen

LIMITS = "Limits: exit 1 when broken"


def verify_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.axm", help="The compiled model.")],
    data: Annotated[
        list[str], typer.Option("--data", "-d", metavar="PATH", help="A folder of images, .npz, .npy, or random:N.")
    ],
    against: Annotated[Path | None, typer.Option("--against", "-a", metavar="MODEL.onnx", help="Its source.")] = None,
    stage: Annotated[
        str, typer.Option("--stage", metavar="NAME", help="all, float, quant, reference or native: what is compared.")
    ] = "all",
    postamble: p.Option = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAMES", help="Of the task: iou (boxes), or miou,pixel (labels of pixels)."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FOLDER", help="Draw each sample's boxes or labels, the source's and ours."),
    ] = None,
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
    min_matched: Annotated[
        float | None,
        typer.Option("--min-matched", help="Share of the best boxes, 0..1 (0.8).", rich_help_panel=LIMITS),
    ] = None,
    min_miou: Annotated[float | None, typer.Option("--min-miou", help="0..1.", rich_help_panel=LIMITS)] = None,
    min_pixel: Annotated[
        float | None,
        typer.Option("--min-pixel", help="Share of the pixels, 0..1 (0.9).", rich_help_panel=LIMITS),
    ] = None,
    min_clear: Annotated[
        float | None,
        typer.Option("--min-clear", help="Share of the clear pixels, 0..1 (0.95).", rich_help_panel=LIMITS),
    ] = None,
    rtol: Annotated[
        float | None, typer.Option("--rtol", help="Of a kernel's values (its own, or 1e-5).", rich_help_panel=LIMITS)
    ] = None,
    atol: Annotated[
        float | None, typer.Option("--atol", help="Of a kernel's values (its own, or 1e-6).", rich_help_panel=LIMITS)
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
    custom_ops: o.CustomOps = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare a compiled model with its source over a data set; exit 1 if out of tolerance.

    \b
    What is checked when no limit is given:
      classification  the best class agrees on 0.9 of the samples; the SQNR is noted
      detection       0.9 of the objects are found again (10 objects or more; fewer: SQNR)
      --metric iou    0.8 of the best 10 boxes match: the same class, IoU above 0.5
      --metric pixel  0.95 of the clear pixels have the source's label (margin above one quantization step; else 0.9
                      of all); --metric miou adds the mean IoU; a semantic task has both unasked
      no task known   SQNR of 10 dB per output, and of a (1, n) output the best class on 0.9
      always          no dead channels, no value that is finite in only one of the two
    Stage float wants 60 dB, stage native equal bits. A limit replaces its default.

    With --postamble a kernel is held against the onnxruntime tail, on the device's buffers of the samples and on
    random ones with every value: a verdict of its own, which needs no source.

    \b
    Examples:
      axtool verify model.axm --against model.onnx --data images/
      axtool verify model.axm --against model.onnx --data images/ --layers --limit 8
      axtool verify detr.axm --against detr.onnx --data images/ --metric iou
      axtool verify detr.axm --against detr.onnx --data images/ --metric iou --save panels/   # needs axtool[report]
      axtool verify segformer.axm --against segformer.onnx --data images/ --metric miou,pixel --min-miou 0.8
      axtool verify model.axm --data images/ --postamble UltralyticsYoloPostamble,num_classes=80
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.job import job_of_file
    from axtool.report.verified import verified_document, verified_text
    from axtool.verify.judge import Limits
    from axtool.verify.task_metrics import Least, parsed

    def prepare(base: "Preparation | None") -> "Preparation | None":
        return o.preparation(resize, mean, std, scale, color, layout, fill, base)

    least = Least(min_matched, min_miou, min_pixel, min_clear)
    metrics = parsed(metric or (), least)
    limits = Limits(min_sqnr, min_cosine, max_error, min_top1, min_channel_sqnr, min_found, least)
    compares = bool(layers or stage != "all" or metrics or limits != Limits())
    _refuse_what_means_nothing(against, postamble, compares, rtol, atol)
    wanted = None if postamble is None else p.postamble_of(postamble)
    if wanted is not None and wanted.is_empty:
        raise UsageError(
            "--postamble none: it is the tail that kernels are compared with", hint=p.EXAMPLE, code="usage"
        )
    verdict, rows, tail, drawn = None, None, None, None
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        if against is not None:
            from axtool.verify.check import Request, verify
            from axtool.verify.layers import verify_layers
            from axtool.verify.seen import nobody

            request = Request(
                model, against, tuple(data), stage, limit, threads, prepare, preprocess, permissive, fix_fp16, metrics
            )
            progress.step("comparing")
            drawn = None if save is None else _Drawn(save, force)
            verdict = verify(request, limits, progress.count, nobody if drawn is None else drawn.show)
            if layers and not verdict.incomparable:
                progress.step("comparing layers")
                rows = [row.to_dict() for row in verify_layers(request, progress.count)]
        if wanted is not None:
            from axtool.artefact import axm
            from axtool.verify.check import samples_of
            from axtool.verify.tail import verify_postamble

            progress.step("comparing tails")
            artefact = axm.read(model)
            samples = samples_of(artefact, tuple(data), limit, prepare, preprocess)
            tail = verify_postamble(
                artefact, model, wanted, samples, threads=threads, rtol=rtol, atol=atol, count=progress.count
            )
    if drawn is not None:
        say(f"drew {plural(drawn.count, 'sample')} in {save}", quiet=quiet)
    document = verified_document(
        str(model),
        None if against is None else str(against),
        None if verdict is None else verdict.to_dict(),
        rows,
        None if tail is None else tail.to_dict(),
        None if verdict is None else job_of_file(model),
    )
    if as_json:
        emit(document)
    else:
        typer.echo(verified_text(legible_values(document)))
    raise typer.Exit(1 if document["failures"] else 0)


class _Drawn:
    """A folder with a picture of two panels for each sample."""

    def __init__(self, folder: Path, force: bool) -> None:
        from axtool.verify.panels import require_matplotlib

        require_matplotlib()
        if folder.exists() and not folder.is_dir():
            raise UsageError("is a file; want a folder", where=str(folder), code="bad-option")
        self.folder, self.count, self._force = folder, 0, force

    def show(self, seen: "Seen") -> None:
        from axtool.config import write_whole
        from axtool.verify.panels import panels

        picture = panels(seen)
        self.folder.mkdir(exist_ok=True)
        name = "".join(c if c.isalnum() else "-" for c in Path(seen.name).stem).strip("-")
        write_whole(self.folder / f"{self.count:04}-{name}.png", picture, force=self._force)
        self.count += 1


def _refuse_what_means_nothing(
    against: Path | None, postamble: str | None, compares: bool, rtol: float | None, atol: float | None
) -> None:
    """Options without the comparison that they are of."""
    if against is None and (postamble is None or compares):
        what = "Missing option '--against': the model that the file was compiled from"
        hint = "`axtool verify --help`; --postamble alone needs no source" if postamble is None else "add --against"
        raise UsageError(what, hint=hint, code="usage")
    if postamble is None and (rtol is not None or atol is not None):
        raise UsageError("--rtol and --atol are of a --postamble", hint=p.EXAMPLE, code="usage")
    for name, value in (("--rtol", rtol), ("--atol", atol)):
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(f"{name} {value:g}: want a number of at least 0", code="bad-option")
