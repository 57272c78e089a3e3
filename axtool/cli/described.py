"""What `axtool targets` and `axtool devices` print alike: a document, or with --yaml the file of one chip or board."""

from collections.abc import Callable
from typing import Any

import typer

from axtool.cli.console import emit
from axtool.errors import UsageError
from axtool.legible import legible_values


def print_yaml(command: str, action: str, name: str | None, yaml_of: Callable[[str], str], *, as_json: bool) -> None:
    """The file of `show NAME --yaml`. Raises UsageError for another action, no name, or --json beside it."""
    if as_json or action != "show" or name is None:
        raise UsageError(f"--yaml goes with `{command} show NAME`, without --json", code="bad-option")
    typer.echo(yaml_of(name), nl=False)


def print_document(document: dict[str, Any], text_of: Callable[[dict[str, Any]], str], *, as_json: bool) -> None:
    """As JSON, or as the text of its legible values."""
    if as_json:
        emit(document)
    else:
        typer.echo(text_of(legible_values(document)))
