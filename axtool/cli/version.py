"""`--version`: one line, or with --json the versions of everything that decides a result."""

from __future__ import annotations

import typer

from axtool import __version__


def show_version(*, as_json: bool) -> None:
    """Print and leave with exit code 0."""
    if as_json:
        import platform
        from importlib.metadata import PackageNotFoundError, version

        from axtool.cli.console import emit

        packages = {}
        for name in ("numpy", "onnx", "onnxruntime", "onnxscript", "onnxsim", "opencv-python-headless"):
            try:
                packages[name] = version(name)
            except PackageNotFoundError:
                packages[name] = "missing"
        emit(
            {
                "schema": "axtool.version/1",
                "tool": {"name": "axtool", "version": __version__},
                "command": "version",
                "status": "ok",
                "python": platform.python_version(),
                "packages": packages,
            }
        )
    else:
        typer.echo(f"axtool {__version__}")
    raise typer.Exit(0)
