"""A recipe file (YAML), or the options of the command line  ->  how a model is to be quantized, every key checked.

`recipes` are tried on samples held back, the best is kept; `layers` say what is different where. Later entries win.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from axtool.config import package_dir
from axtool.errors import UsageError, nearest, plural
from axtool.plain_faults import faults_of
from axtool.plain_yaml import Plain, read_plain
from axtool.quant.recipe import DEFAULT_PERCENTILE, REFINED, Bias, QuantRecipe, recipes_of
from axtool.quant.recipe_entry import MOST_PATTERNS, Activations, Entry, Ranged, Strict, Weights, listed, number
from axtool.quant.widen import MOST_CYCLES, MOST_DB, Budget
from axtool.types import Computed

SCHEMA: Literal["axtool.quant/1"] = "axtool.quant/1"
Wider = Literal["int16", "fp16", "fx32", "float"]  # what a budget may be spent on
DEFAULT_CYCLES = 0.05  # of a budget that says formats only
LEVELS = ("plain", "default", "everything")  # the recipe files of -O 0, 1, 2
MOST_WAYS, MOST_ENTRIES = 32, 1000


class Way(Ranged):
    """One way to quantize, as `QuantRecipe`."""

    bias: Bias = "analytic"
    equalize: bool = False

    @property
    def recipe(self) -> QuantRecipe:
        """The same as a value of the quantizer."""
        percentile = DEFAULT_PERCENTILE if self.percentile is None else self.percentile
        return QuantRecipe(self.method or "percentile", percentile, self.bias, self.equalize)

    @classmethod
    def of(cls, recipe: QuantRecipe) -> Way:
        """The way that stands for a recipe, with every value written out."""
        percentile = recipe.percentile if recipe.method == "percentile" else None
        values = {"method": recipe.method, "percentile": percentile}
        return cls.model_validate({**values, "bias": recipe.bias, "equalize": recipe.equalize})


class Allowed(Strict):
    """What wider formats may cost, and what they are to reach: as `Budget`. With `formats` alone, a twentieth of the
    cycles where the command line does not say.
    """

    sqnr_db: Annotated[float, Field(gt=0, le=MOST_DB), BeforeValidator(number)] | None = None
    cycles: Annotated[float, Field(ge=0, le=MOST_CYCLES), BeforeValidator(number)] | None = None
    formats: Annotated[list[Wider], Field(min_length=1), BeforeValidator(listed)] | None = None

    @model_validator(mode="after")
    def _some(self) -> Allowed:
        if self.sqnr_db is None and self.cycles is None and self.formats is None:
            raise ValueError("want sqnr_db, cycles (0.05 is 5 % more), formats, or several")
        return self

    @property
    def budget(self) -> Budget:
        """The same as a value of the quantizer."""
        cycles = DEFAULT_CYCLES if self.sqnr_db is None and self.cycles is None else self.cycles
        return Budget(self.sqnr_db, cycles, tuple(self.formats or ("int16",)))


class Widened(Strict):
    """A tensor that became int16 under the budget: the figure on samples held back and the share of cycles that were
    added, with all before it.
    """

    tensor: str
    sqnr_db: float
    cycles_added: float


class Mixed(Strict):
    """Nodes, by their first outputs, that got another format under the budget; `node` is the name of the first."""

    format: Wider
    node: str
    outputs: list[str]
    sqnr_db: float
    cycles_added: float


class Kept(Way):
    """The way that was kept, with what was tried on it."""

    round_weights: bool = False

    @classmethod
    def of(cls, recipe: QuantRecipe) -> Kept:
        """The same, with every value written out."""
        return cls.model_validate({**Way.of(recipe).model_dump(), "round_weights": recipe.round_weights})


class ResolvedEntry(Strict):
    """What an entry of `layers` meant in the model."""

    nodes: list[str]
    tensors: list[str]


class Resolved(Strict):
    """What a compile found: the way that was kept (none where nothing was tried), what entries meant, and what nodes
    compute in that is neither int8 nor int16, by first output.
    """

    kept: Kept | None = None
    layers: list[ResolvedEntry] = Field(default_factory=list)
    int16: list[Widened] = Field(default_factory=list)
    mixed: list[Mixed] = Field(default_factory=list)
    precision: dict[str, Computed] = Field(default_factory=dict)


class RecipeFile(Strict):
    """The whole file. What it leaves out of `recipes` the command line says, or -O 1 does.

    `refine` is tried on the best recipe; `check_layers` looks at each layer at the end. `resolved` is what a compile
    found: written into the .axm, not read.
    """

    schema_: Literal["axtool.quant/1"] = Field(SCHEMA, alias="schema")
    name: Annotated[str, Field(max_length=200)] = ""
    description: Annotated[str, Field(max_length=4096)] = ""
    recipes: Annotated[list[Way], Field(min_length=1, max_length=MOST_WAYS)] | None = None
    refine: Annotated[list[Literal["equalize", "round_weights", "cumulative"]], BeforeValidator(listed)] | None = None
    budget: Allowed | None = None
    weights: Weights = Weights()
    activations: Activations = Activations()
    layers: Annotated[list[Entry], Field(max_length=MOST_ENTRIES)] = Field(default_factory=list)
    check_layers: bool | None = None
    resolved: Resolved | None = None

    @model_validator(mode="after")
    def _few(self) -> RecipeFile:
        patterns = sum(entry.match.patterns for entry in self.layers)
        if patterns > MOST_PATTERNS:
            raise ValueError(f"{patterns:,} patterns in all; at most {MOST_PATTERNS:,}")
        return self

    @property
    def tried(self) -> tuple[QuantRecipe, ...]:
        """The recipes to try, the preferred one first."""
        return tuple(way.recipe for way in self.recipes or ())

    @property
    def refined(self) -> tuple[str, ...]:
        """What is tried on the best of them: names of `REFINEMENTS`."""
        return tuple(self.refine or ())

    @property
    def allowed(self) -> Budget:
        """The budget of wider formats; an empty one where nothing is to be widened."""
        return Budget() if self.budget is None else self.budget.budget

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `recipe_from_dict` makes an equal recipe of."""
        values = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"resolved"})
        return {key: value for key, value in values.items() if value != "" and (key, value) != ("layers", [])}


