"""`YolactPostamble`: loc, conf, mask and proto of YOLACT from its heads and its prototype network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.checks import DROP, check_infos, named
from axtool.runtime.mega.dense_head import Output, dense_strips
from axtool.runtime.mega.heads import Heads
from axtool.runtime.mega.levels import checked_roles, find_levels
from axtool.runtime.mega.params import check_count
from axtool.runtime.mega.strips import Place, activated
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo

_ROLES = ("box", "class", "mask")


class YolactPostamble(Operator):
    """Joins the heads of YOLACT: for each level 4 box, 1 + classes score and mask channels an anchor, and prototypes.

    Families: YOLACT with any trunk and any input size. The prototypes are the tensor that is alone on its grid; they
    say how many mask coefficients there are, and the classes follow from the channels. Boxes stay encoded, as the model
    declares them. The tensors may come in any order; the largest grid comes first.

    num_anchors   anchors of a cell: 3, as every published configuration has.
    tensor_roles  'box', 'class', 'mask' or 'proto' for each output; needed where two of them are equally wide.
    backend, threads
                  'auto', 'scalar', 'avx2', 'avx512', 'neon', all with the same bits; rows are shared among threads.

    Emits float32 loc (1, rows, 4), conf (1, rows, 1 + classes) after the softmax, mask (1, rows, coefficients) after
    the tanh, proto (1, h, w, coefficients).

    Against the onnxruntime tail: loc and proto have the same bits, conf and mask are within rtol 1e-5, atol 1e-6.
    Raises ValueError for tensors that are no such heads.
    """

    postamble_slot = "fused_kernel"

    num_anchors: int
    backend: str
    threads: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        num_anchors: int = 3,
        tensor_roles: Sequence[str] | None = None,
        backend: str = "auto",
        threads: int = 1,
        name: str = "",
    ) -> None:
        infos = check_infos(output_infos)
        self.num_anchors = check_count("num_anchors", num_anchors)
        roles = checked_roles(infos, [*_ROLES, "proto"], tensor_roles)
        proto = _prototypes(infos, roles)
        rows, cols, masks = infos[proto].unpadded_shape[1:]
        columns = _columns(infos, proto, masks, self.num_anchors)
        widths = {"box": 4, "class": columns, "mask": masks}
        levels = find_levels(infos, widths, tensor_roles, "that this is a YOLACT", {"proto": proto})
        outputs = (Output("box", 4), Output("class", columns, "softmax"), Output("mask", masks, "tanh"))
        shapes, strips = dense_strips(infos, levels, outputs, join=True)
        self.output_shapes: tuple[tuple[int, ...], ...] = (*shapes, (1, rows, cols, masks))
        strips.append(activated(infos[proto], "none", Place(proto, 3, 1, masks, 0, masks, 0, masks, masks)))
        self._heads = Heads(infos, strips, self.output_shapes, backend=backend, threads=threads)
        self.backend, self.threads = self._heads.backend, threads
        super().__init__(name=name)

    def __call__(self, *tensors: NDArray[np.int8]) -> Unpacked:
        return Unpacked(self._heads.run(tensors))


def _prototypes(infos: Sequence[TensorInfo], roles: Sequence[str] | None) -> int:
    """The tensor of the role 'proto', or the one that has its grid to itself."""
    grids = [info.unpadded_shape[1:3] for info in infos]
    if roles is not None:
        found = [index for index, role in enumerate(roles) if role == "proto"]
    else:
        found = [index for index, grid in enumerate(grids) if grids.count(grid) == 1]
    if len(found) != 1:
        seen = ", ".join(named(infos[index], index) for index in found) or "none"
        raise ValueError(
            f"want one tensor of prototypes, alone on its grid; there is {seen}. "
            f"Give tensor_roles (box, class, mask, proto) in output order, or {DROP}"
        )
    return found[0]


def _columns(infos: Sequence[TensorInfo], proto: int, masks: int, anchors: int) -> int:
    """How many classes the heads have, with the background: what is neither box nor mask on the first grid."""
    heads = [index for index in range(len(infos)) if index != proto]
    grids = [infos[index].unpadded_shape[1:3] for index in heads]
    members = [index for index, grid in zip(heads, grids, strict=True) if grid == grids[0]]
    columns, rest = divmod(sum(infos[index].unpadded_shape[3] for index in members), anchors)
    if rest or columns <= 4 + masks:
        listed = ", ".join(named(infos[index], index) for index in members) or "no heads"
        raise ValueError(
            f"{listed}: want 4 box, {masks} mask and 1 + classes score channels for each of {anchors} anchors, {masks} "
            f"being what the prototypes {named(infos[proto], proto)} have; check num_anchors, or {DROP}"
        )
    return columns - 4 - masks
