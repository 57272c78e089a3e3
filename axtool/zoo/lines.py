"""A config file, YAML or Python  ->  the line of each of its values, by the keys that lead there. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from axtool.plain_yaml import Place

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # seven times faster where it is
MOST_PLACES = 20_000  # aliases of aliases would stand for billions


def lines_of(path: Path) -> dict[Place, int]:
    """What can be told; nothing of a file that is not readable."""
    try:
        text = path.read_text(encoding="utf-8")
        found = _of_python(ast.parse(text)) if path.suffix == ".py" else _of_yaml(text)
        return {place: line for (place, line), _ in zip(found, range(MOST_PLACES), strict=False)}
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, yaml.YAMLError):
        return {}


def twice(path: Path) -> list[tuple[str, int]]:
    """Keys of a YAML file that come twice in one mapping, with the line of the second: the first would be lost."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), LOADER)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return []
    found: list[tuple[str, int]] = []
    todo, seen = [node], set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:  # an alias is the node that it stands for
            continue
        seen.add(id(one))
        if isinstance(one, yaml.MappingNode):
            keys: set[str] = set()
            for key, _ in one.value:
                if isinstance(key, yaml.ScalarNode) and key.value in keys:
                    found.append((key.value, key.start_mark.line + 1))
                keys |= {key.value} if isinstance(key, yaml.ScalarNode) else set()
            todo += [item for _, item in one.value]
        elif isinstance(one, yaml.SequenceNode):
            todo += one.value
    return found


def _of_yaml(text: str) -> Iterator[tuple[Place, int]]:
    node = yaml.compose(text, LOADER)
    if node is not None:
        yield from _below_node(node, (), 1)


def _below_node(node: yaml.Node, place: Place, line: int) -> Iterator[tuple[Place, int]]:
    """What an anchor brings in by `<<` has the line of the anchor; what is written beside it comes last, and wins."""
    yield place, line
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _below_node(item, (*place, index), item.start_mark.line + 1)
    elif isinstance(node, yaml.MappingNode):
        for key, item in sorted(node.value, key=lambda pair: pair[0].value != "<<"):
            if key.value == "<<":
                yield from _below_node(item, place, line)
            elif isinstance(key, yaml.ScalarNode):
                yield from _below_node(item, (*place, key.value), key.start_mark.line + 1)


def _of_python(module: ast.Module) -> Iterator[tuple[Place, int]]:
    """`config` and what is in it; of `postamble = Postamble(...)` the keywords; `preprocess = ...`."""
    for node in module.body:
        names = [t.id for t in node.targets if isinstance(t, ast.Name)] if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.Assign) and "config" in names:
            yield from _below_literal(node.value, (), node.lineno)
        elif isinstance(node, ast.Assign) and names:
            yield (names[0],), node.lineno
            for word in node.value.keywords if isinstance(node.value, ast.Call) else ():
                yield (names[0], str(word.arg)), word.value.lineno


def _below_literal(node: ast.expr, place: Place, line: int) -> Iterator[tuple[Place, int]]:
    yield place, line
    if isinstance(node, ast.Dict):
        for key, item in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield from _below_literal(item, (*place, _part(key.value)), key.lineno)
    elif isinstance(node, (ast.List, ast.Tuple)):
        for index, item in enumerate(node.elts):
            yield from _below_literal(item, (*place, index), item.lineno)


def _part(value: Any) -> int | str:
    return value if isinstance(value, int) else str(value)
