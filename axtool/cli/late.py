"""Modules that an import of onnx_ir drags in and that hardly a run needs  ->  loaded when they are first used.

sympy costs a third of a second and 30 MB in each command that reads a model; only dimensions that are formulas use it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

LATE = ("sympy", "onnx_ir._symbolic_shapes")  # the second one looks into the first as it is imported


class LateFinder:
    """Finds the modules of `LATE` where they are, and puts their loading off."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in LATE else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def load_late() -> None:
    """From here on. For a process of ours: what it imports is nobody else's business."""
    if LateFinder not in sys.meta_path:
        sys.meta_path.insert(0, LateFinder)
