"""CPU of the calibration step of ResNet-50 with 32 images, against one plain float onnxruntime pass over them.

The step is everything from stages and samples to ranges, with the default method; opening its sessions is included,
opening the session of the plain pass is not. Both use one thread; each round has new images.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx

from axtool import __version__
from axtool.graph.front import Front, Reading, read_front
from axtool.quant.calibrate import calibrate
from axtool.target_file import load_target
from benchmarks import table
from benchmarks.measure import Case, interleave
from benchmarks.networks import NETWORKS
from benchmarks.peer import open_session, random_samples, version
from benchmarks.table import Row

MOST = 1.6  # times the CPU of the plain pass


def front_of(model: onnx.ModelProto) -> Front:
    """The model as the compiler has it before it calibrates."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        return read_front(path, load_target("qc-u-1d7-16mb"), Reading())


def cases(model: onnx.ModelProto, images: int) -> dict[str, Case]:
    """The step and the plain pass, over the same images in a round."""
    stages = front_of(model).parts.stages
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    session = open_session(model.SerializeToString(), 1)

    def step(number: int) -> Callable[[], object]:
        samples = random_samples(shape, images, number)
        return lambda: calibrate(stages, samples, "percentile", 99.999)

    def plain(number: int) -> Callable[[], object]:
        samples = random_samples(shape, images, number)
        return lambda: [session.run(None, sample) for sample in samples]

    return {"calibrate": step, "plain": plain}


def run(name: str = "resnet50", *, rounds: int, images: int = 32) -> list[Row]:
    """One row: the ratio is the CPU of the plain pass over ours, the target 1 / 1.6 of it."""
    logging.getLogger("axtool").setLevel(logging.ERROR)
    table.say(f"{name}: calibrating with {images} images")
    times = interleave(cases(NETWORKS[name](), images), rounds=rounds, warm_up=1, again=False)
    ratio = times["plain"].cpu_median_ms / times["calibrate"].cpu_median_ms
    ours = table.side("axtool calibration", __version__, times["calibrate"])
    peer = table.side("onnxruntime float", version(), times["plain"])
    measured = f"calibrate {images}, CPU"
    return [table.row(name, measured, ratio, 1 / MOST, ours=ours, peer=peer, threads=1, cost=round(1 / ratio, 4))]


def main() -> None:
    """`python -m benchmarks.calibrate`."""
    given = table.parser("calibrate", __doc__, rounds=20).parse_args()
    table.show("calibrate", run(rounds=given.rounds), as_json=given.json)


if __name__ == "__main__":
    main()
