"""A YAML file of plain values  ->  the values, and the line of each: every fault can be told with its line.

Anchors, aliases, merges, tags, dates and keys that come twice are refused: what is written is what is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from axtool.config import refuse_special
from axtool.errors import UsageError

MOST_BYTES = 1 << 18  # a file of settings; the largest shipped one has a hundredth of it
MOST_DEEP = 32

_PREFIX = "tag:yaml.org,2002:"
_PLAIN = frozenset(_PREFIX + kind for kind in ("map", "seq", "str", "int", "float", "bool", "null"))
Place = tuple[int | str, ...]


@dataclass(frozen=True)
class Plain:
    """The mapping of a file, and the line on which each value begins, by the keys that lead to it."""

    values: Mapping[str, Any]
    lines: Mapping[Place, int]

    def line(self, place: Sequence[int | str]) -> int:
        """The line of the value at a place, or of what is around it where there is no such value."""
        whole = tuple(place)
        return next((self.lines[whole[:n]] for n in range(len(whole), 0, -1) if whole[:n] in self.lines), 1)


def read_plain(path: Path) -> Plain:
    """The mapping in a YAML (or JSON) file. Raises UsageError with the line of what is wrong."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path), code="file-not-found") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"is larger than {MOST_BYTES:,} bytes", where=str(path), code="bad-yaml")
    try:
        return parse_plain(data.decode("utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"not a file of plain YAML values: {said}", where=str(path), code="bad-yaml") from error


def parse_plain(text: str) -> Plain:
    """The mapping in a text. Raises ValueError or YAMLError, which say where."""
    loader = yaml.SafeLoader(text)
    try:
        _refuse_tricks(text)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise ValueError("want a mapping of keys")
        lines = dict(_places(node, ()))
        values: dict[str, Any] = loader.construct_document(node)
    except RecursionError:
        raise ValueError("nested too deep") from None
    finally:
        loader.dispose()
    return Plain(values, lines)


def _refuse_tricks(text: str) -> None:
    """Before anything is built of them: a few aliases of aliases would stand for billions of values."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        line = _at(event.start_mark)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ValueError(f"line {line}: an anchor or alias; write the value itself")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEEP:
            raise ValueError(f"line {line}: nested too deep")


def _places(node: yaml.Node, place: Place, line: int = 0) -> Iterator[tuple[Place, int]]:
    """The line of each value below a node, for one of a mapping that of its key.

    Raises ValueError for a value that is not plain, or a key that is no text or comes twice.
    """
    line = line or _at(node.start_mark)
    if node.tag not in _PLAIN:
        raise ValueError(f"line {line}: {node.tag.removeprefix(_PREFIX)} is no plain value; a text goes in quotes")
    yield place, line
    if isinstance(node, yaml.ScalarNode):
        node.value = _joined(node.value, line)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _places(item, (*place, index))
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, item in node.value:
            at = _at(key.start_mark)
            if key.tag != _PREFIX + "str":
                told = f"'{key.value}'" if isinstance(key, yaml.ScalarNode) else "of several values"
                raise ValueError(f"line {at}: the key {told} is no text")
            key.value = _joined(key.value, at)
            if key.value in seen:
                raise ValueError(f"line {at}: the key '{key.value}' comes twice")
            seen.add(key.value)
            yield from _places(item, (*place, key.value), at)


def _joined(text: str, line: int) -> str:
    """A character that JSON writes as two halves is one. Raises ValueError for a half alone."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError(f"line {line}: a text with half a character") from None


def _at(mark: Any) -> int:
    return 1 if mark is None else int(mark.line) + 1
