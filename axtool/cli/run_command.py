"""`axtool run`: one frame through a compiled model, or through a float one; or a stream of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axtool.cli import options as o
from axtool.cli import postamble as p
from axtool.cli import stream_options as s
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, say, set_up
from axtool.cli.run_stream import run_stream
from axtool.errors import UsageError
from axtool.legible import legible_values

if TYPE_CHECKING:
    from axtool.inputs.prepare import Preparation
    from axtool.runtime.streams.axm import Wanted
    from axtool.runtime.streams.run import StreamOptions, StreamRun


def run_command(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An .axm file, an .axe to stream, or an .onnx with --engine float.")
    ],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT", help="An image, .npy or .npz, or NAME=file. Streams: videos, folders, /dev/video0, URLs."
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="NAME=FILE", help="Data of one input, or a feeds.npz.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE.npz",
            help="Save the outputs as arrays (.npz; .npy for one); of a stream, the results as lines (.jsonl).",
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(
            "--save", metavar="FILE",
            help="Save what was found on the picture (.png, .jpg) or the video (.mp4); a folder or out-{name}.mp4 for "
            "several.",
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", "-e", metavar="native|reference|float", help="The bits of the first two agree.")
    ] = "native",
    threads: Annotated[int, typer.Option("--threads", min=1, max=256, help="Of the native engine or a float run.")] = 1,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Times are medians of N frames, after a warm-up.")
    ] = 1,
    isa: Annotated[
        str, typer.Option("--isa", metavar="NAME", help="auto, portable, avx2, avxvnni, avx512vnni or neon_dot.")
    ] = "auto",
    postamble: p.Option = None,
    custom_ops: o.CustomOps = None,
    target: o.Target = "qc-u-1d7-16mb",
    resize: o.Resize = None,
    mean: o.Mean = None,
    std: o.Std = None,
    scale: o.Scale = None,
    color: o.Color = None,
    layout: o.Layout = None,
    fill: o.Fill = None,
    preprocess: o.Preprocess = None,
    input_shape: o.InputShape = None,
    dim: o.Dim = None,
    permissive: o.Permissive = False,
    fix_fp16: o.FixFp16 = False,
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
    """Run a model on one input, or on streams of frames, and print what comes out.

    Times are of a warm frame: prepare is the input, from its file; device and host are the stages; frame is
    device, host and what passes between them, without prepare. With --postamble the tail is run by that kernel,
    or for `none` by onnxruntime, and timed by itself with what brings the device's buffers to it.

    Videos, folders, cameras, addresses and several pictures are streams, and so is one picture with an option of
    streams: their frames are spread over the cores of the boards. VIDEO@30 gives 30 frames a second, VIDEO@auto as
    many as it has. Ctrl-C ends a stream; what was saved until then can be played.

    \b
    Examples:
      axtool run model.axm photo.jpg --postamble UltralyticsYoloPostamble,num_classes=80
      axtool run model.axm photo.jpg --save annotated.png
      axtool run model.onnx --engine float --input x=feed.npy -o out.npz
      axtool run model.axm video.mp4 --save out.mp4 --show-stats
      axtool run model.axm cam1.mp4 cam2.mp4 --boards 'metis-pcie*4' --realtime --replay --json
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.config import refuse_overwrite, write_whole
    from axtool.report.results import run_document, run_text
    from axtool.runtime.streams.words import reads_like_a_stream

    def prepare(base: "Preparation | None") -> "Preparation | None":
        return o.preparation(resize, mean, std, scale, color, layout, fill, base)

    items = (*(data or ()), *(inputs or ()))
    streams = s.StreamWords(
        show_stats, frames, devices, boards, realtime, replay_from or replay, workers, max_in_flight, order, trace
    )  # fmt: skip
    lines = out is not None and out.suffix.lower() == ".jsonl"
    if streams.given or lines or reads_like_a_stream(items):
        from axtool.runtime.streams.axm import stream_axm

        if repeat != 1:
            raise UsageError(
                "--repeat is for a single input, not for a stream",
                hint="--show-stats has the times of every frame, --frames ends a stream early", code="bad-option",
            )  # fmt: skip
        kernel = None if postamble is None else p.postamble_of(postamble)

        def streamed(options: "StreamOptions", wanted: "Wanted", progress: Progress) -> "StreamRun":
            progress.step("streaming")
            return stream_axm(
                model, items, options, wanted, told=progress.rate, prepare=prepare, preprocess=preprocess,
                postamble=kernel, engine=engine, threads=threads, isa=isa,
            )  # fmt: skip

        run_stream(
            str(model), streams, streamed,
            save=save, lines=out, force=force, as_json=as_json, quiet=quiet, verbose=verbose,
        )  # fmt: skip
        return
    files = [model, *(Path(item.rsplit("=", 1)[-1]) for item in items)]
    picture = None if save is None else Path(save)
    for path, option, suffixes in ((out, "--out", (".npz", ".npy")), (picture, "--save", (".png", ".jpg", ".jpeg"))):
        if path is not None:
            o.choice(path.suffix.lower(), suffixes, option)
            refuse_overwrite(path, force=force, inputs=files)

    if engine == "float":
        if postamble is not None:
            raise UsageError(
                "--postamble is for a compiled model; the float engine runs the source as it is",
                hint="leave out --postamble, or give the .axm file",
                code="bad-option",
            )
        from axtool.graph.float_frame import run_onnx
        from axtool.graph.front import Reading
        from axtool.target_file import load_target

        reading = Reading(o.shapes(input_shape), o.dims(dim), permissive=permissive, fix_fp16=fix_fp16)
        frame = run_onnx(
            model, items, load_target(target), reading,
            prepare=prepare, preprocess=preprocess, threads=threads, repeat=repeat,
        )  # fmt: skip
    else:
        from axtool.runtime.frame import run_axm

        frame = run_axm(
            model, items,
            prepare=prepare, preprocess=preprocess, engine=engine, threads=threads, isa=isa, repeat=repeat,
            postamble=None if postamble is None else p.postamble_of(postamble),
        )  # fmt: skip
    if out is not None:
        from axtool.inputs.arrays import save_arrays

        save_arrays(out, frame.outputs, force=force)
        say(f"wrote {out}", quiet=quiet)
    if picture is not None:
        write_whole(picture, frame.drawn(picture.suffix), force=force)
        say(f"wrote {picture}", quiet=quiet)
    document = run_document(
        str(model),
        frame.engine,
        frame.outputs,
        frame.times_s,
        frame.modelled_ms,
        frame.result,
        frame.repeats,
        frame.tail,
    )
    if as_json:
        emit(document)
    else:
        typer.echo(run_text(legible_values(document)))
