"""A config file  ->  the Config that it says, or every fault of it with its line.

YAML (`zoo/<task>/<name>.yaml`) or Python (`<name>.py`: one literal dictionary called `config`, and beside it where they
are wanted `postamble = Postamble(...)` and `preprocess = op.seq(...)`; read with `ast` and never run).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from axtool.config import read_yaml
from axtool.errors import AxError, UsageError, plural
from axtool.plain_faults import MOST_LETTERS, faults_of
from axtool.plain_yaml import Place
from axtool.zoo.lines import lines_of, twice
from axtool.zoo.preprocess import calls_of, not_literal, preparation_of
from axtool.zoo.schema import Config


@dataclass(frozen=True)
class Fault:
    """What is wrong, and on which line; None where it is not of one line."""

    what: str
    line: int | None = None

    def __str__(self) -> str:
        what = self.what if len(self.what) <= MOST_LETTERS else f"{self.what[:MOST_LETTERS]}…"
        return what if self.line is None else f"line {self.line}: {what}"


class BadConfig(UsageError):
    """A config with its faults."""

    def __init__(self, path: Path, faults: Sequence[Fault], *, hint: str = "", listed: bool = True) -> None:
        lines = {fault.line for fault in faults}
        where = f"{path}:{faults[0].line}" if len(lines) == 1 and faults[0].line is not None else str(path)
        super().__init__(
            plural(len(faults), "fault") if listed else faults[0].what, where=where, hint=hint, code="bad-config",
            details=[str(fault) for fault in faults] if listed else (),
        )  # fmt: skip
        self.faults = tuple(faults)


def read_config(path: Path) -> Config:
    """The config in a file, which is read and not run. Raises UsageError that lists every fault with its line."""
    values = dict(read_python(path) if path.suffix == ".py" else read_yaml(path))
    faults = [] if path.suffix == ".py" else [Fault(f"{key}: comes twice", line) for key, line in twice(path)]
    if values.get("preprocess"):
        values["input"] = _meant(path, values, faults)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        found = sorted([*faults, *_faults(path, error)], key=lambda fault: fault.line or 0)
        raise BadConfig(path, found) from error
    if config.name != path.stem:
        line = lines_of(path).get(("name",))
        faults.append(Fault(f"name: is for '{config.name}'; want the file's own name, '{path.stem}'", line))
    if faults:
        raise BadConfig(path, faults)
    return config


def _meant(path: Path, values: Mapping[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """The `input` that the operators of `preprocess` mean; a fault where there is none, or an `input` beside it."""
    line = lines_of(path).get(("preprocess",))
    if "input" in values:
        faults.append(Fault("preprocess: says what 'input' says; keep one of the two", line))
    try:
        return preparation_of(calls_of(str(values["preprocess"])))
    except AxError as error:
        faults.append(Fault(f"preprocess: {error}", line))
    return {}


def _faults(path: Path, error: ValidationError) -> list[Fault]:
    """Each fault by the keys that lead to it, with the line of the last of them that is written."""
    lines = lines_of(path)
    told = zip(error.errors(include_url=False), faults_of(error, Config), strict=False)  # of very many only the first
    return [Fault(what, line_at(lines, item["loc"])) for item, what in told]


def line_at(lines: Mapping[Place, int], place: Sequence[int | str]) -> int | None:
    """The line of a place, or of what is around it; None where nothing of it is written."""
    whole = tuple(place)
    return next((lines[whole[:n]] for n in range(len(whole), 0, -1) if whole[:n] in lines), None)


def _said(path: Path, what: str, line: int | None = None, hint: str = "") -> BadConfig:
    return BadConfig(path, [Fault(what, line)], hint=hint, listed=False)


def read_python(path: Path) -> Mapping[str, Any]:
    """The dictionary `config` of a module, with what stands beside it: `postamble`, `preprocess`. Read, never run."""
    values, module = dict(read_literal(path, "config")), _parsed(path)
    for name, read in (("postamble", _postamble), ("preprocess", _preprocess)):
        node = _assigned(module, name)
        if node is None:
            continue
        if name in values:
            raise _said(path, f"'{name}' is both in config and beside it; keep one", node.lineno)
        values[name] = read(path, node)
    return values


def _postamble(path: Path, node: ast.Assign) -> dict[str, Any]:
    """The keywords of `postamble = Postamble(...)`. Raises UsageError for anything but that call with plain values."""
    call = node.value
    called = call.func if isinstance(call, ast.Call) else None
    written = getattr(called, "id", getattr(called, "attr", ""))  # Postamble(...), or runtime.Postamble(...)
    hint = "write postamble = Postamble(...) with plain values: the file is read, never run"
    if not isinstance(call, ast.Call) or written != "Postamble" or any(word.arg is None for word in call.keywords):
        raise _said(path, "'postamble' is not a call of Postamble", node.lineno, hint)
    try:
        words = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        given = [ast.literal_eval(value) for value in call.args]
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        what = f"'postamble' has a value that is no literal: {not_literal(error, call)}"
        raise _said(path, what, node.lineno, hint) from error
    if len(given) > 1 or (given and "kernel" in words):
        raise _said(path, "Postamble takes one kernel by position", node.lineno, hint)
    return {"kernel": given[0], **words} if given else words


def _preprocess(path: Path, node: ast.Assign) -> str:
    """The text of `preprocess = op.seq(...)`, which is judged with that of a YAML file."""
    try:
        return ast.unparse(node.value)
    except (RecursionError, MemoryError) as error:
        raise _said(path, "'preprocess' is nested too deep", node.lineno) from error


def read_literal(path: Path, name: str) -> Mapping[str, Any]:
    """The literal value that a Python module gives to `name`. Raises UsageError when it is not a literal dictionary."""
    node = _assigned(_parsed(path), name)
    if node is None:
        raise _said(path, f"holds no literal dictionary '{name}'")
    try:
        value = ast.literal_eval(node.value)
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        hint = "write plain values: the file is read, never run"
        raise _said(path, f"'{name}' is not a literal: {not_literal(error, node.value)}", node.lineno, hint) from error
    if not isinstance(value, dict):
        raise _said(path, f"holds no literal dictionary '{name}'", node.lineno)
    return value


def _assigned(module: ast.Module, name: str) -> ast.Assign | None:
    """The assignment to a name at the top of a module."""
    for node in module.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node
    return None


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as error:
        raise _said(path, f"not readable as Python: {error.msg}", error.lineno) from error
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise _said(path, f"not readable as Python: {error}") from error
