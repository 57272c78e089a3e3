"""`axtool`: the commands, and nothing else. Each parses, calls one function and prints.

The modules of commands do without `from __future__ import annotations`: typer evaluates an annotation that is text
several times, which `--help` would pay for with 70 ms.
"""

from collections.abc import Sequence

import typer

from axtool.cli import door
from axtool.cli.compile_command import compile_command
from axtool.cli.console import Json, Quiet, Verbose
from axtool.cli.devices_command import devices_command
from axtool.cli.info_command import info_command
from axtool.cli.profile_command import profile_command
from axtool.cli.run_command import run_command
from axtool.cli.targets_command import targets_command
from axtool.cli.verify_command import verify_command
from axtool.cli.version import Version, without_command

EPILOG = """Examples:

  axtool compile model.onnx --target qc-u-1d7-16mb --calib images/ -o model.axm

  axtool run model.axm photo.jpg --save annotated.png

  axtool verify model.axm --against model.onnx --data images/

Exit codes: 0 done, 1 a check said no, 2 usage or bad input, 3 unsupported, 4 environment, 5 numerics, 6 does not fit,
70 internal error, 130 interrupted, 143 terminated."""

app = typer.Typer(
    name="axtool",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Version = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compile ONNX vision models for edge NPUs, run them bit for bit, and account for every cycle."""
    without_command(context, version=version, as_json=as_json)


app.command("compile")(compile_command)
app.command("run")(run_command)
app.command("info")(info_command)
app.command("profile")(profile_command)
app.command("verify")(verify_command)
app.command("targets")(targets_command)
app.command("devices")(devices_command)


def main(argv: Sequence[str] | None = None) -> None:
    """The console script. Ends the process with the exit code."""
    raise SystemExit(door.run(app, argv, program="axtool"))
