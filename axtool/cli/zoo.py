"""`axzoo`: models that are known to work, with everything needed to build and judge them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from axtool.cli import door
from axtool.cli import options as o
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, set_up
from axtool.cli.version import Version, without_command
from axtool.cli.zoo_benchmark import benchmark_command
from axtool.cli.zoo_config import new_command, show_config_command
from axtool.cli.zoo_eval import eval_command
from axtool.cli.zoo_run import Name, run_command
from axtool.legible import legible, legible_values

app = typer.Typer(
    name="axzoo",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Examples:\n\n  axzoo list\n\n  axzoo info digits-v8det\n\n  axzoo run digits-v8det photo.jpg -o found.png",
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Version = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Models with their sources, input preparation, calibration data and expected accuracy."""
    without_command(context, version=version, as_json=as_json)


@app.command("list")
def list_command(as_json: Json = False, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """List the models. Reads the configs, runs nothing.

    \b
    Examples:
      axzoo list
      axzoo list --json
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.tables import table
    from axtool.report.units import header
    from axtool.report.zoo_entries import entry_document, list_rows
    from axtool.zoo.catalogue import entries

    found = entries()
    if as_json:
        emit({**header("axzoo list"), "models": [entry_document(entry) for entry in found]})
    else:
        typer.echo(
            table(("model", "task", "licence", "source", "what it is"), list_rows(found), prose=(4,), droppable=(3, 2))
        )


@app.command("info")
def info_command(
    model: Name, source: o.Source = None, as_json: Json = False, quiet: Quiet = False, verbose: Verbose = False
) -> None:
    """Show a model: licence, source, input, calibration, expected accuracy. Reads the config, runs nothing.

    With --source also whether your file is this model; exit 2 where it is not.

    \b
    Examples:
      axzoo info digits-v8det
      axzoo info retinaface-mnet025-640 --source retinaface.onnx
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.units import header
    from axtool.report.zoo_entries import entry_document, entry_text
    from axtool.zoo.catalogue import find
    from axtool.zoo.sources import model_file

    entry = find(model)
    document = entry_document(entry)
    if source is not None:
        model_file(entry, source)
    if as_json:
        emit({**header("axzoo info"), "model": document})
    else:
        one_line = {**document, "notes": " ".join(document["notes"].split())}
        typer.echo(entry_text(legible_values(one_line)))
        if source is not None:
            typer.echo(f"  your file   {legible(str(source))} is this model")


@app.command("check")
def check_command(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Names, or your own .yaml or .py. Default: all.")
    ] = None,
    source: o.Source = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check configs and the files that they name; list every fault with its line. Fetches nothing. Exit 1 for any.

    Where the model is on this machine it is read, and the parameters of the Postamble are held against its heads.
    With --source, one MODEL: your file is checked with it.

    \b
    Examples:
      axzoo check
      axzoo check digits-v8det ./my-model.yaml
    """
    set_up(quiet=not verbose, verbose=verbose)
    from axtool.report.units import header
    from axtool.report.zoo_entries import checked_lines, checked_row
    from axtool.zoo.check import check_configs

    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        progress.step("checking")
        checked = check_configs(models or [], source, progress.count)
    failed = any(one.faults for one in checked)
    if as_json:
        emit({**header("axzoo check", "failed" if failed else "ok"), "models": [checked_row(one) for one in checked]})
    elif failed or not quiet:
        for one in checked:
            typer.echo("\n".join(map(legible, checked_lines(one))))
    raise typer.Exit(1 if failed else 0)


@app.command("build")
def build_command(
    model: Name,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE.axm", help="Default: MODEL.axm.")] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Default: the config's first.")] = None,
    source: o.Source = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare with the labels, or with float.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Verify each step of the compiler.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Calibrating processes.")] = 1,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Fetch, compile and, with --verify, judge a model. Writes the .axm, and beside it a recipe that runs it.

    \b
    Examples:
      axzoo build digits-v8det -o digits.axm --verify
      python digits.py --run picture.png
      axzoo build retinaface-mnet025-640 --source retinaface.onnx
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.cli.zoo_built import keep_built
    from axtool.compiler import compile_file
    from axtool.config import refuse_overwrite, write_whole
    from axtool.options import options_of
    from axtool.report.built import built_document, built_text
    from axtool.runtime.op.load import input_size
    from axtool.verify.accuracy import measure
    from axtool.verify.expected import compare
    from axtool.zoo.catalogue import find
    from axtool.zoo.check import refuse_unfit
    from axtool.zoo.recipe import recipe_of
    from axtool.zoo.recipe_text import recipe_text

    entry = find(model)
    path = out or Path(f"{entry.config.name}.axm")
    refuse_overwrite(path, force=force)
    script = path.with_suffix(".py")  # '.' has no name, and was refused
    if script.resolve() == entry.path.resolve():  # a Python config has the name that its recipe would have
        script = path.with_name(f"{path.stem}_recipe.py")
    refuse_overwrite(script, force=force, inputs=[entry.path])
    o.choice(path.suffix.lower(), (".axm",), "--out")
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        progress.step("fetching")
        recipe = recipe_of(entry, target, source)
        refuse_unfit(entry, recipe.model, recipe.target)
        compiled = compile_file(recipe.model, path, options_of(recipe, check=check, jobs=jobs), progress, force=force)
        keep_built(entry, recipe, path)
        width, height = input_size(compiled.artefact)
        text = recipe_text(entry.config, path.name, script.name, (height, width))
        write_whole(script, text.encode(), force=force)
        rows = None
        if verify:
            progress.step("verifying")
            rows = compare(entry.config.expected, measure(entry, path, given=source, count=progress.count).figures)
    document = built_document(entry.config.name, compiled.artefact, path, script, rows, elapsed_s=progress.elapsed_s)
    if as_json:
        emit(document)
    elif not quiet:
        typer.echo(built_text(legible_values(document)))
    raise typer.Exit(1 if document["status"] == "failed" else 0)


app.command("show-config")(show_config_command)
app.command("new")(new_command)
app.command("run")(run_command)
app.command("eval")(eval_command)
app.command("benchmark")(benchmark_command)


def main(argv: Sequence[str] | None = None) -> None:
    """The console script. Ends the process with the exit code."""
    raise SystemExit(door.run(app, argv, program="axzoo"))
