"""The commands `axtool` and `axzoo` from their first instruction: Ctrl-C while the program loads ends it in silence.

Until `door.run` takes the signals, an interrupt ends the process as it ends any program of the shell (exit code 130
there), and not with the traceback of whatever is being imported.
"""

from __future__ import annotations

import signal
from importlib import import_module


def axtool() -> None:
    """The console script `axtool`."""
    _start("axtool.cli.main")


def axzoo() -> None:
    """The console script `axzoo`."""
    _start("axtool.cli.zoo")


def _start(module: str) -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a script in the background may ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module(module).main()
