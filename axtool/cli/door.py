"""Errors in, words and exit codes out: the one place where a failure becomes what the user reads.

With `--json` on the command line the failure is a document on stdout; otherwise lines on stderr. A user's mistake
never shows a traceback; a bug shows one only with `-v`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from axtool import __version__
from axtool.errors import AxError, EnvironmentFault, Exit

REPORT_HINT = "this is a bug in axtool: run again with -v for the traceback and report it"


def run(app: Callable[..., Any], argv: Sequence[str] | None, *, program: str) -> int:
    """Run a typer app; the exit code. Everything that can go wrong ends here."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = app(args=args, standalone_mode=False, prog_name=program)
        code = int(code) if isinstance(code, int) else 0
        sys.stdout.flush()
    except (KeyboardInterrupt, EOFError):
        return _fail(args, program, AxError("interrupted", code="interrupted"), Exit.INTERRUPTED)
    except AxError as error:
        return _fail(args, program, error, error.exit)
    except BrokenPipeError:
        # The reader of our stdout left (`| head`): nothing to say and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except MemoryError:
        fault = EnvironmentFault("out of memory", hint="use a smaller input or a machine with more", code="no-memory")
        return _fail(args, program, fault, fault.exit)
    except Exception as error:
        return _unexpected(args, program, error)
    return code


def _unexpected(args: list[str], program: str, error: Exception) -> int:
    if hasattr(error, "format_message"):  # a usage error of the argument parser
        context = getattr(error, "ctx", None)
        path = getattr(context, "command_path", program)
        usage = AxError(error.format_message(), hint=f"see `{path} --help`", code="usage")
        return _fail(args, program, usage, Exit.USAGE)
    if type(error).__name__ == "Exit":  # an early exit of the parser, such as after --help
        return int(getattr(error, "exit_code", 0))
    if type(error).__name__ == "Abort":
        return _fail(args, program, AxError("interrupted", code="interrupted"), Exit.INTERRUPTED)
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("axtool"):
        fault = EnvironmentFault(f"the package {error.name} is missing", hint=f"pip install {error.name}")
        return _fail(args, program, fault, fault.exit)
    if isinstance(error, OSError) and error.filename is not None:
        fault = EnvironmentFault(error.strerror or str(error), where=str(error.filename), code="io")
        return _fail(args, program, fault, fault.exit)
    if _verbose(args):
        traceback.print_exc(file=sys.stderr)
    internal = AxError(f"internal error: {type(error).__name__}: {error}", hint=REPORT_HINT, code="internal")
    return _fail(args, program, internal, Exit.INTERNAL)


def _fail(args: list[str], program: str, error: AxError, code: int) -> int:
    if "--json" in args:
        print(json.dumps(failure(error, code, command=_command(args, program)), indent=2, sort_keys=True))
    for line in words(error):
        print(line, file=sys.stderr)
    return int(code)


def words(error: AxError) -> list[str]:
    """The lines that a person reads."""
    lines = [f"error: {error} [{error.code}]"]
    lines += [f"  - {line}" for line in error.details]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return lines


def failure(error: AxError, code: int, *, command: str) -> dict[str, Any]:
    """The document of a command that failed."""
    return {
        "schema": "axtool.error/1",
        "tool": {"name": "axtool", "version": __version__},
        "command": command,
        "status": "failed" if code == Exit.CHECK_FAILED else "error",
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
    word = next((arg for arg in args if not arg.startswith("-")), "")
    return word if program == "axtool" else f"{program} {word}".strip()


def _verbose(args: list[str]) -> bool:
    return "--verbose" in args or any(a.startswith("-v") and not a.startswith("--") for a in args)
