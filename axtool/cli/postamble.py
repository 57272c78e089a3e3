"""`--postamble NAME,key=value,…`  ->  the Postamble of a run: a kernel for the tail, or onnxruntime on purpose."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axtool.errors import UsageError

if TYPE_CHECKING:
    from axtool.runtime.postamble import Postamble

OPTION = "--postamble"
EXAMPLE = f"for example {OPTION} UltralyticsYoloPostamble,num_classes=80"
NONE = "none"
_OPENING, _CLOSING = "([{", ")]}"

Option = Annotated[
    str | None,
    typer.Option(
        OPTION,
        metavar="NAME[,KEY=VALUE…]",
        help="A kernel for the tail: built in, or module:Class; values as in YAML; none: onnxruntime.",
    ),
]


def postamble_of(text: str) -> Postamble:
    """The Postamble that the option says, also written as in Python; empty for `none`.

    The slot is the one that the kernel is written for; before a kernel that does not say, it is named:
    `kernel=module:Class`. Modules are looked for in the current folder too. Raises UsageError.
    """
    from axtool.runtime.postamble import SLOTS, Postamble

    if text.strip().startswith("Postamble("):
        return _called(text)
    parts = list(_parts(text))
    slot, equals, kernel = parts[0].partition("=")
    if not equals:
        slot, kernel = "", parts[0]
    elif slot not in SLOTS:
        raise _fault(text, "the kernel comes first, its parameters behind it")
    params: dict[str, Any] = {}
    for part in parts[1:]:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier() or key in (*SLOTS, *params):
            raise _fault(text, f"'{part}' is no KEY=VALUE of its own")
        params[key] = _value(text, key, value)
    if kernel == NONE:
        if slot or params:
            raise _fault(text, f"'{NONE}' has no parameters")
        return Postamble()
    try:
        return Postamble(**{slot or _slot(kernel): kernel}, **params)
    except (ValueError, TypeError, ImportError) as error:
        raise _fault(text, str(error)) from error


def _called(text: str) -> Postamble:
    """`Postamble(fused_kernel='Name', key=value)`, as `axtool info` prints it; read, not run."""
    from axtool.runtime.postamble import Postamble

    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not all(keyword.arg for keyword in call.keywords):
            raise ValueError("want Postamble(fused_kernel='Name', key=value)")
        values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        made = Postamble(**values)
        if ":" in made.kernel_name:
            _look_here()
        return made
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise _fault(text, str(error)) from error


def _look_here() -> None:
    """Modules are looked for in the current folder too, after all others."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _slot(kernel: str) -> str:
    """The slot that a kernel is written for."""
    from axtool.runtime.postamble import SLOTS, find_kernel, import_path

    if ":" in kernel:
        _look_here()
    slot: str | None = find_kernel(import_path(kernel)).postamble_slot
    if slot not in SLOTS:
        raise ValueError(f"{kernel} does not say its slot; write kernel={kernel} or fused_kernel={kernel}")
    return slot


def _parts(text: str) -> Iterator[str]:
    """What commas part, but those in brackets or quotes."""
    depth, quote, begun = 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "," and depth == 0:
            yield text[begun:at].strip()
            begun = at + 1
        else:
            depth += (letter in _OPENING) - (letter in _CLOSING)
    yield text[begun:].strip()


def _value(text: str, key: str, value: str) -> Any:
    """A value as YAML has it: a number, a text, true or false, a list, a mapping."""
    import yaml

    from axtool.plain_yaml import parse_plain

    try:
        made = parse_plain(f'"{key}": {value}').values  # in quotes: `off` alone would be false
    except (ValueError, yaml.YAMLError) as error:
        raise _fault(text, f"{key}: {' '.join(str(error).split())}") from error
    if list(made) != [key] or made[key] is None:
        raise _fault(text, f"{key}: want one value")
    return made[key]


def _fault(text: str, what: str) -> UsageError:
    shown = text if len(text) <= 80 else f"{text[:77]}…"
    return UsageError(f"{OPTION} {shown}: {what}", hint=EXAMPLE, code="bad-postamble")
