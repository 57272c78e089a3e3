"""The user's own names for tensors, kept while passes rename them: what they type, what we print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from axtool.errors import UsageError, nearest


@dataclass(frozen=True)
class Names:
    """Every value name of the user's file, and where it is now in the clean graph if its name changed.

    `moved` maps a user's name to the clean name. A name that is neither moved nor dropped is the same in both.
    """

    file: str
    user: tuple[str, ...]
    moved: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    def to_clean(self, name: str) -> str:
        """The clean-graph name of a user's name. Raises UsageError with the nearest names for an unknown one."""
        if name in self.moved:
            return self.moved[name]
        if name in self.dropped:
            raise UsageError(
                f"'{name}' is no longer in the graph: it was folded into its neighbours",
                where=self.file,
                hint=nearest(name, [n for n in self.user if n not in self.dropped]),
                code="folded-tensor",
            )
        if name not in self.user:
            raise UsageError(
                f"no tensor is named '{name}'", where=self.file, hint=nearest(name, self.user), code="unknown-tensor"
            )
        return name

    def to_user(self, clean: str) -> str:
        """The user's name of a clean-graph name; the name itself where a pass invented the value."""
        for user, now in self.moved.items():
            if now == clean:
                return user
        return clean

    def after(self, model: ir.Model, changes: Mapping[str, str] | None = None) -> Names:
        """The names after passes made `model`: `changes` maps a name before them to the name after.

        What the model no longer has is dropped.
        """
        now = {name: self.moved.get(name, name) for name in self.user if name not in self.dropped}
        now = {name: (changes or {}).get(clean, clean) for name, clean in now.items()}
        alive = set(value_names(model))
        moved = {name: clean for name, clean in now.items() if clean in alive and clean != name}
        gone = {name for name, clean in now.items() if clean not in alive}
        return replace(self, moved=moved, dropped=self.dropped | gone)


def names_of(model: ir.Model, file: str = "") -> Names:
    """The names of a model as loaded: all are the user's own."""
    return Names(file, value_names(model))


def value_names(model: ir.Model) -> tuple[str, ...]:
    """Names of the values of the main graph: inputs, initializers, node outputs, each once, in graph order."""
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    values += [value for node in model.graph for value in node.outputs]
    return tuple(dict.fromkeys(value.name for value in values if value.name))
