"""`axzoo run`: pictures and videos through a model of the zoo, with the steps and the kernel of its config."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axtool.cli import options as o
from axtool.cli import stream_options as s
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, say, set_up
from axtool.cli.run_stream import run_stream
from axtool.cli.zoo_built import axm_of
from axtool.errors import UsageError
from axtool.legible import legible_values

if TYPE_CHECKING:
    from axtool.runtime.streams.axm import Wanted
    from axtool.runtime.streams.run import StreamOptions, StreamRun

Name = Annotated[str, typer.Argument(metavar="MODEL", help="A name of `axzoo list`, or your own .yaml or .py.")]
Axm = Annotated[
    Path | None,
    typer.Option("--axm", metavar="FILE.axm", help="A built file. Default: built once and kept in the cache."),
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="Default: the config's first.")]
Kernel = Annotated[
    bool, typer.Option("--kernel/--no-kernel", help="The kernel of the config, or the tail in onnxruntime.")
]
Threads = Annotated[int, typer.Option("--threads", min=1, max=256, help="Of the simulated device.")]


def run_command(
    model: Name,
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Pictures, folders; videos, cameras, URLs.")],
    axm: Axm = None,
    target: Target = None,
    source: o.Source = None,
    kernel: Kernel = True,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE.png|FILE.mp4|FOLDER",
            help="Save the picture or the video with what was found; a folder where there are several.",
        ),
    ] = None,
    threads: Threads = 1,
    show_stats: s.ShowStats = False,
    frames: s.Frames = None,
    devices: s.Devices = None,
    boards: s.Boards = None,
    realtime: s.Realtime = False,
    replay: s.Replay = False,
    replay_from: s.ReplayFrom = None,
    workers: s.Workers = None,
    max_in_flight: s.MaxInFlight = None,
    order: s.OrderOption = "as_available",
    trace: s.Trace = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:  # fmt: skip
    """Run a model on pictures or videos and print what it finds. Builds the model the first time.

    Times are measured here, of the simulated device; the device's time on the chip is modelled. Videos, cameras and
    addresses are streams, and so are pictures with an option of streams, as in `axtool run`.

    \b
    Examples:
      axzoo run digits-v8det scene.png
      axzoo run digits-v8det pictures/ --out found/ --json
      axzoo run digits-v8det video.mp4 --out found.mp4 --show-stats
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.config import write_whole
    from axtool.report.zoo_run import ran_document, ran_text
    from axtool.runtime.draw import draw
    from axtool.runtime.frame import modelled_ms
    from axtool.runtime.streams.words import is_moving
    from axtool.sim.engine import native_available
    from axtool.zoo.catalogue import find
    from axtool.zoo.loaded import load_entry, pictures_in

    entry = find(model)
    streams = s.StreamWords(
        show_stats, frames, devices, boards, realtime, replay_from or replay, workers, max_in_flight, order, trace
    )  # fmt: skip
    if streams.given or any(map(is_moving, inputs)):

        def streamed(options: "StreamOptions", wanted: "Wanted", progress: Progress) -> "StreamRun":
            path = axm_of(entry, axm, target, source, progress)
            loaded = load_entry(entry, path, kernel=kernel, threads=threads)
            progress.step("streaming")
            return loaded.stream(inputs, options, wanted, progress.rate)

        run_stream(
            entry.config.name, streams, streamed,
            save=None if out is None else str(out), force=force, as_json=as_json, quiet=quiet, verbose=verbose,
        )  # fmt: skip
        return
    pictures = pictures_in(inputs)
    drawn = _drawn_to(out, pictures, force=force)
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        path = axm_of(entry, axm, target, source, progress)
        loaded = load_entry(entry, path, kernel=kernel, threads=threads)
        if drawn and not loaded.model.artefact.task:
            raise UsageError(
                "the config does not say what the outputs mean", where=str(entry.path), hint="give it a task",
                code="nothing-to-draw",
            )  # fmt: skip
        progress.step("running")
        loaded.see(pictures[0])  # the first frame pays for what is loaded late; times are of a warm one
        rows = []
        for done, picture in enumerate(pictures, 1):
            seen = loaded.see(picture)
            to = drawn.get(picture)
            if to is not None and seen.result is not None:
                to.parent.mkdir(exist_ok=True)
                write_whole(to, draw(picture, seen.result, to.suffix, seen.labels), force=force)
            rows.append((picture, seen, to))
            progress.count(done, len(pictures))
    engine = "native" if native_available() else "reference"
    document = ran_document(loaded, path, engine, rows, modelled_ms(loaded.model.artefact))
    for to in drawn.values():
        say(f"wrote {to}", quiet=quiet)
    if as_json:
        emit(document)
    else:
        typer.echo(ran_text(legible_values(document)))


def _drawn_to(out: Path | None, pictures: list[Path], *, force: bool) -> dict[Path, Path]:
    """Where each picture is drawn to: a file for one, files of a folder for several. Refused before any work."""
    from axtool.config import refuse_overwrite

    if out is None:
        return {}
    if len(pictures) == 1 and not out.is_dir() and out.suffix:
        o.choice(out.suffix.lower(), (".png", ".jpg", ".jpeg", ".webp"), "--out")
        refuse_overwrite(out, force=force, inputs=pictures)
        return {pictures[0]: out}
    if out.suffix and not out.is_dir():
        raise UsageError(
            f"--out {out}: {len(pictures)} pictures do not go into one file", hint="name a folder", code="bad-option"
        )
    made = {picture: out / f"{picture.stem}.png" for picture in pictures}
    if len(set(made.values())) < len(made):
        raise UsageError(
            "two pictures of the same name would be drawn to one file", where=str(out),
            hint="run the folders one after another", code="bad-option",
        )  # fmt: skip
    for path in made.values() if out.is_dir() else ():
        refuse_overwrite(path, force=force, inputs=pictures)
    if not out.is_dir():
        refuse_overwrite(out, force=force)
    return made
