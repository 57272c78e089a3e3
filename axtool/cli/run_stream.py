"""Streams of `axtool run` and `axzoo run`: run, print. Ctrl-C ends the run, and its result is printed."""

import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from axtool.cli import options as o
from axtool.cli.console import Progress, emit, say
from axtool.cli.stream_options import StreamWords
from axtool.errors import Exit, UsageError
from axtool.legible import legible_values

if TYPE_CHECKING:
    from axtool.runtime.streams.axm import Wanted
    from axtool.runtime.streams.run import StreamOptions, StreamRun

    Work = Callable[[StreamOptions, Wanted, Progress], StreamRun]

ORDERS = ("as_available", "round_robin")


def run_stream(
    model: str,
    words: StreamWords,
    work: "Work",
    *,
    save: str | None = None,
    lines: Path | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Do the work, which is told where to say how far it is, and print it. Raises SystemExit with the code of the
    signal where one ended the run.
    """
    from axtool.config import write_whole
    from axtool.report.stream import stream_document, stream_text
    from axtool.runtime.streams.axm import Wanted
    from axtool.runtime.streams.run import StreamOptions

    o.choice(words.order, ORDERS, "--order")
    if lines is not None and lines.suffix.lower() != ".jsonl":
        raise UsageError(
            f"--out {lines.name}: the results of a stream are lines of .jsonl",
            hint="arrays are saved of a single input, without an option of streams", code="bad-option",
        )  # fmt: skip
    if words.replay and (save is not None or lines is not None):
        logging.getLogger("axtool").warning("outputs are replayed: what is saved is not what is in the frames")
    order: Any = words.order
    options = StreamOptions(
        words.boards, words.devices, words.realtime, words.replay, words.workers, words.max_in_flight, order,
        words.trace is not None, words.warmup,
    )  # fmt: skip
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        ran = work(options, Wanted(save, lines, words.trace, words.frames, force), progress)
    document = stream_document(model, ran)
    if words.trace is not None:
        from axtool.report.stream_trace import stream_trace

        write_whole(words.trace, stream_trace(model, ran), force=force)
    written = [*(one.saved for one in ran.sources if one.frames), lines, words.trace]
    for path in (path for path in written if path is not None):
        say(f"wrote {path}", quiet=quiet)
    if as_json:
        emit(document)
    else:
        typer.echo(stream_text(legible_values(document), stats=words.show_stats))
    if ran.stopped_by is not None:
        raise SystemExit(Exit.INTERRUPTED if ran.stopped_by == signal.SIGINT else Exit.TERMINATED)
