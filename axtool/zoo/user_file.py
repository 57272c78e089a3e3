"""The file that the user brings for an entry whose model does not come with axtool  ->  the same path, checked.

A file of another model is refused with what was seen and what was wanted, before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from axtool.errors import UsageError, plural
from axtool.zoo.catalogue import Entry
from axtool.zoo.schema import TensorForm, UserSource

if TYPE_CHECKING:
    import onnx


def checked(entry: Entry, source: UserSource, given: Path | None) -> Path:
    """The file given as `--source`. Raises UsageError without one, and for one that is not this model."""
    if given is None:
        raise UsageError(
            f"the model of '{entry.config.name}' does not come with axtool: bring the file yourself",
            hint=f"--source FILE; {source.get}",
            code="source-wanted",
        )
    signature(source, given)
    return given


def signature(source: UserSource, given: Path) -> dict[str, tuple[int, ...]]:
    """The shapes that the config wants, by the names of the user's file; without those that may be any.

    Raises UsageError for a file that is not this model: which inputs and outputs it has, and which were wanted.
    """
    from axtool.graph.load_file import read_proto

    read = read_proto(given)
    if source.sha256 and read.sha256 not in source.sha256:
        raise UsageError(
            f"sha256 is {read.sha256}, the config wants {' or '.join(source.sha256)}",
            where=str(given),
            hint=source.get,
            code="wrong-digest",
        )
    graph = read.proto.graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    faults = [*_faults("input", inputs, source.inputs), *_faults("output", graph.output, source.outputs)]
    if faults:
        what = f"is another model: {plural(len(faults), 'fault')}"
        raise UsageError(what, where=str(given), details=faults, hint=source.get, code="wrong-model")
    pairs = zip(inputs, source.inputs, strict=True)
    return {value.name: tuple(form.shape) for value, form in pairs if all(form.shape)}


def _faults(kind: str, values: Sequence[onnx.ValueInfoProto], forms: Sequence[TensorForm]) -> list[str]:
    """What the file has beside what was wanted, a line each; none where it fits."""
    if len(values) != len(forms):
        seen = ", ".join(_shown(value.name, _shape(value)) for value in values) or "none"
        return [f"{len(values)} {kind}s: {seen}; want {len(forms)}: {forms_text(forms)}"]
    return [
        f"{kind} {index} is {_shown(value.name, _shape(value))}, want {_shown(form.name, form.shape)}"
        for index, (value, form) in enumerate(zip(values, forms, strict=True))
        if not _fits(value, form)
    ]


def _fits(value: onnx.ValueInfoProto, form: TensorForm) -> bool:
    """A size that the file leaves open, or that the config does, may be any."""
    shape = _shape(value)
    if form.name not in ("", value.name):
        return False
    if not value.type.tensor_type.HasField("shape"):  # the file does not say
        return True
    return len(shape) == len(form.shape) and all(
        0 in (seen, wanted) or seen == wanted for seen, wanted in zip(shape, form.shape, strict=True)
    )


def _shape(value: onnx.ValueInfoProto) -> list[int]:
    """Sizes, 0 for one that is open."""
    return [max(0, dim.dim_value) for dim in value.type.tensor_type.shape.dim]


def forms_text(forms: Sequence[TensorForm]) -> str:
    """`'input' 1x3x640x640, ...`, ? for a size that may be any."""
    return ", ".join(_shown(form.name, form.shape) for form in forms)


def _shown(name: str, shape: Sequence[int]) -> str:
    sizes = "x".join(str(size) if size else "?" for size in shape) or "of no shape"
    return f"'{name}' {sizes}" if name else sizes
