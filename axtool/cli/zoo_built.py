"""An entry of the zoo  ->  its compiled file: the one in the cache, compiled first where there is none of today."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from axtool.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    from axtool.compiler import Progress
    from axtool.zoo.catalogue import Entry
    from axtool.zoo.recipe import Recipe


def built(
    name: str, *, target: str | None = None, given: Path | None = None, progress: "Progress | None" = None
) -> Path:
    """The compiled file of a name of the zoo, or of a config of one's own. `given` is the model of an entry that takes
    the user's file. Raises UsageError for a name that the zoo does not have.
    """
    from axtool.zoo.catalogue import find

    return built_entry(find(name), target, given, progress)


class Offered:
    """What `op.load(NAME)` asks: the compiled file of a name, or of task/name, of the zoo; None for another name."""

    def __call__(self, name: str) -> Path | None:
        from axtool.zoo.catalogue import config_paths

        task, _, short = name.rpartition("/")
        known = {path.stem: path.parent.name for path in config_paths()}
        return built(short) if short in known and task in ("", known[short]) else None

    def names(self) -> list[str]:
        """Every name of the zoo."""
        from axtool.zoo.catalogue import config_paths

        return sorted(path.stem for path in config_paths())


offered = Offered()


def built_entry(
    entry: "Entry", target: str | None = None, given: Path | None = None, progress: "Progress | None" = None
) -> Path:
    """The same for an entry that was read already."""
    from axtool.artefact import axm
    from axtool.cli.console import Progress
    from axtool.compiler import compile_model
    from axtool.options import options_of
    from axtool.zoo.built import built_path, is_current, keep, made_from
    from axtool.zoo.check import refuse_unfit
    from axtool.zoo.recipe import check_target, recipe_of
    from axtool.zoo.schema import FileSource
    from axtool.zoo.sources import model_file

    chosen = check_target(entry, target)
    here = model_file(entry, given) if given is not None or isinstance(entry.config.source, FileSource) else None
    path, source = built_path(entry, chosen), made_from(entry, chosen, here)
    if is_current(path, source):
        return path
    watched = progress or Progress(quiet=True)
    watched.step("fetching")
    recipe = recipe_of(entry, chosen, given)
    refuse_unfit(entry, recipe.model, chosen)
    made = compile_model(recipe.model, options_of(recipe), watched)
    keep(path, axm.pack(made.artefact), made_from(entry, chosen, recipe.model))
    return path


def keep_built(entry: "Entry", recipe: "Recipe", path: Path) -> None:
    """What was built into a file of the user's is not built again by the commands that take it from the cache.

    A cache that cannot be written is no fault of the build.
    """
    from axtool.zoo.built import built_path, keep, made_from

    with suppress(OSError, EnvironmentFault):
        keep(built_path(entry, recipe.target), path.read_bytes(), made_from(entry, recipe.target, recipe.model))


def axm_of(entry: "Entry", axm: Path | None, target: str | None, given: Path | None, progress: "Progress") -> Path:
    """The file that the user names, or the one that is built. Raises UsageError for both a file and a target."""
    if axm is None:
        return built_entry(entry, target, given, progress)
    if target is not None:
        raise UsageError("--axm is built for its target already; leave out --target", code="bad-option")
    return axm