def load_recipe(name_or_path: str | Path) -> RecipeFile:
    """The recipe of that name in configs/quant, or of that file. Raises UsageError."""
    text = str(name_or_path)
    if is_file_name(text):
        path = Path(text)
    elif text in list_recipes():
        path = package_dir("configs") / "quant" / f"{text}.yaml"
    else:
        raise UsageError(f"no recipe '{text}'", hint=nearest(text, list_recipes()), code="unknown-recipe")
    plain = read_plain(path)
    made = recipe_from_dict(plain.values, str(path), plain)
    return made if made.name else made.model_copy(update={"name": path.stem[:200]})


def is_file_name(text: str) -> bool:
    """Whether a recipe of this name is a file of the user, not one of the package."""
    return text.endswith((".yaml", ".yml", ".json")) or "/" in text


def list_recipes() -> tuple[str, ...]:
    """The names of the recipes that come with the package, sorted."""
    return tuple(sorted(path.stem for path in (package_dir("configs") / "quant").glob("*.yaml")))


def recipe_from_dict(values: Mapping[str, Any], where: str = "recipe", plain: Plain | None = None) -> RecipeFile:
    """The recipe of a mapping. Raises UsageError with every fault, and its line where `plain` knows it."""
    faults = [] if "schema" in values else [f"line 1: schema: missing; want {SCHEMA}"]
    try:
        made = RecipeFile.model_validate(dict(values))
    except ValidationError as error:
        faults += faults_of(error, RecipeFile, plain)
    if faults:
        what = f"not a recipe: {plural(len(faults), 'fault')}"
        raise UsageError(what, where=where, code="bad-recipe", details=faults)
    return made


def chosen_recipe(
    recipe: str | None,
    method: str | None = None,
    percentile: float | None = None,
    optimize: int | None = None,
    budget: Budget | None = None,
) -> RecipeFile:
    """The recipe of the command line, complete: a file, the options that stand for one, or both where they fit.

    Raises UsageError where a file and an option both say which recipes are tried.
    """
    level = LEVELS[1 if optimize is None else optimize]
    options = {"--method": method, "--percentile": percentile, "--optimize": optimize}
    given = [option for option, value in options.items() if value is not None]
    made = load_recipe(level if recipe is None else recipe)
    if budget:
        made = _with_budget(made, budget, recipe)
    if recipe is not None and given and (made.recipes is not None or made.refine is not None):
        raise UsageError(
            f"--recipe {recipe} says which recipes are tried, and so does {' and '.join(given)}",
            hint=f"leave out {' and '.join(given)}, or take 'recipes' and 'refine' out of the file",
            code="bad-option",
        )
    ways = [Way.of(way) for way in recipes_of(method, percentile, 1 if optimize is None else optimize)]
    if recipe is None and (method is not None or percentile is not None):
        told = method if percentile is None else f"percentile {percentile:g}"
        made = made.model_copy(update={"name": f"{level}, {told}", "description": "", "recipes": ways})
    if made.recipes is None:
        refine = list(REFINED[1 if optimize is None else optimize]) if made.refine is None else made.refine
        made = made.model_copy(update={"recipes": ways, "refine": refine})
    if made.check_layers is None:
        made = made.model_copy(update={"check_layers": optimize != 0})
    return made


def _with_budget(made: RecipeFile, budget: Budget, recipe: str | None) -> RecipeFile:
    own = made.budget
    if recipe is not None and own is not None and (own.sqnr_db is not None or own.cycles is not None):
        raise UsageError(
            f"--recipe {recipe} has a budget, and the command line another one",
            hint="leave out --budget-sqnr and --budget-cycles, or take 'budget' out of the file",
            code="bad-option",
        )
    formats = None if own is None else own.formats
    allowed = Allowed(sqnr_db=budget.sqnr_db, cycles=budget.cycles, formats=formats)
    return made.model_copy(update={"budget": allowed})
