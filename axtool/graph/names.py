"""The user's own names for tensors, kept while passes rename them: what they type, what we print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

    def renamed(self, changes: Mapping[str, str]) -> Names:
        """After a pass that renamed values: `changes` maps the name before it to the name after."""
        moved = {user: changes.get(now, now) for user, now in self.moved.items()}
        moved |= {old: new for old, new in changes.items() if old in self.user and old not in self.moved}
        return replace(self, moved={user: now for user, now in moved.items() if user != now})

    def without(self, gone: Iterable[str]) -> Names:
        """After a pass that removed the values of these clean names."""
        users = {self.to_user(clean) for clean in gone} & set(self.user)
        return replace(
            self,
            moved={user: now for user, now in self.moved.items() if user not in users},
            dropped=self.dropped | users,
        )

    def within(self, model: ir.Model) -> Names:
        """After any pass: names whose value the model no longer has are dropped."""
        alive = set(value_names(model))
        gone = [now for user in self.user if (now := self.moved.get(user, user)) not in alive]
        return self.without(gone)


def names_of(model: ir.Model, file: str = "") -> Names:
    """The names of a model as loaded: all are the user's own."""
    return Names(file, value_names(model))


def value_names(model: ir.Model) -> tuple[str, ...]:
    """Names of the values of the main graph: inputs, initializers, node outputs, each once, in graph order."""
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    values += [value for node in model.graph for value in node.outputs]
    return tuple(dict.fromkeys(value.name for value in values if value.name))
