"""`axzoo benchmark`: how long a frame takes from picture to result, operator by operator."""

from typing import TYPE_CHECKING, Annotated

import typer

from axtool.cli import options as o
from axtool.cli import stream_options as s
from axtool.cli.console import Json, Progress, Quiet, Verbose, emit, set_up
from axtool.cli.run_stream import run_stream
from axtool.cli.zoo_built import axm_of
from axtool.cli.zoo_run import Axm, Kernel, Name, Target, Threads
from axtool.errors import UsageError
from axtool.legible import legible_values

if TYPE_CHECKING:
    from axtool.runtime.streams.axm import Wanted
    from axtool.runtime.streams.run import StreamOptions, StreamRun


def benchmark_command(
    model: Name,
    picture: Annotated[
        str | None,
        typer.Argument(metavar="[PICTURE|VIDEO]", help="Default: the config's demo or first validation picture."),
    ] = None,
    axm: Axm = None,
    target: Target = None,
    source: o.Source = None,
    kernel: Kernel = True,
    frames: Annotated[int, typer.Option("--frames", "-n", metavar="N", min=1, max=1_000_000, help="Measured.")] = 100,
    warmup: Annotated[int, typer.Option("--warmup", metavar="N", min=0, max=1_000_000, help="Before them.")] = 10,
    optimize: Annotated[
        str, typer.Option("--optimize", metavar="auto|none", help="Fuse operators, or run each alone.")
    ] = "auto",
    threads: Threads = 1,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Time the whole pipeline of a model on one picture, which is read once, or on a video, which is streamed over the
    cores of a board. Builds the model the first time.

    The device is simulated here: its measured time says nothing of the chip, for which the modelled time is shown.

    \b
    Examples:
      axzoo benchmark digits-v8det
      axzoo benchmark digits-v8det scene.png --frames 500 --no-kernel --json
      axzoo benchmark digits-v8det video.mp4
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.zoo_benchmark import benchmark_document, benchmark_text
    from axtool.runtime.frame_times import time_frames
    from axtool.runtime.image import Image
    from axtool.runtime.streams.words import is_moving
    from axtool.zoo.catalogue import find
    from axtool.zoo.loaded import load_entry, own_pictures, pictures_in, told

    o.choice(optimize, ("auto", "none"), "--optimize")
    entry = find(model)
    if picture is not None and is_moving(picture):
        if optimize != "auto":
            raise UsageError(
                "a video is timed with its operators fused", hint="leave out --optimize", code="bad-option"
            )
        video = picture

        def streamed(options: "StreamOptions", wanted: "Wanted", progress: Progress) -> "StreamRun":
            path = axm_of(entry, axm, target, source, progress)
            loaded = load_entry(entry, path, kernel=kernel, threads=threads)
            progress.step("timing")
            return loaded.stream([video], options, wanted, progress.rate)

        words = s.StreamWords(show_stats=True, frames=frames, warmup=warmup)
        run_stream(entry.config.name, words, streamed, as_json=as_json, quiet=quiet, verbose=verbose)
        return
    given = pictures_in([picture]) if picture is not None else []
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        path = axm_of(entry, axm, target, source, progress)
        loaded = load_entry(entry, path, kernel=kernel, threads=threads)
        shown = (given or own_pictures(entry))[0]
        loaded.preparation()  # refuses a config that is not for this model, before anything is timed
        pipeline = loaded.steps.pipeline(loaded.model).optimized(optimize)
        progress.step("timing")
        image = Image.from_file(shown)
        with told(entry):
            pipeline(image)  # whole, so that a kernel that fails is named with the model
            times = time_frames(pipeline, image, frames, warmup, progress.count)
    asked = {"warmup": warmup, "threads": threads, "optimize": optimize}
    document = benchmark_document(loaded, path, shown, times, asked)
    if as_json:
        emit(document)
    else:
        typer.echo(benchmark_text(legible_values(document)))
