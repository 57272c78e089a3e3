"""A sample of a comparison  ->  a picture with two panels: what the source finds, and what the device does.

Boxes are drawn on the model's input as the source and the device place them; labels of pixels are laid over it. The
input is shown as the preparation made it from a picture, undone, or scaled to its own range where no preparation says
how it came about. Drawing needs matplotlib, which `pip install 'axtool[report]'` brings.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import EnvironmentFault, UsageError
from axtool.inputs.prepare import Preparation
from axtool.runtime.detect import label
from axtool.runtime.label_map import label_map
from axtool.runtime.objects import objects_of
from axtool.verify.box_metric import BEST, BoxAgreement
from axtool.verify.label_metric import LabelAgreement
from axtool.verify.seen import Seen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_SCORE = 0.3  # of a box; all of the best ones where none has it
INCHES, DOTS = 12.0, 100
SEEN = ("source", "device")
Picture = NDArray[np.uint8]  # (h, w, 3)


def require_matplotlib() -> None:
    """Raises EnvironmentFault where it is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise EnvironmentFault(
            "--save draws with matplotlib, which is not installed", hint="pip install 'axtool[report]'",
            code="no-matplotlib",
        ) from None  # fmt: skip


def panels(seen: Seen) -> bytes:
    """The sample as bytes of a PNG. Raises UsageError where there is no picture, or nothing to draw on it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture = picture_of(seen)
    rows, columns = picture.shape[:2]
    figure = Figure(figsize=(INCHES, INCHES / 2 * rows / columns + 0.8), dpi=DOTS, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{seen.name}: {_agreement(seen)}")
    for axes, who, outputs in zip(figure.subplots(1, 2), SEEN, (seen.reference, seen.result), strict=True):
        axes.imshow(picture)
        axes.set_axis_off()
        found = _drawn(axes, seen, outputs, (rows, columns))
        axes.set_title(f"{who}: {found}")
    made = io.BytesIO()
    figure.savefig(made, format="png", metadata={"Software": None})
    return made.getvalue()


def picture_of(seen: Seen) -> Picture:
    """The one input that is a picture, as pixels. Raises UsageError without one."""
    for array in seen.feeds.values():
        if array.ndim == 4 and array.shape[0] == 1 and {array.shape[1], array.shape[3]} & {1, 3}:
            first = array.shape[1] in (1, 3)
            pixels = np.moveaxis(array[0], 0, 2) if first else array[0]
            return _pixels(pixels.astype(np.float64), seen.preparation)
    raise UsageError("--save: no input is a picture", hint="leave --save out", code="nothing-to-draw")


def _pixels(values: NDArray[np.float64], preparation: Preparation | None) -> Picture:
    """(h, w, 1 or 3) -> RGB; what the preparation did is undone, other numbers are spread over 0 to 255."""
    if preparation is not None and preparation.normalises:
        mean, std = (0.0 if one is None else np.asarray(one) for one in (preparation.mean, preparation.std))
        values = (values * (1.0 if preparation.std is None else std) + mean) / (preparation.scale or 1 / 255)
    else:
        low, high = values.min(), values.max()
        values = (values - low) * (255 / (high - low if high > low else 1.0))
    if preparation is not None and preparation.color == "BGR":
        values = values[:, :, ::-1]
    return np.repeat(np.clip(np.rint(values), 0, 255).astype(np.uint8), 3 // values.shape[2], 2)


def _agreement(seen: Seen) -> str:
    """What the two panels have in common, of this sample alone."""
    if seen.metrics.boxes is not None:
        boxes = BoxAgreement(seen.metrics.boxes.task)
        boxes.add(seen.reference, seen.result)
        mean = "" if boxes.mean_iou is None else f", mean IoU {boxes.mean_iou:.3f}"
        return f"{boxes.matched} of {boxes.wanted} best boxes match{mean}"
    maps = _maps(seen)
    one = LabelAgreement(maps.output, maps.settings)
    one.add(seen.reference, seen.result)
    return f"{100 * one.pixel:.2f} % of the pixels agree"


def _maps(seen: Seen) -> LabelAgreement:
    if seen.metrics.labels is None:
        raise UsageError(
            "--save: nothing says what to draw", hint="--metric iou, or --metric miou,pixel", code="nothing-to-draw"
        )
    return seen.metrics.labels


def _drawn(axes: Axes, seen: Seen, outputs: Mapping[str, NDArray[Any]], size: tuple[int, int]) -> str:
    """Draws one side over a picture of that size, and says what there is."""
    if seen.metrics.boxes is not None:
        return _boxes(axes, {**seen.metrics.boxes.task, "labels": seen.labels}, outputs)
    maps = _maps(seen)
    found = label_map(np.asarray(outputs[maps.output]), **maps.settings)
    extent = (-0.5, size[1] - 0.5, size[0] - 0.5, -0.5)
    axes.imshow(_COLOURS[found % len(_COLOURS)], extent=extent, alpha=0.6, interpolation="nearest")
    index, count = np.unique(found, return_counts=True)
    most = np.argsort(-count, kind="stable")[:4]
    return ", ".join(f"{label(seen.labels, int(index[at]))} {100 * count[at] / found.size:.0f} %" for at in most)


def _boxes(axes: Axes, task: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]]) -> str:
    from matplotlib.patches import Rectangle

    found = objects_of(task, outputs, None, threshold=0.0, most=BEST)
    sure = found.scores >= SHOWN_SCORE
    shown = np.flatnonzero(sure if sure.any() else np.ones_like(sure))
    for at in shown:
        x0, y0, x1, y1 = found.boxes[at]
        colour = tuple(_COLOURS[int(found.classes[at]) % len(_COLOURS)] / 255)
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour, linewidth=2))
        text = f"{label(task.get('labels', ()), int(found.classes[at]))} {found.scores[at]:.2f}"
        axes.text(x0, y0, text, fontsize=8, color="black", bbox={"facecolor": colour, "pad": 1, "linewidth": 0})
    return f"{len(shown)} boxes"


def _colours(count: int) -> NDArray[np.uint8]:
    """(count, 3) colours that neighbours in number do not share: the bits of the number spread over the channels."""
    numbers = np.arange(1, count + 1)
    made = np.zeros((count, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            made[:, channel] |= (((numbers >> (3 * bit + channel)) & 1) << (7 - bit)).astype(np.uint8)
    return made


_COLOURS = _colours(256)
