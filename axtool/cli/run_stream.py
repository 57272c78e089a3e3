"""`axtool run` over videos, cameras and folders: parse, run, print. Ctrl-C ends the run and its result is printed."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from axtool.cli import options as o
from axtool.cli.console import Progress, emit, say
from axtool.cli.stream_options import StreamWords
from axtool.errors import Exit
from axtool.legible import legible_values

if TYPE_CHECKING:
    from axtool.runtime.postamble import Postamble

ORDERS = ("as_available", "round_robin")


def run_stream(
    model: Path,
    items: Sequence[str],
    words: StreamWords,
    *,
    prepare: Callable[[Any], Any],
    preprocess: str | None,
    postamble: "Postamble | None",
    engine: str,
    threads: int,
    isa: str,
    save: str | None,
    lines: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run and print. Raises SystemExit with the code of the signal where one ended the run."""
    from axtool.config import write_whole
    from axtool.report.stream import stream_document, stream_text
    from axtool.runtime.streams.axm import stream_axm
    from axtool.runtime.streams.run import StreamOptions

    o.choice(words.order, ORDERS, "--order")
    if lines is not None:
        o.choice(lines.suffix.lower(), (".jsonl",), "--out")
    options = StreamOptions(
        words.boards, words.devices, words.realtime, words.replay, words.workers, words.max_in_flight,
        words.order, words.trace is not None,  # type: ignore[arg-type]
    )  # fmt: skip
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        progress.step("streaming")
        ran = stream_axm(
            model, items, options,
            prepare=prepare, preprocess=preprocess, postamble=postamble, engine=engine, threads=threads, isa=isa,
            frames=words.frames, save=save, lines=lines, trace=words.trace, force=force, told=progress.rate,
        )  # fmt: skip
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
