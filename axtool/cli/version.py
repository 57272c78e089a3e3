"""What the two programs do without a command: `--version`, or their help."""

from __future__ import annotations

from typing import Annotated

import typer

from axtool import __version__
from axtool.errors import Exit, UsageError

Version = Annotated[
    bool, typer.Option("--version", help="Print the version; with --json, of all that decides a result.")
]
PACKAGES = ("numpy", "onnx", "onnxruntime", "onnx-ir", "onnxsim", "opencv-python-headless", "av", "safetensors")


def without_command(context: typer.Context, *, version: bool, as_json: bool) -> None:
    """Does nothing when a command follows. Else prints the version, or the help as the usage error that it is."""
    if version:
        show_version(as_json=as_json)
        raise typer.Exit(Exit.OK)
    if context.invoked_subcommand is not None:
        return
    if as_json:
        raise UsageError("no command is given", hint=f"see `{context.command_path} --help`")
    typer.echo(context.get_help(), err=True)
    raise typer.Exit(Exit.USAGE)


def show_version(*, as_json: bool) -> None:
    """One line, or with `as_json` the versions of everything that decides a result."""
    if not as_json:
        typer.echo(f"axtool {__version__}")
        return
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from axtool.cli.console import emit
    from axtool.report.units import header

    packages: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    emit({**header("version"), "python": platform.python_version(), "packages": packages})
