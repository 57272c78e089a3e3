"""`Prepare`: a picture as `axtool run` prepares it, in one step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.inputs.prepare import Preparation
from axtool.runtime import geometry
from axtool.runtime.image import ColorFormat, Image
from axtool.runtime.op.operator import Operator


class Prepare(Operator):
    """The model's input (1, c, h, w) or (1, h, w, c) of a picture; the fields are those of a config's `input`.

    An array is taken as RGB. Raises UsageError for a field that there is none of.
    """

    preparation: dict[str, Any]

    def __init__(self, *, name: str = "", **preparation: Any) -> None:
        self.preparation = preparation
        self._made = Preparation.from_dict(preparation)
        super().__init__(name=name)

    def __call__(self, image: Any) -> NDArray[Any]:
        rgb = image if isinstance(image, np.ndarray) else Image.from_any(image).convert(ColorFormat.RGB).to_numpy()
        place = self._made.place(*rgb.shape[:2])
        matrix = geometry.scaled(place.scale_x, place.scale_y, place.offset_x, place.offset_y)
        geometry.moved(matrix, place.model_size[1], place.model_size[0])
        return self._made.prepare(rgb)
