"""The errors a user may see. Everything else is a bug and keeps its traceback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    UNSUPPORTED = 3
    ENVIRONMENT = 4
    NUMERICS = 5
    DOES_NOT_FIT = 6
    INTERNAL = 70
    INTERRUPTED = 130
    TERMINATED = 143


class AxError(Exception):
    """What went wrong, where, and the next thing to try.

    `code` is a stable word for scripts (`file-not-found`, `unknown-target`); `exit` the exit code it ends in.
    `details` lists every problem of the kind, one line each, when there are several. A traceback shows them and the
    hint below the message.
    """

    exit: Exit = Exit.USAGE
    code: str = "usage"

    def __init__(
        self, what: str, *, where: str = "", hint: str = "", code: str = "", details: Sequence[str] = ()
    ) -> None:
        super().__init__(f"{where}: {what}" if where else what)
        self.what, self.where, self.details = what, where, tuple(details)
        self.code = code or type(self).code
        self.advise(hint)

    def advise(self, hint: str) -> None:
        """`hint` is the next thing to try, "" for nothing; in the place of what it was."""
        self.hint = hint
        self.__notes__ = [*self.details, *([f"hint: {hint}"] if hint else [])]


class UsageError(AxError):
    """The input or the command line is wrong (exit 2)."""


class UnsupportedError(AxError):
    """A valid model that axtool cannot compile (exit 3)."""

    exit, code = Exit.UNSUPPORTED, "unsupported"


class EnvironmentFault(AxError):
    """Something the machine lacks: an extra, a device, disk space (exit 4)."""

    exit, code = Exit.ENVIRONMENT, "environment"


class NumericsError(AxError):
    """Numbers that cannot be quantized (exit 5)."""

    exit, code = Exit.NUMERICS, "numerics"


class FitError(AxError):
    """The model does not fit the chip (exit 6)."""

    exit, code = Exit.DOES_NOT_FIT, "does-not-fit"


@contextmanager
def located(where: str) -> Iterator[None]:
    """An AxError that leaves the block and does not say where it is gets `where`, the file that is worked on."""
    try:
        yield
    except AxError as error:
        if not error.where:
            error.where, error.args = where, (f"{where}: {error.what}",)
        raise


def plural(count: int, one: str, many: str = "") -> str:
    """1 layer, 2 layers; `many` where more of them do not only want an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def nearest(name: str, known: Sequence[str], count: int = 3) -> str:
    """A hint with the names closest to `name`, or the first few known ones."""
    from difflib import get_close_matches  # 10 ms that `--help` does not need

    close = get_close_matches(name, known, n=count, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    shown = ", ".join(list(known)[:8]) + (", …" if len(known) > 8 else "")
    return f"known: {shown}" if known else ""
