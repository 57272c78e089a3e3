"""Which output of a split-head YOLO is what: roles and levels, from channel counts or from `tensor_roles`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from axtool.runtime.mega.checks import named
from axtool.runtime.mega.levels import Level
from axtool.runtime.mega.params import check_choice
from axtool.runtime.tensor_info import TensorInfo

ROLES = ("box", "class", "keypoint", "mask", "proto", "angle", "objectness")
EXTRAS = ("keypoint", "mask", "angle")


@dataclass(frozen=True)
class Heads:
    """Levels from the finest to the coarsest, as the source models concatenate them; the output of the prototypes."""

    levels: tuple[Level, ...]
    proto: int | None
    extra: str | None

    @property
    def points(self) -> int:
        return sum(level.boxes for level in self.levels)


def find_heads(
    infos: Sequence[TensorInfo],
    width: int,
    height: int,
    *,
    box_channels: int,
    num_classes: int,
    has_objectness: bool,
    tensor_roles: Sequence[str] | None,
) -> Heads:
    """The heads of a model. Raises ValueError, by name, for outputs that contradict the parameters or each other."""
    if tensor_roles is None:
        roles = _by_channels(infos, box_channels, num_classes, has_objectness)
    else:
        roles = _given(infos, tensor_roles)
    for index, (info, role) in enumerate(zip(infos, roles, strict=True)):
        wanted = {"box": box_channels, "class": num_classes, "objectness": 1, "angle": 1}.get(role)
        if wanted is not None and info.unpadded_shape[3] != wanted:
            raise ValueError(f"{named(info, index)} is the {role}: want {wanted} channels")
    extras = {role for role in roles if role in EXTRAS}
    if len(extras) > 1:
        raise ValueError(f"a model has keypoints, masks or angles, this one has {' and '.join(sorted(extras))}")
    extra = next(iter(extras), None)
    protos = [index for index, role in enumerate(roles) if role == "proto"]
    _check_prototypes(infos, roles, protos)
    wanted_roles = ["box", "class", *(["objectness"] if has_objectness else []), *([extra] if extra else [])]
    levels = _levels(infos, roles, wanted_roles, width, height)
    return Heads(levels, protos[0] if protos else None, extra)


def _check_prototypes(infos: Sequence[TensorInfo], roles: Sequence[str], protos: Sequence[int]) -> None:
    """Mask coefficients weigh the prototypes of one output. Raises ValueError where either is there alone."""
    masks = [index for index, role in enumerate(roles) if role == "mask"]
    if masks and not protos:
        raise ValueError(
            f"{named(infos[masks[0]], masks[0])} has mask coefficients, but the output of their prototypes is missing: "
            "no output has the role 'proto'"
        )
    if protos and not masks:
        raise ValueError(f"{named(infos[protos[0]], protos[0])} has prototypes, but no output has mask coefficients")
    if len(protos) > 1:
        seen = ", ".join(named(infos[index], index) for index in protos)
        raise ValueError(f"masks come with one output of prototypes, found {seen}; pass tensor_roles")


def _levels(
    infos: Sequence[TensorInfo], roles: Sequence[str], wanted: Sequence[str], width: int, height: int
) -> tuple[Level, ...]:
    """The outputs of each grid. A stride follows from the model's input, the same along both axes."""
    grids: dict[tuple[int, int], dict[str, int]] = {}
    for index, (info, role) in enumerate(zip(infos, roles, strict=True)):
        if role == "proto":
            continue
        _, h, w, _ = info.unpadded_shape
        there = grids.setdefault((h, w), {})
        if role in there:
            raise ValueError(
                f"{named(info, index)} and {named(infos[there[role]], there[role])} are both the {role} of one level; "
                "pass tensor_roles"
            )
        there[role] = index
    levels = []
    for (h, w), outputs in grids.items():
        missing = [role for role in wanted if role not in outputs]
        if missing:
            have = ", ".join(f"{role} {named(infos[index], index)}" for role, index in outputs.items())
            raise ValueError(f"the level of {h}x{w} has no {' and no '.join(missing)}; it has {have}")
        if not w or not h or width * h != height * w:
            raise ValueError(f"the level of {h}x{w} does not divide the model's input of {height}x{width}")
        levels.append(Level(h, w, outputs, stride=width / w))
    return tuple(sorted(levels, key=lambda level: level.stride))


