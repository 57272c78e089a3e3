"""Which device tensor is which: the tensors of a dense head, grouped by grid and told apart by their widths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from axtool.runtime.mega.checks import DROP, named
from axtool.runtime.mega.params import check_choice, check_roles
from axtool.runtime.tensor_info import TensorInfo


@dataclass(frozen=True)
class Level:
    """One grid: its rows and columns, the tensor of each role by index, and the anchors of a cell.

    `stride` is the pixels of the model's input from one column to the next, where a head needs it.
    """

    rows: int
    cols: int
    index: Mapping[str, int]
    anchors: int = 1
    stride: float = 0.0

    @property
    def boxes(self) -> int:
        """Rows of the output that this level makes."""
        return self.rows * self.cols * self.anchors


def find_levels(
    infos: Sequence[TensorInfo],
    widths: Mapping[str, int],
    tensor_roles: Sequence[str] | None,
    parameters: str,
    besides: Mapping[str, int] = MappingProxyType({}),
) -> list[Level]:
    """The levels, largest grid first. `widths` says how many channels an anchor has in the tensor of each role.

    `parameters` are the words for what to check; `besides` are tensors of other roles, which belong to no level.
    Raises ValueError where the tensors do not fit, or look the same.
    """
    roles = checked_roles(infos, [*widths, *besides], tensor_roles)
    grids: dict[tuple[int, int], list[int]] = {}
    for index, info in enumerate(infos):
        if index in besides.values():
            continue
        grids.setdefault((info.unpadded_shape[1], info.unpadded_shape[2]), []).append(index)
    found = []
    for grid in sorted(grids, key=lambda grid: -math.prod(grid)):
        members = grids[grid]
        listed = ", ".join(named(infos[i], i) for i in members)
        if len(members) != len(widths):
            raise ValueError(
                f"grid {grid[0]} x {grid[1]} has {len(members)} outputs ({listed}), want {len(widths)}: "
                f"{', '.join(widths)}; {DROP}"
            )
        anchors, rest = divmod(sum(infos[i].unpadded_shape[3] for i in members), sum(widths.values()))
        by_width = {role: width * anchors for role, width in widths.items()}
        channels = sorted(infos[i].unpadded_shape[3] for i in members)
        if rest or anchors == 0 or channels != sorted(by_width.values()):
            wanted = ", ".join(f"{width} for each anchor ({role})" for role, width in widths.items())
            raise ValueError(f"{listed}: channels {channels}, want {wanted}; check {parameters}, or {DROP}")
        found.append(Level(*grid, _index(infos, members, by_width, roles), anchors))
    return found


def checked_roles(
    infos: Sequence[TensorInfo], known: Sequence[str], tensor_roles: Sequence[str] | None
) -> Sequence[str] | None:
    """The roles as they were given, one a tensor. Raises ValueError for another number of them or an unknown one."""
    roles = check_roles(tensor_roles)
    if roles is None:
        return None
    for role in roles:
        check_choice("role", role, known)
    if len(roles) != len(infos):
        raise ValueError(f"tensor_roles has {len(roles)} roles for {len(infos)} outputs, want one for each")
    return roles


def _index(
    infos: Sequence[TensorInfo], members: Sequence[int], by_width: Mapping[str, int], roles: Sequence[str] | None
) -> dict[str, int]:
    """The tensor of each role, from the roles that were given or from the widths."""
    found: dict[str, int] = {}
    for role, width in by_width.items():
        fits = [i for i in members if infos[i].unpadded_shape[3] == width and (roles is None or roles[i] == role)]
        if len(fits) > 1:
            alike = " and ".join(named(infos[i], i) for i in fits)
            raise ValueError(
                f"cannot tell {alike} apart: both are {width} wide; give tensor_roles, one of "
                f"{', '.join(by_width)} for each output in output order"
            )
        if not fits:
            raise ValueError(f"tensor_roles: no output of {width} channels has the role '{role}' in its grid")
        found[role] = fits[0]
    return found
