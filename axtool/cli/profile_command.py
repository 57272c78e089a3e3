"""`axtool profile`: where the cycles of a model go, and why; beside another model; on many chips."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axtool.cli import options as o
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, set_up
from axtool.legible import legible_values

if TYPE_CHECKING:
    from axtool.report.gates import Gates
    from axtool.report.profile import Request

GATES = "Gates: exit 1 when exceeded (--sweep: when no configuration holds them)"
MORE = "Beside others"


def profile_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .axm file, or an .onnx (no data is needed).")],
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="A chip by name, or a YAML file; without it the chip of the file."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one value of the chip.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="layer|segment|op", help="One row a layer, or sums by block or op.")
    ] = "layer",
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            metavar="KEY",
            help="index, name, cycles, macs, mac_utilisation, read_bytes, write_bytes, spilled_bytes, energy.",
        ),
    ] = "index",
    top: Annotated[int, typer.Option("--top", min=0, help="Show this many rows (0: all); --csv has them all.")] = 0,
    why: Annotated[
        bool, typer.Option("--why", help="Below the table: of each row shown, what all of its cycles went to.")
    ] = False,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write the rows.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="OUT.json", help="Write a timeline for Perfetto, a lane an engine."),
    ] = None,
    directives: o.Directives = None,
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", metavar="RECIPE", help="Formats of an .onnx: a name, or a file (see `compile`)."),
    ] = None,
    custom_ops: o.CustomOps = None,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", metavar="OTHER", help="What OTHER (.axm, .onnx) takes more.", rich_help_panel=MORE),
    ] = None,
    compare_target: Annotated[
        str | None,
        typer.Option("--compare-target", metavar="CHIP", help="OTHER, or MODEL, on this chip.", rich_help_panel=MORE),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="KEY=V1,V2",
            help="Tabulate every combination; KEY is a value of the chip, or target.",
            rich_help_panel=MORE,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes of a sweep.", rich_help_panel=MORE)] = 1,
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
    input_shape: o.InputShape = None,
    dim: o.Dim = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Print the modelled cycles of every layer, exclusive by category, with what bound it.

    A segment (--by segment) is a run of layers of one block of the model, by the names of its nodes, or of one size of
    map where names say nothing.

    \b
    Examples:
      axtool profile model.axm --sort cycles --top 10 --why
      axtool profile model.onnx --target qc-u-1d5-8mb --set memory.ocm_bytes=4MiB --by segment
      axtool profile model.axm --trace timeline.json         # open it at https://ui.perfetto.dev
      axtool profile new.axm --compare old.axm --sort cycles
      axtool profile model.onnx --compare-target qc-u-1d5-8mb
      axtool profile model.onnx --sweep memory.ocm_bytes=4MiB,8MiB --sweep ext.read_bytes_per_s=16e9,32e9 -j 2
      axtool profile model.onnx --sweep target=qc-u-1d5-8mb,qc-u-1d7-16mb --csv chips.csv
      axtool profile model.axm --max-latency 5ms --max-external-bytes 20MiB --quiet > profile.txt || exit 1
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.config import refuse_overwrite, write_together
    from axtool.errors import UsageError
    from axtool.report.gates import parse_gates
    from axtool.report.profile import Request

    rows = _Rows(by, sort, top, why)
    _require_together(
        {"--sweep": bool(sweep), "--compare": compare is not None, "--compare-target": compare_target is not None},
        {
            "--by": by != "layer",
            "--sort": sort != "index",
            "--top": top > 0,
            "--trace": trace is not None,
            "--why": why,
        },
        {"--jobs": jobs > 1},
    )
    if csv is not None and trace is not None and csv.resolve() == trace.resolve():
        raise UsageError("--csv and --trace name one file", where=str(csv), code="bad-option")
    for output in filter(None, (csv, trace)):
        refuse_overwrite(output, force=force, inputs=[model, *filter(None, (directives, compare))])
    gates = parse_gates(max_latency, max_cycles, max_external_bytes)
    request = Request(model, target, tuple(settings or ()), o.shapes(input_shape), o.dims(dim), directives, recipe)
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        if sweep:
            done = _swept(request, sweep, jobs, gates, progress)
        elif compare is not None or compare_target is not None:
            done = _compared(request, compare or model, compare_target or target, rows, gates, progress)
        else:
            done = _profiled(request, rows, gates, progress, traced=trace is not None)
    files = {csv: done.csv.encode()} if csv is not None else {}
    if trace is not None:
        files[trace] = done.trace
    write_together(files, force=force)
    if as_json:
        emit(done.document)
    else:
        typer.echo(done.text())
    raise typer.Exit(done.exit)


@dataclass(frozen=True)
class _Rows:
    """Which rows are shown."""

    by: str
    sort: str
    top: int
    why: bool

    def first(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return rows[: self.top] if self.top else rows


@dataclass(frozen=True)
class _Done:
    """What is printed, written and returned."""

    document: dict[str, Any]
    text: Callable[[], str]
    csv: str
    exit: int
    trace: bytes = b""


def _profiled(request: "Request", asked: _Rows, gates: "Gates", progress: Progress, *, traced: bool) -> _Done:
    from axtool.errors import Exit
    from axtool.report.gates import judged
    from axtool.report.profile import profile
    from axtool.report.profile_rows import arrange, profile_csv, with_sums
    from axtool.report.profile_text import profile_text
    from axtool.report.profiled import profile_document
    from axtool.report.trace import trace_json

    profiled = profile(request, progress.step)
    document = profile_document(str(request.model), profiled)
    rows = arrange(document, by=asked.by, sort=asked.sort)
    document |= judged(document, gates)
    return _Done(
        with_sums(document),
        lambda: profile_text(*legible_values((document, asked.first(rows))), why=asked.why),
        profile_csv(rows),
        Exit.CHECK_FAILED if document["exceeded"] else Exit.OK,
        trace_json(request.model.name, profiled) if traced else b"",
    )


def _compared(
    request: "Request", other: Path, other_target: str | None, asked: _Rows, gates: "Gates", progress: Progress
) -> _Done:
    from dataclasses import replace

    from axtool.errors import Exit
    from axtool.report.compared import compared_csv, compared_document, compared_rows
    from axtool.report.compared_text import compared_text
    from axtool.report.profile import profile
    from axtool.report.profile_rows import require_known
    from axtool.report.profiled import profile_document

    require_known(by=asked.by, sort=asked.sort)
    requests = (request, replace(request, model=other, target=other_target))
    this, that = (profile_document(str(one.model), profile(one, progress.step)) for one in requests)
    document = compared_document(this, that, gates)
    rows = compared_rows(document, by=asked.by, sort=asked.sort)
    return _Done(
        document,
        lambda: compared_text(*legible_values((document, asked.first(rows), asked.by))),
        compared_csv(rows),
        Exit.CHECK_FAILED if document["exceeded"] else Exit.OK,
    )


def _swept(request: "Request", texts: list[str], jobs: int, gates: "Gates", progress: Progress) -> _Done:
    from axtool.errors import Exit
    from axtool.report.sweep import parse_sweep, sweep
    from axtool.report.swept import any_fits, swept_csv, swept_document, swept_text

    axes = parse_sweep(texts)
    progress.step("sweeping")
    outcomes = sweep(request, axes, jobs, progress.count)
    document = swept_document(str(request.model), axes, outcomes, gates)
    failed = Exit.CHECK_FAILED if any_fits(document) else Exit.DOES_NOT_FIT
    return _Done(
        document,
        lambda: swept_text(legible_values(document)),
        swept_csv(document),
        failed if document["status"] == "failed" else Exit.OK,
    )


def _require_together(modes: Mapping[str, bool], rows: Mapping[str, bool], of_sweep: Mapping[str, bool]) -> None:
    """Raise UsageError for options that mean nothing beside each other."""
    from axtool.errors import UsageError

    given = [name for name, is_given in modes.items() if is_given]
    beside = [
        name for name, is_given in rows.items() if is_given and ("--sweep" in given or name in ("--trace", "--why"))
    ]
    wrong = (
        given[:2] if "--sweep" in given and len(given) > 1 else [*given[:1], *beside[:1]] if given and beside else []
    )
    if wrong:
        raise UsageError(f"{wrong[0]} and {wrong[1]} do not go together", hint="leave one out", code="bad-option")
    if "--sweep" not in given and (alone := [name for name, is_given in of_sweep.items() if is_given]):
        raise UsageError(f"{alone[0]} is about --sweep", hint="leave it out", code="bad-option")
