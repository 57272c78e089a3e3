"""The built-in postamble kernels: each is an Operator class in a file of its own beside this one."""

from __future__ import annotations

from axtool.runtime.mega.ultralytics_yolo import UltralyticsYoloPostamble

__all__ = ["UltralyticsYoloPostamble"]
