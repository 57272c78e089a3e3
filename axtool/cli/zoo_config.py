"""`axzoo show-config` and `axzoo new`: configs, whole and begun."""

from pathlib import Path
from typing import Annotated

import typer

from axtool.cli import options as o
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, set_up
from axtool.cli.zoo_run import Name
from axtool.legible import legible, legible_values


def show_config_command(model: Name, as_json: Json = False, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """Show a config with every default, as YAML that `axzoo` reads again, and the file that it is from. Runs nothing.

    \b
    Examples:
      axzoo show-config digits-v8det
      axzoo show-config ./my-model.py --json
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.units import header
    from axtool.zoo.catalogue import find
    from axtool.zoo.kernels import kernel_file
    from axtool.zoo.resolved import resolved, resolved_yaml

    entry = find(model)
    shown = resolved(entry)
    if not as_json:
        typer.echo("\n".join(map(legible, resolved_yaml(entry, shown).splitlines())))
        return
    kernel = kernel_file(entry.config.kernel, entry.path.parent)
    emit(
        {
            **header("axzoo show-config"),
            "name": entry.config.name,
            "file": str(entry.path),
            "kernel_file": kernel and str(kernel),
            "config": shown.values,
            "defaults": list(shown.defaults),
        }
    )


def new_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the model: lower case, digits and hyphens.")],
    model: Annotated[Path, typer.Option("--from", metavar="FILE.onnx", help="The model.")],
    calib: Annotated[
        Path | None, typer.Option("--calib", metavar="PATH", help="Pictures to calibrate with. Default: made ones.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="FILE|A,B,C", help="Names of classes. Default: the exporter's."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.yaml", help="Default: NAME.yaml in this folder.")
    ] = None,
    input_shape: o.InputShape = None,
    dim: o.Dim = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a commented config for a model of your own. The task and the kernel are guessed from its heads.

    \b
    Examples:
      axzoo new my-detector --from my-detector.onnx --calib pictures/
      axzoo check my-detector.yaml
    """
    set_up(quiet=not verbose, verbose=verbose)
    from axtool.cli.task import labels_of
    from axtool.config import refuse_overwrite, write_whole
    from axtool.report.units import header
    from axtool.zoo.begun import begin, begun_text

    path = out or Path(f"{name}.yaml")
    refuse_overwrite(path, force=force, inputs=[model])
    given = labels_of(labels) if labels is not None else []
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        progress.step("reading")
        begun = begin(name, model, path, calib, given, o.shapes(input_shape), o.dims(dim))
        write_whole(path, begun_text(begun).encode(), force=force)
    document = {
        **header("axzoo new"),
        "name": name,
        "file": str(path),
        "task": begun.task,
        "postamble": begun.postamble.to_dict() or None,
        "guesses": list(begun.guesses),
    }
    if as_json:
        emit(document)
    elif not quiet:
        shown = legible_values(document)
        typer.echo("\n".join([f"{shown['file']}: a config for {shown['name']}", *(f"  {g}" for g in shown["guesses"])]))
        typer.echo(f"  next        axzoo check {legible(str(path))}")
