"""Label maps of two models, picture by picture  ->  how many pixels agree, mean IoU, and what is sure of them.

A pixel whose best score is barely above the second is decided by rounding: no quantization could keep it. So the
pixels whose margin in the float model exceeds one quantization step of the scores, the clear ones, are counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from axtool.artefact.stages import Artefact, DeviceStage
from axtool.runtime.label_map import THRESHOLD, is_label_map, label_map, margins
from axtool.types import QFormat

PIXELS = 0.9  # that agree, wanted where no limit is given and no margin is known
CLEAR = 0.95  # of the clear pixels, wanted where no limit is given
# What the host may do behind the scores without making other numbers of them.
PICKING = (
    "ArgMax", "Cast", "Constant", "Flatten", "Identity", "Reshape", "Resize", "Slice", "Squeeze", "Transpose",
    "Unsqueeze",
)  # fmt: skip
TINY = 1e-12  # the least chance, whose logit is still finite
Array = NDArray[Any]


@dataclass
class LabelAgreement:
    """Sums over the pictures of one output.

    `settings` are those of `label_map`; `scores` names the tensor of the float model that the labels are taken from,
    empty where the output holds the scores itself or nobody knows them; `step` is one quantization step of the scores,
    and `of_logits` says that it is one of what a sigmoid behind the device makes chances of.
    """

    output: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    scores: str = ""
    step: float | None = None
    of_logits: bool = False
    samples: int = 0
    pixels: int = 0
    same: int = 0
    clear: int = 0
    clear_same: int = 0
    common: dict[int, int] = field(default_factory=dict)  # by class: pixels that both say are of it
    either: dict[int, int] = field(default_factory=dict)  # by class: pixels that one of the two says are of it

    def add(self, reference: Mapping[str, Array], result: Mapping[str, Array]) -> None:
        """One picture: outputs by name, of the reference with its scores. Raises ValueError where shapes differ."""
        output = np.asarray(reference[self.output])
        wanted = label_map(output, **self.settings)
        got = label_map(np.asarray(result[self.output]), **self.settings)
        if wanted.shape != got.shape:
            raise ValueError(f"{self.output}: labels of {got.shape}, want {wanted.shape}")
        same = wanted == got
        self.samples += 1
        self.pixels += same.size
        self.same += int(same.sum())
        for sums, labels in ((self.common, wanted[same]), (self.either, wanted), (self.either, got[~same])):
            for index, count in zip(*np.unique(labels, return_counts=True), strict=True):
                sums[int(index)] = sums.get(int(index), 0) + int(count)
        self._add_clear(reference.get(self.scores) if self.scores else output, same)

    def _add_clear(self, scores: Array | None, same: NDArray[np.bool_]) -> None:
        if self.step is None or scores is None or is_label_map(np.asarray(scores)):
            return
        threshold, classes = (self.settings.get(name) for name in ("threshold", "classes"))
        threshold, scores = THRESHOLD if threshold is None else threshold, np.asarray(scores)
        if self.of_logits:
            threshold, scores = float(_logits(np.array(threshold))), _logits(scores)
        margin = margins(scores, threshold, classes)
        if margin.shape == same.shape:
            clear = margin > self.step
            self.clear += int(clear.sum())
            self.clear_same += int((same & clear).sum())

    @property
    def pixel(self) -> float:
        """The share of pixels with the same label."""
        return self.same / self.pixels if self.pixels else 1.0

    @property
    def clear_pixel(self) -> float | None:
        """The same of the clear pixels; None where no margin is known, or none is clear."""
        return self.clear_same / self.clear if self.clear else None

    @property
    def miou(self) -> float | None:
        """The mean over the classes that either says of pixels of both over pixels of either; None without pixels."""
        ious = [self.common.get(index, 0) / count for index, count in self.either.items()]
        return float(np.mean(ious)) if ious else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "output": self.output, "samples": self.samples, "pixels": self.pixels, "pixel_agreement": self.pixel,
            "mean_iou": self.miou, "classes": len(self.either), "step": self.step, "clear_pixels": self.clear,
            "clear_pixel_agreement": self.clear_pixel,
        }  # fmt: skip

    def failures(
        self, least_pixel: float | None, least_clear: float | None, least_miou: float | None
    ) -> tuple[list[str], list[str]]:
        """(what is checked, why it fails). Without any limit: the clear pixels, or all of them where none is clear."""
        if least_pixel is None and least_clear is None and least_miou is None:
            least_clear, least_pixel = (CLEAR, None) if self.clear_pixel is not None else (None, PIXELS)
        checks, failures = [], []
        for what, figure, least in (
            ("pixel agreement", self.pixel, least_pixel),
            ("agreement of the clear pixels", self.clear_pixel, least_clear),
            ("mean IoU", self.miou, least_miou),
        ):
            if least is not None:
                checks.append(f"{what} >= {least:g}")
                if figure is None:
                    failures.append(f"'{self.output}': no {what} is known")
                elif figure < least:
                    failures.append(f"'{self.output}': {what} {figure:.4f}, want at least {least:g}")
        return checks, failures


def score_step(artefact: Artefact) -> tuple[float | None, bool]:
    """(one quantization step of the scores in real units, whether a sigmoid on the host comes behind them).

    Of what an argmax on the device reads, else of what the last device stage gives, the coarsest where it gives
    several. None for formats without a fixed step, and where the host does more than move, enlarge and pick.
    """
    behind: set[str] = set()
    for stage in reversed(artefact.stages):
        if isinstance(stage, DeviceStage):
            break
        behind |= {node.op_type for node in onnx.load_model_from_string(stage.onnx).graph.node}
    if not artefact.device_stages or behind - {*PICKING, "Sigmoid"}:
        return None, False
    program = artefact.device_stages[-1].plan.program
    read = [layer.inputs[0] for layer in program.layers if layer.op == "arg_max"]
    steps = [step_of(program.tensors[name].format) for name in read[-1:] or program.outputs]
    return max((step for step in steps if step is not None), default=None), "Sigmoid" in behind


def _logits(chances: Array) -> NDArray[np.float64]:
    """What a sigmoid makes these chances of."""
    inside = np.clip(chances.astype(np.float64), TINY, 1 - TINY)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def step_of(fmt: QFormat) -> float | None:
    """The distance of two neighbouring values; the largest of several channels'; None for a floating format."""
    if fmt.kind == "fx32":
        return 2.0 ** -int(fmt.fraction_bits or 0)
    return max(fmt.scale) if fmt.scale else None
