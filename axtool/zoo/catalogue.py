"""Names of the zoo  ->  their configs. Listing reads files; it never runs or fetches anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from axtool.config import package_dir, refuse_special
from axtool.errors import UsageError, nearest
from axtool.zoo.config_file import read_config
from axtool.zoo.schema import Config


@dataclass(frozen=True)
class Entry:
    """A config and where it is. `task` is its folder, of the user's own config the kind of its task, empty without one;
    `root` what its paths are relative to: the zoo, or for the user's own the folder that it is in.
    """

    path: Path
    task: str
    config: Config
    root: Path

    def file(self, relative: str) -> Path:
        """A file that the config names: absolute, or relative to the root and inside it."""
        if Path(relative).is_absolute():
            return Path(relative)
        root = self.root.resolve()
        found = (root / relative).resolve()
        if not found.is_relative_to(root):
            raise UsageError(f"'{relative}' leaves the folder {root.name}", where=str(self.path), code="bad-config")
        return found


def config_paths() -> list[Path]:
    """The file of every config of the package, by task and name; read by nobody yet."""
    return sorted(path for path in package_dir("zoo").glob("*/*") if path.suffix in (".yaml", ".py"))


def entries() -> tuple[Entry, ...]:
    """Every config of the package, by task and name."""
    root = package_dir("zoo")
    return tuple(Entry(path, path.parent.name, read_config(path), root) for path in config_paths())


def find(name: str) -> Entry:
    """The entry of a name, or of the user's own .yaml or .py. Raises UsageError with the nearest names."""
    if name.endswith((".yaml", ".yml", ".py")):
        path = Path(name).resolve()
        refuse_special(path)
        if not path.is_file():
            raise UsageError("no such file", where=name, code="file-not-found")
        config = read_config(path)
        return Entry(path, str(config.task.get("kind", "")), config, path.parent)
    root = package_dir("zoo")
    names = {path.stem: path for path in config_paths()}
    if name not in names:
        raise UsageError(f"the zoo has no model '{name}'", hint=nearest(name, sorted(names)), code="unknown-model")
    path = names[name]
    return Entry(path, path.parent.name, read_config(path), root)
