"""The entries of the zoo whose model comes with axtool or from a package: not those that take a file of the user's."""

from __future__ import annotations

from axtool.zoo.catalogue import entries
from axtool.zoo.schema import UserSource

AT_HAND = tuple(entry for entry in entries() if not isinstance(entry.config.source, UserSource))
