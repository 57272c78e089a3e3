"""Errors in, words and exit codes out: the one place where a failure becomes what the user reads.

With `--json` on the command line the failure is a document on stdout; otherwise lines on stderr. A user's mistake
never shows a traceback; a bug shows one only with `-v`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from axtool import __version__
from axtool.cli.late import load_late
from axtool.config import name_too_long
from axtool.errors import AxError, EnvironmentFault, Exit
from axtool.legible import legible

REPORT_HINT = "this is a bug in axtool: run again with -v for the traceback and report it"
EVERYWHERE = ("--json", "-q", "--quiet", "-v", "--verbose")  # before the command they mean the same as behind it
ENDING = (signal.SIGTERM, signal.SIGHUP)
WHEELS = {"cv2": "opencv-python-headless", "yaml": "pyyaml", "onnx_ir": "onnx-ir"}  # modules of another name


def run(app: Callable[..., Any], argv: Sequence[str] | None, *, program: str) -> int:
    """Run a typer app; the exit code. Everything that can go wrong ends here."""
    args = _arranged(sys.argv[1:] if argv is None else argv)
    load_late()
    try:
        with _signals() as caught:
            code = _guarded(app, args, program, caught)
        if sys.stdout is not None:  # None: it was closed before we began
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our stdout left (`| head`): nothing to say and nobody to say it to.
        _discard_stdout()
        return Exit.OK
    except KeyboardInterrupt:  # while the last of the result waits for its reader, or an error is being told
        _discard_stdout()
        return Exit.INTERRUPTED
    except OSError as error:  # the last of the result does not fit its disk
        _discard_stdout()
        return _failed(args, program, error)
    return code


@contextlib.contextmanager
def _signals() -> Iterator[set[int]]:
    """Inside the block SIGTERM, and SIGHUP where nobody (`nohup`) ignores it, take the way of Ctrl-C, through every
    `finally`. The set holds the signals that came: a library may make another error of the KeyboardInterrupt.

    Only the first SIGTERM or SIGHUP counts: more of them (`timeout` sends two) would disturb the cleaning up.
    """
    caught: set[int] = set()
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield caught
        return

    def end(number: int, _: object) -> None:
        if number == signal.SIGINT or caught.isdisjoint(ENDING):
            caught.add(number)
            raise KeyboardInterrupt(number)  # who can end well tells by it what to end with

    taken = [one for one in ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        taken.append(signal.SIGINT)
    before = {one: signal.signal(one, end) for one in taken}
    try:
        yield caught
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _discard_stdout() -> None:
    """What is still in the buffer goes nowhere, instead of failing again when the process ends."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _arranged(argv: Sequence[str]) -> list[str]:
    """`--json compile m.onnx` as `compile --json m.onnx`."""
    flags = list(takewhile(lambda word: word in EVERYWHERE, argv))
    rest = list(argv[len(flags) :])
    return [rest[0], *flags, *rest[1:]] if rest and not rest[0].startswith("-") else [*flags, *rest]


def _guarded(app: Callable[..., Any], args: list[str], program: str, caught: set[int]) -> int:
    try:
        code = app(args=args, standalone_mode=False, prog_name=program)
        if code == Exit.INTERRUPTED:  # what the parser makes of Ctrl-C
            raise KeyboardInterrupt
        return int(code) if isinstance(code, int) else int(Exit.OK)
    except BrokenPipeError:
        raise
    except SystemExit as leaving:  # the parser's own: completion is done, or the reader of stdout left
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            raise BrokenPipeError from None
        return int(leaving.code or 0)
    except KeyboardInterrupt:
        return _interrupted(args, program, caught)
    except Exception as error:
        if caught or type(error).__name__ == "Abort":  # the latter is the parser's
            return _interrupted(args, program, caught)
        return _failed(args, program, error)


def _interrupted(args: list[str], program: str, caught: set[int]) -> int:
    if not caught.isdisjoint(ENDING):
        return _fail(args, program, AxError("terminated", code="terminated"), Exit.TERMINATED)
    return _fail(args, program, AxError("interrupted", code="interrupted"), Exit.INTERRUPTED)


def _failed(args: list[str], program: str, error: Exception) -> int:
    if type(error).__name__ == "Exit":  # an early exit of the parser, such as after --help
        return int(getattr(error, "exit_code", 0))
    known = error if isinstance(error, AxError) else _of_parser(error, program) or _of_machine(error)
    if known is not None:
        if _verbose(args) and isinstance(known, EnvironmentFault):
            traceback.print_exception(error, file=sys.stderr)
        return _fail(args, program, known, known.exit)
    if _verbose(args):
        traceback.print_exception(error, file=sys.stderr)
    internal = AxError(
        f"internal error: {type(error).__name__}: {' '.join(str(error).split())}", hint=REPORT_HINT, code="internal"
    )
    return _fail(args, program, internal, Exit.INTERNAL)


def _of_parser(error: Exception, program: str) -> AxError | None:
    """A usage error of the argument parser. It is told by what it can do: the parser comes inside of typer."""
    if not hasattr(error, "format_message"):
        return None
    path = getattr(getattr(error, "ctx", None), "command_path", program)
    return AxError(" ".join(error.format_message().split()), hint=f"see `{path} --help`", code="usage")


def _of_machine(error: Exception) -> AxError | None:
    """What the machine lacks: memory, a package, space, permission."""
    if isinstance(error, MemoryError):
        return EnvironmentFault("out of memory", hint="use a smaller input or a machine with more", code="no-memory")
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("axtool"):
        top = error.name.split(".")[0]
        return EnvironmentFault(
            f"the package {top} is missing", hint=f"pip install {WHEELS.get(top, top)}", code="missing-package"
        )
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return name_too_long(str(error.filename or ""))
    if isinstance(error, OSError) and error.errno is not None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return EnvironmentFault(
            error.strerror or str(error),
            where=str(error.filename or ""),
            hint="free some space and try again" if full else "",
            code="disk-full" if full else "io",
        )
    return None


def _fail(args: list[str], program: str, error: AxError, code: int) -> int:
    if "--json" in args:
        document = json.dumps(failure(error, code, command=_command(args, program)), indent=2, sort_keys=True)
        try:
            print(document, flush=True)
        except BrokenPipeError:
            raise
        except OSError:
            _discard_stdout()
    with contextlib.suppress(OSError):
        for line in words(error):
            print(line, file=sys.stderr)
    return int(code)


def words(error: AxError) -> list[str]:
    """The lines that a person reads; a detail that repeats itself is read once."""
    lines = [f"error: {error} [{error.code}]"]
    lines += [f"  - {line}" for line in dict.fromkeys(error.details)]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return [legible(line) for line in lines]


def failure(error: AxError, code: int, *, command: str) -> dict[str, Any]:
    """The document of a command that failed."""
    return {
        "schema": "axtool.error/1",
        "tool": {"name": "axtool", "version": __version__},
        "command": command,
        "status": "error",
        "error": {
            "code": error.code,
            "exit": int(code),
            "message": str(error),
            "where": error.where,
            "hint": error.hint,
            "details": list(error.details),
        },
    }


def _command(args: list[str], program: str) -> str:
    """`run`, `axzoo build`; the program's own name where no command is given."""
    word = next((arg for arg in args if not arg.startswith("-")), "")
    return word or program if program == "axtool" else f"{program} {word}".strip()


def _verbose(args: list[str]) -> bool:
    return "--verbose" in args or any(a.startswith("-v") and not a.startswith("--") for a in args)
