"""One input through the float path of an .onnx: our cleaned, cut graph in onnxruntime, not the user's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from axtool.errors import UsageError
from axtool.graph.float_run import FloatModel
from axtool.graph.front import Reading, read_front
from axtool.graph.load_file import read_proto
from axtool.inputs.arrays import open_arrays
from axtool.runtime.frame import Frame, Prepare, feeds_of, timed
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
    repeat: int = 1,
) -> Frame:
    """Run a float model once. Inputs with a default value may be fed or left out; sizes that the file leaves open are
    those of the arrays that are fed.
    """
    fed = {name: shape for item in items for name, shape in _shapes_in(item).items()}
    front = read_front(path, target, replace(reading, input_shapes=_fixed(path, fed, reading)), freeze=False)
    model = FloatModel(
        front.parts.stages,
        threads=threads,
        outputs=[spec.name for spec in front.outputs],
        unread=[spec.name for spec in front.inputs],
        where=str(path),
    )
    extra = [
        spec for spec in front.overridable if spec.name in fed or any(i.startswith(f"{spec.name}=") for i in items)
    ]
    if not items:
        raise UsageError("no input is given", hint="give an image, .npy or .npz", code="missing-input")
    _, feeds, prepared_s = feeds_of((*front.inputs, *extra), items, None, prepare, preprocess)
    model.run(feeds)  # a session is slow the first time
    runs = [timed(lambda: model.run(feeds)) for _ in range(repeat)]
    times = {"prepare": prepared_s, "frame": median(seconds for _, seconds in runs)}
    return Frame("float", runs[-1][0], times, None, None, None, repeat)


def _shapes_in(item: str) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays that an item brings, by the name of their input; '' for an .npy without one."""
    name, equals, file = item.rpartition("=")
    path = Path(item) if Path(item).is_file() or not equals else Path(file)
    if path.suffix.lower() not in (".npz", ".npy") or not path.is_file():
        return {}
    arrays = open_arrays(path)
    named = equals and path != Path(item) and len(arrays) == 1
    return {name if named else own: array.shape for own, array in arrays.items()}


def _fixed(path: Path, fed: Mapping[str, tuple[int, ...]], reading: Reading) -> dict[str, tuple[int, ...]]:
    """The user's input shapes, and those of what is fed to inputs with open sizes that no option fixes."""
    fixed = dict(reading.input_shapes)
    if fed and not reading.dims and path.suffix.lower() == ".onnx" and path.is_file():
        for name, rank in _open_inputs(path).items():
            shape = fed.get(name, fed.get("", ()))
            if name not in fixed and len(shape) == rank:
                fixed[name] = shape
    return fixed


def _open_inputs(path: Path) -> dict[str, int]:
    """Inputs of which the file does not give every size, and their ranks."""
    graph = read_proto(path).proto.graph
    constant = {tensor.name for tensor in graph.initializer}
    return {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in graph.input
        if value.name not in constant and any(dim.dim_value < 1 for dim in value.type.tensor_type.shape.dim)
    }
