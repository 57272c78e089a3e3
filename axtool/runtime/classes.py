"""The classes of well-known data sets, as enumerations by the index of a model's output: `CocoClasses.dog == 16`.

The names are lines of files in configs/classes, each of which says where its names are from and on what terms. An
enumeration is made when it is first asked for.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from axtool.config import package_dir

CLASSES = {"CocoClasses": "coco", "DotaClasses": "dota", "ImagenetClasses": "imagenet"}

KEYPOINTS = "COCO_KEYPOINT_NAMES"

if TYPE_CHECKING:
    CocoClasses: Any  # an IntEnum whose members only the file knows
    DotaClasses: Any
    ImagenetClasses: Any
    COCO_KEYPOINT_NAMES: tuple[str, ...]


@lru_cache
def class_names(data_set: str) -> tuple[str, ...]:
    """The names of a file of configs/classes, by index: the last word of each line that is no comment."""
    text = (package_dir("configs") / "classes" / f"{data_set}.txt").read_text(encoding="utf-8")
    return tuple(line.split()[-1] for line in text.splitlines() if line and not line.startswith("#"))


@lru_cache
def _enumeration(name: str) -> Any:
    members = [(label, index) for index, label in enumerate(class_names(CLASSES[name]))]
    return IntEnum(name, members, module=__name__)


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return _enumeration(name)
    if name == KEYPOINTS:
        return class_names("coco-keypoints")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
