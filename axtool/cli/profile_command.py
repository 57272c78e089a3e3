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
        str,
        typer.Option(
            "--sort",
            metavar="KEY",
            help="index, name, cycles, macs, mac_utilisation, read_bytes, write_bytes or spilled_bytes.",
        ),
    ] = "index",
    by: Annotated[str, typer.Option("--by", metavar="layer|segment|op", help="One row a layer, or sums.")] = "layer",
    top: Annotated[int, typer.Option("--top", min=0, help="Show this many rows (0: all); --csv has them all.")] = 0,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write the rows.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="OUT.json", help="Write a timeline, a lane an engine, for Perfetto."),
    ] = None,
    directives: o.Directives = None,
    input_shape: o.InputShape = None,
    dim: o.Dim = None,
    max_latency: Annotated[
        str | None,
        typer.Option(
            "--max-latency", metavar="TIME", help="5ms, 800us, 0.1s; ms without a unit.", rich_help_panel=GATES
        ),
    ] = None,
    max_cycles: Annotated[
        str | None, typer.Option("--max-cycles", metavar="N", help="2000000, 2e6 or 2M.", rich_help_panel=GATES)
    ] = None,
    max_external_bytes: Annotated[
        str | None,
        typer.Option(
            "--max-external-bytes", metavar="BYTES", help="20MiB, 20MB; bytes without a unit.", rich_help_panel=GATES
        ),
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
    from axtool.config import refuse_overwrite, write_together
    from axtool.errors import Exit, UsageError
    from axtool.report.gates import judged, parse_gates
    from axtool.report.profile import Request, profile
    from axtool.report.profile_rows import arrange, profile_csv
    from axtool.report.profile_text import profile_text
    from axtool.report.profiled import profile_document
    from axtool.report.trace import trace_json

    gates = parse_gates(max_latency, max_cycles, max_external_bytes)
    if csv is not None and trace is not None and csv.resolve() == trace.resolve():
        raise UsageError("--csv and --trace name one file", where=str(csv), code="bad-option")
    for output in filter(None, (csv, trace)):
        refuse_overwrite(output, force=force, inputs=[model, *filter(None, (directives,))])
    request = Request(model, target, tuple(settings or ()), o.shapes(input_shape), o.dims(dim), directives)
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        profiled = profile(request, progress.step)
    document = profile_document(str(model), profiled)
    rows = arrange(document, by=by, sort=sort)
    files = {csv: profile_csv(rows).encode()} if csv is not None else {}
    if trace is not None:
        files[trace] = trace_json(model.name, profiled)
    write_together(files, force=force)
    document |= judged(document, gates)
    if as_json:
        emit(document)
    else:
        typer.echo(profile_text(*legible_values((document, rows[:top] if top else rows))))
    raise typer.Exit(Exit.CHECK_FAILED if document["exceeded"] else Exit.OK)
