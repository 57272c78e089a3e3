"""`axtool targets`: the chips there are, one chip with the source of every number, and a check of a user's file."""

from typing import Annotated

import typer

from axtool.cli.console import Json, Quiet, Verbose, emit, set_up
from axtool.legible import legible_values


def targets_command(
    action: Annotated[str, typer.Argument(metavar="list|show|check")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="TARGET", help="A name of the list, or a YAML file.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List the chips, show one with the source of its numbers, or check a YAML file.

    \b
    Examples:
      axtool targets list
      axtool targets show qc-u-1d7-16mb
      axtool targets check my-chip.yaml
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.chips import chips_document, chips_text

    document = chips_document(action, name)
    if as_json:
        emit(document)
    else:
        typer.echo(chips_text(legible_values(document)))
