"""`axtool devices`: the boards that this machine has, those that can be described, and a check of a user's file."""

from typing import Annotated

import typer

from axtool.cli.console import Json, Quiet, Verbose, set_up
from axtool.cli.described import print_document, print_yaml


def devices_command(
    action: Annotated[str, typer.Argument(metavar="list|boards|show|check")] = "list",
    name: Annotated[str | None, typer.Argument(metavar="BOARD", help="A name of `boards`, or a YAML file.")] = None,
    boards: Annotated[
        str | None,
        typer.Option(
            "--boards",
            help="Of list: these boards instead of those of AXTOOL_BOARDS: names or YAML files, commas between, "
            "NAME*4 for four.",
        ),
    ] = None,
    devices: Annotated[
        str | None, typer.Option("--devices", "-d", help="Of list: those that this selector names: 0,1 or metis-0:1:0.")
    ] = None,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Of show: print the file, to start one of your own from.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List the devices that run compiled models, list the boards there are, show one, or check a YAML file.

    Without AXTOOL_BOARDS there is one simulated metis-pcie. Where a number of a board comes from is said as for a chip.

    \b
    Examples:
      axtool devices
      axtool devices --boards 'metis-pcie*4'
      AXTOOL_BOARDS=metis-pcie,my-board.yaml axtool devices --devices 1
      axtool devices boards
      axtool devices show metis-pcie --yaml > my-board.yaml   # change it, then
      axtool devices check my-board.yaml                      # lists every fault
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.devices import board_yaml, devices_document, devices_text

    if as_yaml:
        print_yaml("devices", action, name, board_yaml, as_json=as_json)
    else:
        print_document(devices_document(action, name, boards=boards, selector=devices), devices_text, as_json=as_json)
