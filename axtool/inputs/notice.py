"""Something the user should know, with a stable code: a note explains a choice, a warning asks for a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Notice:
    """One line for the user. `code` is stable for scripts, `where` a file, sample or tensor."""

    level: Literal["note", "warning"]
    code: str
    what: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


def note(code: str, what: str, where: str = "") -> Notice:
    """A choice that was made for the user."""
    return Notice("note", code, what, where)


def warning(code: str, what: str, where: str = "") -> Notice:
    """Something that is probably not what the user wants."""
    return Notice("warning", code, what, where)
