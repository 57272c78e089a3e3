"""`DenseHeadPostamble`: heads that are only flattened, joined and activated: BlazeFace, YuNet, SCRFD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.checks import check_infos
from axtool.runtime.mega.heads import Heads
from axtool.runtime.mega.levels import Level, find_levels
from axtool.runtime.mega.params import check_choice, check_count, check_flag, check_list, shown
from axtool.runtime.mega.strips import Place, Strip, activated
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo

_ACTIVATIONS = ("none", "sigmoid", "tanh", "softmax")


@dataclass(frozen=True)
class Output:
    """What an output has for each anchor: `width` values of the tensor of a role, activated."""

    role: str
    width: int
    activation: str = "none"


class DenseHeadPostamble(Operator):
    """Flattens the tensors of each grid to rows, one an anchor, and activates them.

    Families, with `outputs` in the order of the model's outputs:
    BlazeFace (front, back): join=False, [["score", 1], ["box", 16]]
    MediaPipe face, full range: [["box", 16], ["score", 1]]
    YuNet: join=False, [["cls", 1, "sigmoid"], ["obj", 1, "sigmoid"], ["bbox", 4], ["kps", 10]],
        tensor_roles=["cls", "bbox", "obj", "kps"] * 3, as its tensors come
    SCRFD: join=False, batched=False, [["score", 1, "sigmoid"], ["bbox", 4], ["kps", 10]]; batched=True for an export
        with a leading axis, and no "kps" where the model has no keypoints
    UltraFace without its box decoder: [["score", 2, "softmax"], ["box", 4]]

    outputs       [role, values for each anchor, activation]: 'none' (the default), 'sigmoid', 'tanh' or 'softmax'.
    join          True: one output a role, the rows of the largest grid first. False: one output for each role and grid,
                  all grids of the first role first.
    batched       whether the outputs have a leading axis of 1, as most have.
    tensor_roles  the role of each tensor, in output order; needed where two roles have the same number of values.
    backend, threads
                  'auto', 'scalar', 'avx2', 'avx512', 'neon', all with the same bits; rows are shared among threads.

    Emits float32 (1, rows, values) for each output, boxes as the model encodes them.

    Against the onnxruntime tail: the same bits without an activation, else rtol 1e-5, atol 1e-6.
    Raises ValueError for tensors and parameters that contradict each other.
    """

    postamble_slot = "fused_kernel"

    outputs: list[Output]
    join: bool
    backend: str
    threads: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        outputs: Sequence[Sequence[Any]] | None = None,
        join: bool = True,
        batched: bool = True,
        tensor_roles: Sequence[str] | None = None,
        backend: str = "auto",
        threads: int = 1,
        name: str = "",
    ) -> None:
        infos = check_infos(output_infos)
        self.outputs, self.join = _outputs(outputs), check_flag("join", join)
        check_flag("batched", batched)
        widths = {output.role: output.width for output in self.outputs}
        levels = find_levels(infos, widths, tensor_roles, "outputs")
        self.output_shapes, strips = dense_strips(infos, levels, self.outputs, join=join, batched=batched)
        self._heads = Heads(infos, strips, self.output_shapes, backend=backend, threads=threads)
        self.backend, self.threads = self._heads.backend, threads
        super().__init__(name=name)

    def __call__(self, *tensors: NDArray[np.int8]) -> Any:
        found = self._heads.run(tensors)
        return found[0] if len(found) == 1 else Unpacked(found)


def dense_strips(
    infos: Sequence[TensorInfo], levels: Sequence[Level], outputs: Sequence[Output], *, join: bool, batched: bool = True
) -> tuple[tuple[tuple[int, ...], ...], list[Strip]]:
    """The shapes of the outputs, and the strips that fill them."""
    shapes: list[tuple[int, ...]] = []
    strips = []
    leading = (1,) if batched else ()
    for output in outputs:
        first = 0
        for level in levels:
            if not join or level is levels[0]:
                rows = sum(each.boxes for each in levels) if join else level.boxes
                shapes.append((*leading, rows, output.width))
                first = 0
            index, width = level.index[output.role], output.width
            at, step = first * width, level.anchors * width
            place = Place(index, len(shapes) - 1, level.anchors, width, 0, width, at, width, step)
            strips.append(activated(infos[index], output.activation, place))
            first += level.boxes
    return tuple(shapes), strips


def _outputs(outputs: Sequence[Sequence[Any]] | None) -> list[Output]:
    """The outputs as they were written. Raises ValueError naming the one that is none."""
    if not outputs:
        raise ValueError("outputs are missing: [[role, values for each anchor, activation], ...] as the model has them")
    found: list[Output] = []
    for position, written in enumerate(check_list("outputs", outputs)):
        where = f"outputs[{position}]"
        if isinstance(written, Mapping):
            written = list(written.values())
        if not isinstance(written, (list, tuple)) or not 2 <= len(written) <= 3 or not isinstance(written[0], str):
            raise ValueError(f"{where} is {shown(written)}, want [role, values for each anchor] or with an activation")
        activation = check_choice("activation", written[2], _ACTIVATIONS) if len(written) == 3 else "none"
        output = Output(written[0], check_count(f"{where} values", written[1]), activation)
        if output.role in [other.role for other in found]:
            raise ValueError(f"{where}: role {shown(output.role)} is there twice")
        found.append(output)
    return found
