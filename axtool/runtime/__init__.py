"""Compiled models in pipelines: `from axtool.runtime import Image, Postamble, TensorInfo, mega, op`.

The names are imported when they are first used, so that the command line pays for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axtool.runtime import mega, op
    from axtool.runtime.image import ColorFormat, Image
    from axtool.runtime.postamble import Postamble
    from axtool.runtime.tensor_info import TensorInfo

__all__ = ["ColorFormat", "Image", "Postamble", "TensorInfo", "mega", "op"]

_HOMES = {
    "ColorFormat": "axtool.runtime.image", "Image": "axtool.runtime.image",
    "Postamble": "axtool.runtime.postamble", "TensorInfo": "axtool.runtime.tensor_info",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"axtool.runtime.{name}")
    raise AttributeError(f"module 'axtool.runtime' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
