"""A compiled file and the words of a command line  ->  a `StreamRun`, with everything checked before."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from axtool.artefact import axm
from axtool.config import real_path, refuse_overwrite
from axtool.errors import AxError, UsageError, nearest
from axtool.inputs.prepare import Preparation
from axtool.inputs.preprocess import load_preprocess
from axtool.runtime.frame import UNPREPARED, Prepare, stored_preparation
from axtool.runtime.op.axe import load_axe
from axtool.runtime.op.combinators import Seq
from axtool.runtime.op.device_options import DeviceOptions
from axtool.runtime.op.load import LoadedSeq, sequence_of
from axtool.runtime.op.operator import Operator
from axtool.runtime.parted import DROP
from axtool.runtime.postamble import Postamble
from axtool.runtime.streams.outputs import ResultLines, outputs_of
from axtool.runtime.streams.pipeline import Preprocessed, front_of, pipeline_of, preparation_for
from axtool.runtime.streams.run import StreamOptions, StreamRun, Told, run, untold
from axtool.runtime.streams.sources import opened
from axtool.runtime.streams.typed import Typed
from axtool.sim.engine import ENGINES

log = logging.getLogger("axtool")


@dataclass(frozen=True)
class Wanted:
    """What is kept of a run: `save` is a file, a folder, or a pattern with {name} or {index}, for the frames with what
    was found on them; `lines` a .jsonl with the result of each frame. `trace` is only refused here where it cannot be
    written. At most so many `frames` of each source are read. `force` replaces files that are there.
    """

    save: str | None = None
    lines: Path | None = None
    trace: Path | None = None
    frames: int | None = None
    force: bool = False


def stream_axm(
    path: Path,
    items: Sequence[str],
    options: StreamOptions,
    wanted: Wanted,
    *,
    prepare: Prepare = lambda base: base,
    preprocess: str | None = None,
    postamble: Postamble | None = None,
    engine: str = "native",
    threads: int = 1,
    isa: str = "auto",
    told: Told = untold,
) -> StreamRun:
    """Run an .axm file, or a pipeline saved as .axe, over videos, cameras, folders and pictures. `prepare` may change
    the preparation that an .axm holds.

    Raises UsageError for what is wrong with any of the arguments, before a frame is read.
    """
    if path.suffix.lower() not in (".axm", ".axe"):
        raise UsageError(
            "only a compiled model runs over a stream", where=str(path),
            hint="compile it first: axtool compile MODEL.onnx", code="not-axm",
        )  # fmt: skip
    if engine not in ENGINES:
        what = f"a stream runs on the engines {', '.join(ENGINES)}, not '{engine}'"
        raise UsageError(what, hint=nearest(engine, ENGINES), code="bad-option")
    if path.suffix.lower() == ".axe":
        if postamble is not None or preprocess is not None or prepare(None) is not None or isa != "auto":
            raise UsageError(
                "a saved pipeline has its preparation and its kernels already", where=str(path),
                hint="leave out --postamble, --isa and how pictures are prepared", code="bad-option",
            )  # fmt: skip
        whole = Seq(load_axe(path, engine=engine, threads=threads), Typed(wanted.save is not None))
        with _faults_of("bad-pipeline", "run it in a program to see where it fails"):
            return _streamed(path, whole.optimized(), items, options, wanted, told)
    artefact = axm.read(path)
    preparation = prepare(stored_preparation(artefact))
    function = None if preprocess is None else load_preprocess(preprocess)
    if preparation is None and function is None:
        log.warning(UNPREPARED)
    resolved = preparation_for(artefact, preparation, path)
    front = front_of(resolved) if function is None else [Preprocessed(function, artefact.inputs[0].shape)]
    given = postamble is not None and not postamble.is_empty
    with _faults_of("bad-postamble", DROP) if given else nullcontext():
        device = DeviceOptions(engine=engine, threads=threads, isa=isa)
        model = sequence_of(artefact, path, postamble, options=device)
        return stream_model(front, model, resolved, items, options, wanted, told=told)


@contextmanager
def _faults_of(code: str, hint: str) -> Iterator[None]:
    """What fails inside is a fault of what the user brought: a UsageError that says so."""
    try:
        yield
    except AxError:
        raise
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        raise UsageError(" ".join(str(error).split()), hint=hint, code=code) from error


def stream_model(
    front: Sequence[Operator],
    model: LoadedSeq,
    preparation: Preparation,
    items: Sequence[str],
    options: StreamOptions,
    wanted: Wanted,
    *,
    told: Told = untold,
) -> StreamRun:
    """A loaded model over streams, as `stream_axm`; `front` makes its input, where the frame lies as `preparation`
    says.
    """
    pipeline = pipeline_of(front, model, preparation, draws=wanted.save is not None)
    return _streamed(model.path, pipeline, items, options, wanted, told)


def _streamed(
    path: Path, pipeline: Seq, items: Sequence[str], options: StreamOptions, wanted: Wanted, told: Told
) -> StreamRun:
    sources = opened(items, frames=wanted.frames)
    try:
        inputs = [path, *(Path(item) for item in items), *(Path(one.place) for one in sources)]
        files = [file for file in (wanted.lines, wanted.trace) if file is not None]
        for file in files:
            refuse_overwrite(file, force=wanted.force, inputs=inputs)
        outputs = outputs_of(wanted.save, sources, force=wanted.force, inputs=inputs)
        _refuse_same([*files, *(output.path for output in outputs if output is not None)])
    except BaseException:
        for source in sources:
            source.close()
        raise
    results = None if wanted.lines is None else ResultLines(wanted.lines, force=wanted.force)
    return run(pipeline, sources, outputs, options, lines=results, told=told)


def _refuse_same(paths: Sequence[Path]) -> None:
    """Raise UsageError where two outputs would be one file."""
    real = [real_path(path) for path in paths]
    for at, path in enumerate(real):
        if path in real[:at]:
            raise UsageError(
                "two outputs would be written to one file", where=str(paths[at]), hint="name them apart",
                code="bad-option",
            )  # fmt: skip
