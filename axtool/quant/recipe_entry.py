"""An entry of a recipe file: which nodes it means, and what is different for them. Every key is checked."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from axtool.quant.ranges import FLOAT32_MAX
from axtool.quant.recipe import DEFAULT_PERCENTILE

MOST_PATTERNS, MOST_TURNS = 1000, 8

Method = Literal["minmax", "percentile", "mse", "entropy"]
Format = Literal["int8", "int16", "fp16", "fx32", "float"]


def number(value: object) -> object:
    """YAML 1.1 reads 1e-3, which JSON writes, as a text."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def listed(value: object) -> object:
    """One word stands for a list of one."""
    return [value] if isinstance(value, str) else value


def _listed_places(value: object) -> object:
    return [value] if type(value) in (str, int) else value


def _place(value: object) -> object:
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and not re.fullmatch(r"-?\d{1,6}|-?\d{0,6}:-?\d{0,6}", text):
        raise ValueError(f"want a number, or two with a colon such as '1:-1', found '{text[:60]}'")
    return text


Text = Annotated[str, Field(min_length=1, max_length=4096)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_PATTERNS), BeforeValidator(listed)]
Percent = Annotated[float, Field(gt=50, le=100), BeforeValidator(number)]
Bound = Annotated[float, Field(ge=-FLOAT32_MAX, le=FLOAT32_MAX, allow_inf_nan=False), BeforeValidator(number)]
Place = Annotated[str, BeforeValidator(_place)]
Places = Annotated[list[Place], Field(min_length=1, max_length=MOST_PATTERNS), BeforeValidator(_listed_places)]


class Strict(BaseModel):
    """Keys that nobody knows are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Ranged(Strict):
    """`percentile` is a number of the method of that name."""

    method: Method | None = None
    percentile: Percent | None = None

    @model_validator(mode="after")
    def _fit(self) -> Ranged:
        if self.percentile is not None and self.method not in (None, "percentile"):
            raise ValueError(f"percentile means nothing with method {self.method}")
        return self


class Weights(Strict):
    """One scale for each output channel, or one for all."""

    granularity: Literal["channel", "tensor"] = "channel"


class Activations(Strict):
    """Zero point 0 and scale max(|low|, |high|) / 127, or a zero point that lets the range begin where the values do.

    `asymmetric_after_relu`: of symmetric ones, what a Relu makes, or a Clip at 0, has all 256 steps for its half: zero
    point -128, scale high / 255.
    """

    symmetric: bool = False
    asymmetric_after_relu: bool = False

    @model_validator(mode="after")
    def _fit(self) -> Activations:
        if self.asymmetric_after_relu and not self.symmetric:
            raise ValueError("asymmetric_after_relu is an exception of symmetric: true")
        return self


class Region(Strict):
    """The nodes between tensors: what is computed of `from`, as far as `to` needs it."""

    from_: Texts | None = Field(None, alias="from")
    to: Texts | None = None

    @model_validator(mode="after")
    def _some(self) -> Region:
        if not (self.from_ or self.to):
            raise ValueError("want from, to, or both")
        return self


class Excepted(Strict):
    """Nodes of these ops, or called so, that a match leaves out."""

    op: Texts | None = None
    name: Texts | None = None

    @model_validator(mode="after")
    def _some(self) -> Excepted:
        if not (self.op or self.name):
            raise ValueError("want op, name, or both")
        return self


class Match(Strict):
    """Nodes of these ops, called so (they or an output of theirs), in this region, next to nodes of other ops. `*` and
    `?` are patterns.

    `after`: an input is made by such an op; `before`: an output is read by one. `position` chooses among the nodes that
    fit all else, in the order of the model: 0 is the first, -1 the last, '1:-1' all but these two. `inputs` stands
    alone and means the inputs of the model.
    """

    inputs: Literal[True] | None = None
    op: Texts | None = None
    name: Texts | None = None
    region: Region | None = None
    after: Texts | None = None
    before: Texts | None = None
    except_: Excepted | None = Field(None, alias="except")
    position: Places | None = None

    @model_validator(mode="after")
    def _some(self) -> Match:
        others = (self.op, self.name, self.region, self.after, self.before, self.except_, self.position)
        if self.inputs and any(other is not None for other in others):
            raise ValueError("inputs stands alone: inputs of the model are no nodes")
        if not (self.inputs or self.op or self.name or self.region):
            raise ValueError("want op, name, region or inputs; op: '*' is every node")
        return self

    @property
    def patterns(self) -> int:
        """How many patterns a match is made of."""
        left_out = (self.except_.op, self.except_.name) if self.except_ else ()
        return sum(len(texts or ()) for texts in (self.op, self.name, self.after, self.before, *left_out))


class Entry(Ranged):
    """What is different for the nodes that match, and for the tensors that they make.

    `turn` is when their ranges are looked for: what has turn 2 is observed on the model of which all that has turn 1
    is quantized already. An `optional` entry may mean nothing in a model.
    """

    match: Match
    optional: bool = False
    format: Format | None = None
    range: Annotated[list[Bound], Field(min_length=2, max_length=2)] | None = None
    weights: Weights | None = None
    activations: Activations | None = None
    turn: Annotated[int, Field(ge=1, le=MOST_TURNS)] | None = None

    @model_validator(mode="after")
    def _something(self) -> Entry:
        said = (self.format, self.range, self.method, self.percentile, self.weights, self.activations, self.turn)
        if all(value is None for value in said):
            raise ValueError("says nothing: want format, range, method, percentile, weights, activations or turn")
        if self.range is not None and self.range[0] > self.range[1]:
            raise ValueError(f"range: {self.range[0]:g} is above {self.range[1]:g}")
        if self.range is not None and (self.method or self.percentile):
            raise ValueError("range and method both say what the range is")
        if self.range is not None and self.turn is not None:
            raise ValueError("a range that is given is looked for in no turn")
        if self.match.inputs and (self.weights or self.format in ("fp16", "float")):
            told = "weights" if self.weights else self.format
            raise ValueError(f"{told} means nothing for an input of the model; formats are int8, int16 and fx32")
        if self.format in ("fp16", "fx32", "float") and (self.weights or self.activations):
            key = "weights" if self.weights else "activations"
            raise ValueError(f"{key} says how integers are scaled; {self.format} has no scale")
        return self

    @property
    def way(self) -> tuple[str, float] | None:
        """(method, percentile) where the entry has one."""
        if self.method is None and self.percentile is None:
            return None
        return self.method or "percentile", DEFAULT_PERCENTILE if self.percentile is None else self.percentile
