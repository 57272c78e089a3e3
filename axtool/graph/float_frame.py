"""One input through the float path of an .onnx: our cleaned, cut graph in onnxruntime, not the user's file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from axtool.errors import UsageError
from axtool.graph.float_run import FloatModel
from axtool.graph.front import Reading, read_front
from axtool.runtime.frame import Frame, Prepare, feeds_of
from axtool.target import Target


def run_onnx(
    path: Path,
    items: Sequence[str],
    target: Target,
    reading: Reading,
    *,
    prepare: Prepare = lambda base: base,
    preprocess: str | None = None,
    threads: int = 1,
) -> Frame:
    """Run a float model once. Inputs with a default value may be fed or left out."""
    front = read_front(path, target, reading, freeze=False)
    model = FloatModel(
        front.parts.stages, threads=threads, outputs=[spec.name for spec in front.outputs], where=str(path)
    )
    extra = [spec for spec in front.overridable if any(item.startswith(f"{spec.name}=") for item in items)]
    if not items:
        raise UsageError("no input is given", hint="give an image, .npy or .npz", code="missing-input")
    _, feeds, prepared_s = feeds_of((*front.inputs, *extra), items, None, prepare, preprocess)
    start = time.perf_counter()
    outputs = model.run(feeds)
    total = time.perf_counter() - start
    return Frame("float", outputs, {"prepare": prepared_s, "frame": total}, None, None, None)
