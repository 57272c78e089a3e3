"""One input through the float path of an .onnx: our cleaned, cut graph in onnxruntime, not the user's file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from axtool.errors import UsageError
from axtool.graph.float_run import FloatModel
from axtool.graph.front import Reading, read_front
from axtool.inputs.arrays import open_arrays
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
    fed = {name for item in items for name in _names_in(item)}
    extra = [
        spec for spec in front.overridable if spec.name in fed or any(i.startswith(f"{spec.name}=") for i in items)
    ]
    if not items:
        raise UsageError("no input is given", hint="give an image, .npy or .npz", code="missing-input")
    _, feeds, prepared_s = feeds_of((*front.inputs, *extra), items, None, prepare, preprocess)
    start = time.perf_counter()
    outputs = model.run(feeds)
    total = time.perf_counter() - start
    return Frame("float", outputs, {"prepare": prepared_s, "frame": total}, None, None, None)


def _names_in(item: str) -> list[str]:
    """The names that an .npz gives to its arrays; none for any other input."""
    path = Path(item)
    return list(open_arrays(path)) if path.suffix.lower() == ".npz" and path.is_file() else []
