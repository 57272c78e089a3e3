"""Ops that move numbers and never change them: ONNX's, and the device's."""

from __future__ import annotations

# Of ONNX, with one input of data. Clipping to a format and moving commute.
MOVES = (
    "MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Split", "DepthToSpace",
    "SpaceToDepth", "Identity",
)  # fmt: skip

# Of the device. Copies move whole tiles of the array, gathers single elements.
COPIES = ("concat", "slice", "pad", "resize_nearest")
GATHERS = ("transpose", "reshape", "depth_to_space", "space_to_depth")
