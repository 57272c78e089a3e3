"""The Postamble of a config  ->  the file that defines its kernel, found without running anything of the user's."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from axtool.runtime.postamble import Postamble


def kernel_file(postamble: Postamble, beside: Path) -> Path | None:
    """The file of a kernel: a built-in one's, or that of a module below `beside` or on the module path.

    None where there is no kernel, or its module is nowhere.
    """
    module, _, _ = postamble.kernel_name.rpartition(":")
    if postamble.is_empty:
        return None
    if not module:
        found = inspect.getsourcefile(postamble.kernel_class())
        return None if found is None else Path(found)
    relative = Path(*module.split("."))
    for root in (beside, *map(Path, sys.path)):
        for candidate in (root / relative.with_suffix(".py"), root / relative / "__init__.py"):
            if candidate.is_file():
                return candidate.resolve()
    return None