def _given(infos: Sequence[TensorInfo], tensor_roles: Sequence[str]) -> list[str]:
    if len(tensor_roles) != len(infos):
        raise ValueError(f"tensor_roles has {len(tensor_roles)} roles, the model {len(infos)} outputs: one each")
    for role in tensor_roles:
        check_choice("role", role, ROLES)
    return list(tensor_roles)


def _by_channels(infos: Sequence[TensorInfo], box: int, num_classes: int, has_objectness: bool) -> list[str]:
    """Boxes, classes and objectness by their channels; what is left is one more tensor a level, and prototypes."""
    known = {"box": box, "class": num_classes, **({"objectness": 1} if has_objectness else {})}
    roles: list[str | None] = []
    for index, info in enumerate(infos):
        channels = info.unpadded_shape[3]
        fits = [role for role, count in known.items() if count == channels]
        if len(fits) > 1:
            raise ValueError(
                f"cannot tell outputs apart: {named(info, index)} has {channels} channels, as {' and '.join(fits)} "
                f"both have; pass tensor_roles, one of {', '.join(ROLES)} for each output"
            )
        roles.append(fits[0] if fits else None)
    levels = {info.unpadded_shape[1:3] for info, role in zip(infos, roles, strict=True) if role == "box"}
    if not levels:
        raise ValueError(_no_boxes(infos, box, num_classes))
    if "class" not in roles:
        raise ValueError(_no_classes(infos, box, num_classes, len(levels)))
    left = [index for index, role in enumerate(roles) if role is None]
    protos = [index for index in left if infos[index].unpadded_shape[1:3] not in levels]
    rest = [index for index in left if index not in protos]
    counts = {infos[index].unpadded_shape[3] for index in rest}
    if len(protos) > 1 or len(counts) > 1:
        seen = ", ".join(named(infos[index], index) for index in left)
        raise ValueError(
            f"box {box} and class {num_classes} channels do not account for {seen}; check num_classes and dfl_bins, or "
            "pass tensor_roles"
        )
    for index in protos:
        roles[index] = "proto"
    for index in rest:
        roles[index] = "mask" if protos else "angle" if counts == {1} else "keypoint"
    return [str(role) for role in roles]


def _no_classes(infos: Sequence[TensorInfo], box: int, num_classes: int, levels: int) -> str:
    """Why there is no class tensor, and which number of classes would fit: what each level has one tensor of."""
    counts = [info.unpadded_shape[3] for info in infos if info.unpadded_shape[3] != box]
    there = sorted(set(counts))
    fit = [count for count in there if counts.count(count) == levels]
    text = f"no output has {num_classes} channels, one for each of num_classes={num_classes}"
    if not there:
        return f"{text}; beside the boxes there is no output"
    text += f"; beside the boxes the outputs have {' and '.join(map(str, there))} channels"
    return text + (f": num_classes={' or '.join(map(str, fit))} would fit" if fit else "")


def _no_boxes(infos: Sequence[TensorInfo], box: int, num_classes: int) -> str:
    """Why there is no box tensor, and which kernel would fit."""
    channels = sorted({info.unpadded_shape[3] for info in infos})
    text = (
        f"no output has the {box} channels of boxes (4 * dfl_bins); the outputs have "
        f"{', '.join(map(str, channels))} channels"
    )
    packed = [c for c in channels if c % (5 + num_classes) == 0]
    if packed:
        shape = f"{packed[0] // (5 + num_classes)} anchors x (5 + {num_classes})"
        return f"{text}; {packed[0]} is {shape}: a packed head, which AnchoredYoloPostamble reads"
    return f"{text}; check dfl_bins, or {'' if len(infos) > 1 else 'name another kernel, or '}drop the Postamble"
