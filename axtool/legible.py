"""Text from files and command lines  ->  text that a terminal shows as it is.

A name may hold control characters: an escape sequence that clears the screen, a line feed that forges a line of ours,
a mark that turns the direction of reading. They are shown as Python writes them.
"""

from __future__ import annotations

import re
from typing import TypeVar

_T = TypeVar("_T")

# Control, format and bidirectional marks, line separators, halves of surrogate pairs (which no UTF-8 stream takes).
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def legible(text: str) -> str:
    """The text on one line, with what cannot be seen written as an escape: `\\x1b`, `\\n`, `\\u202e`."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def legible_values(value: _T) -> _T:
    """A document of plain values whose texts, keys too, are legible."""
    made: object = value
    if isinstance(value, str):
        made = legible(value)
    elif isinstance(value, dict):
        made = {legible_values(key): legible_values(item) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        made = type(value)(legible_values(item) for item in value)
    return made  # type: ignore[return-value]
