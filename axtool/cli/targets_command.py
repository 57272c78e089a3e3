"""`axtool targets`: the chips there are, one chip with the source of every number, and a check of a user's file."""

from typing import Annotated

import typer

from axtool.cli.console import Json, Quiet, Verbose, set_up
from axtool.cli.described import print_document, print_yaml


def targets_command(
    action: Annotated[str, typer.Argument(metavar="list|show|check")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="TARGET", help="A name of the list, or a YAML file.")] = None,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Of show: print the file, to start one of your own from.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List the chips, show one with the source of its numbers, or check a YAML file.

    A constant comes from a fact (published), is natural (the obvious value) or fitted (to published figures); a default
    is one that the file leaves out, and unsaid one whose source it does not say.

    \b
    Examples:
      axtool targets list
      axtool targets show qc-u-1d7-16mb
      axtool targets show qc-u-1d7-16mb --yaml > my-chip.yaml   # change it, then
      axtool targets check my-chip.yaml                         # lists every fault
      axtool profile model.onnx --target my-chip.yaml
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.chips import chip_yaml, chips_document, chips_text

    if as_yaml:
        print_yaml("targets", action, name, chip_yaml, as_json=as_json)
    else:
        print_document(chips_document(action, name), chips_text, as_json=as_json)
