"""The door for outside data: where the package's own files are, and YAML read into plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from axtool.errors import UsageError


def package_dir(name: str) -> Path:
    """The folder `configs` or `zoo`: the copy inside an installed package, or the one at the top of a source tree."""
    here = Path(__file__).resolve().parent
    installed = here / "_data" / name
    return installed if installed.is_dir() else here.parent / name


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises UsageError with the line when it is not one."""
    import yaml

    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path), code="file-not-found") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"not valid YAML: {error}", where=str(path), code="bad-yaml") from error
    if not isinstance(value, dict):
        raise UsageError(f"want a mapping of keys, found {type(value).__name__}", where=str(path), code="bad-yaml")
    return value
