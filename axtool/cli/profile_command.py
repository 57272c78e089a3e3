"""`axtool profile`: where the cycles of a model go, and why."""

from pathlib import Path
from typing import Annotated

import typer

from axtool.cli import options as o
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, set_up
from axtool.legible import legible_values

GATES = "Gates: exit 1 when exceeded"


def profile_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .axm file, or an .onnx (no data is needed).")],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Plan and time for this chip instead of the file's own.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one value of the chip.")
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="KEY", help="index, cycles, macs, read_bytes or write_bytes.")
    ] = "index",
    by: Annotated[str, typer.Option("--by", metavar="layer|op", help="One row a layer, or sums.")] = "layer",
    top: Annotated[int, typer.Option("--top", min=0, help="Show this many rows (0: all); --csv has them all.")] = 0,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write the rows.")] = None,
    input_shape: o.InputShape = None,
    dim: o.Dim = None,
    max_latency: Annotated[
        float | None, typer.Option("--max-latency", metavar="MS", help="Milliseconds.", rich_help_panel=GATES)
    ] = None,
    max_cycles: Annotated[float | None, typer.Option("--max-cycles", metavar="N", rich_help_panel=GATES)] = None,
    max_external_bytes: Annotated[
        float | None, typer.Option("--max-external-bytes", metavar="N", rich_help_panel=GATES)
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Print the modelled cycles of every layer, exclusive by category, with what bound it.

    \b
    Examples:
      axtool profile model.axm --sort cycles --top 10
      axtool profile model.onnx --target qc-u-1d5-8mb --set memory.ocm_bytes=4MiB
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.config import refuse_overwrite, write_whole
    from axtool.errors import Exit
    from axtool.report.profile import Request, profile
    from axtool.report.profiled import arrange, judged, profile_csv, profile_document, profile_text

    if csv is not None:
        refuse_overwrite(csv, force=force, inputs=[model])
    request = Request(model, target, tuple(settings or ()), o.shapes(input_shape), o.dims(dim))
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        document = profile_document(str(model), profile(request, progress.step))
    rows = arrange(document, by=by, sort=sort)
    if csv is not None:
        write_whole(csv, profile_csv(rows).encode(), force=force)
    document |= judged(document, latency_ms=max_latency, cycles=max_cycles, external_bytes=max_external_bytes)
    if as_json:
        emit(document)
    else:
        typer.echo(profile_text(*legible_values((document, rows[:top] if top else rows))))
    raise typer.Exit(Exit.CHECK_FAILED if document["exceeded"] else Exit.OK)
