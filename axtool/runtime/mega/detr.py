"""`DetrPostamble`: the class scores and the box of every query of a detection transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.checks import DROP, check_infos, named
from axtool.runtime.mega.dense_head import Output, dense_strips
from axtool.runtime.mega.heads import Heads
from axtool.runtime.mega.levels import Level, checked_roles
from axtool.runtime.mega.params import check_choice, check_count
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo

_ROLES = ("logits", "boxes")
_SCORES = ("none", "softmax", "sigmoid")


class DetrPostamble(Operator):
    """Restores the two outputs of a detection transformer, one row a query: nothing is suppressed or sorted.

    Families: DETR, and transformers of its kind whose tail is a sigmoid of the boxes beside logits, or beside scores
    after a softmax or a sigmoid. Both last layers run on the device, biases too. Where a decoder adds reference points
    to the boxes before their sigmoid (Conditional and Deformable DETR), that sum must be the device's as well: shapes
    do not tell, `axtool verify --postamble` does.

    num_classes   channels of the logits. DETR counts 'no object' as one: 92 for COCO's 91 identifiers.
    scores        what the model declares: 'none' for logits (the default), 'softmax' over the classes of a query, or
                  'sigmoid' of each.
    tensor_roles  'logits' or 'boxes' for each tensor, in output order; needed where num_classes is 4.
    backend, threads
                  'auto', 'scalar', 'avx2', 'avx512', 'neon', all with the same bits; threads share rows of pixels, and
                  queries are one row, so more than one gains nothing.

    Emits float32 logits or scores (1, queries, num_classes), and boxes (1, queries, 4): centre x, centre y, width and
    height as fractions of the input.

    Against the onnxruntime tail: the same bits for logits, else rtol 1e-5, atol 1e-6.
    Raises ValueError for tensors and parameters that contradict each other.
    """

    postamble_slot = "fused_kernel"

    num_classes: int
    scores: Literal["none", "softmax", "sigmoid"]
    backend: str
    threads: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        num_classes: int,
        scores: Literal["none", "softmax", "sigmoid"] = "none",
        tensor_roles: Sequence[str] | None = None,
        backend: str = "auto",
        threads: int = 1,
        name: str = "",
    ) -> None:
        infos = check_infos(output_infos)
        check_choice("kind of scores", scores, _SCORES)
        self.num_classes, self.scores = check_count("num_classes", num_classes), scores
        index = _queries(infos, num_classes, tensor_roles)
        _, rows, cols, _ = infos[0].unpadded_shape
        outputs = [Output("logits", num_classes, scores), Output("boxes", 4, "sigmoid")]
        self.output_shapes, strips = dense_strips(infos, [Level(rows, cols, index)], outputs, join=True)
        self._heads = Heads(infos, strips, self.output_shapes, backend=backend, threads=threads)
        self.backend, self.threads = self._heads.backend, threads
        super().__init__(name=name)

    def __call__(self, *tensors: NDArray[np.int8]) -> Unpacked:
        return Unpacked(self._heads.run(tensors))


def _queries(infos: Sequence[TensorInfo], num_classes: int, tensor_roles: Sequence[str] | None) -> dict[str, int]:
    """Which tensor has the logits and which the boxes. Raises ValueError, by name, for tensors that are not these."""
    seen = ", ".join(named(info, index) for index, info in enumerate(infos))
    if len(infos) != len(_ROLES):
        raise ValueError(f"reads logits and boxes, this model has {len(infos)} outputs: {seen}; {DROP}")
    if infos[0].unpadded_shape[:3] != infos[1].unpadded_shape[:3]:
        raise ValueError(f"logits and boxes are of the same queries, this model has {seen}; {DROP}")
    channels = [info.unpadded_shape[3] for info in infos]
    roles = checked_roles(infos, _ROLES, tensor_roles)
    if roles is None:
        if channels == [4, 4]:
            raise ValueError(f"cannot tell {seen} apart: both are 4 wide; give tensor_roles, 'logits' and 'boxes'")
        roles = ["boxes" if width == 4 else "logits" for width in channels]
    if sorted(roles) != sorted(_ROLES):
        raise ValueError(f"want one of each, logits and boxes (4 channels), this model has {seen}; {DROP}")
    for info, role, width in zip(infos, roles, channels, strict=True):
        wanted = 4 if role == "boxes" else num_classes
        if width != wanted:
            hint = "count 'no object' as a class, or " if role == "logits" and width == num_classes + 1 else ""
            raise ValueError(f"{named(info, infos.index(info))} has the {role}: want {wanted} channels; {hint}{DROP}")
    return {role: index for index, role in enumerate(roles)}
