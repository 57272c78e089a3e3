"""The native engine against onnxruntime's fastest int8 form of the same model, and against itself.

`device part`: int8 inputs in place -> int8 outputs in place, against a session from uint8 to uint8.
`float to float`: quantizing and dequantizing included on both sides.
`2 threads over 1`: our own speed-up. `2 engines at once`: frames a second of two independent engines of one thread each
against one: what this machine has left for a second thread, whose core may share its multipliers with the first.
`every tensor exposed`: what `verify --layers` costs against a plain run.
"""

from __future__ import annotations

import importlib
import logging
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from axtool import __version__
from axtool.artefact.axm import DeviceStage
from axtool.cli.console import Progress
from axtool.compiler import compile_model
from axtool.options import Options
from axtool.runtime.device import DeviceSession
from axtool.sim.engine import native_available
from axtool.sim.images import host_slot, new_images, open_plan, write_tensor
from axtool.types import Plan
from benchmarks import table
from benchmarks.measure import Case, Timing, interleave
from benchmarks.networks import NETWORKS
from benchmarks.peer import FORMS, open_session, quantize_model, random_samples, strip_ends, version
from benchmarks.table import Row

TARGETS = {"resnet50": 1.0, "mobilenet_v2": 1.0, "yolov8n-320": 1.4, "yolov8n-640": 1.4}
TWO_THREADS = 1.8
EXPOSED = 1 / 1.5  # plain time over exposed time


@dataclass(frozen=True)
class Built:
    """One network on both sides."""

    name: str
    plan: Plan
    shape: tuple[int, ...]
    forms: dict[str, bytes]  # float to float
    stripped: dict[str, bytes]  # uint8 to uint8


def build(name: str, model: onnx.ModelProto, folder: Path, samples: int = 2) -> Built:
    """Compile for the device and quantize for the peer, from the same samples."""
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    shape = tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)
    feeds = random_samples(shape, samples)
    np.savez(folder / f"{name}.npz", images=np.concatenate([feed["images"] for feed in feeds]))
    options = Options(calib=(str(folder / f"{name}.npz"),), method="minmax")
    stages = compile_model(path, options, Progress(quiet=True)).artefact.stages
    devices = [stage for stage in stages if isinstance(stage, DeviceStage)]
    if len(stages) != 1 or len(devices) != 1:
        raise ValueError(f"{name} is not one device stage: nothing to compare with a whole session")
    peers = {form: quantize_model(path, folder, form, feeds) for form in FORMS}
    forms = {form: peer.SerializeToString() for form, peer in peers.items()}
    stripped = {form: strip_ends(peer).SerializeToString() for form, peer in peers.items()}
    return Built(name, devices[0].plan, shape, forms, stripped)


def device_case(plan: Plan, threads: int) -> Case:
    """Inputs are in ext before the clock starts; outputs are in ext when it stops."""
    engine = open_plan(plan, "native", threads)
    memories = new_images(plan)
    engine.freeze(memories["ext"], memories["ocm"])  # the peer's session, too, arranged its weights when it was opened

    def case(number: int) -> Callable[[], object]:
        rng = np.random.default_rng(number)
        for name in plan.program.inputs:
            tensor = plan.program.tensors[name]
            write_tensor(memories, host_slot(plan, name), tensor, rng.integers(-128, 128, tensor.shape, np.int8))
        return lambda: engine.run(memories["ext"], memories["ocm"], None)

    return case


def twice_case(plan: Plan) -> Case:
    """One frame on each of two engines that know nothing of each other."""
    cases = [device_case(plan, 1) for _ in range(2)]
    other = ThreadPoolExecutor(1)

    def case(number: int) -> Callable[[], object]:
        first, second = (one(number) for one in cases)

        def both() -> None:
            running = other.submit(first)
            second()
            running.result()

        return both

    return case


def frame_case(plan: Plan, shape: Sequence[int], threads: int) -> Case:
    """float32 in, float32 out, in ONNX order."""
    session = DeviceSession(plan, engine="native", threads=threads)

    def case(number: int) -> Callable[[], object]:
        (feeds,) = random_samples(shape, 1, number)
        return lambda: session.run(feeds)

    return case


def watched_case(plan: Plan, *, expose: bool) -> Case:
    """One frame from int8 to int8 on one thread, with every tensor that a layer makes copied out or none."""
    session = DeviceSession(plan, engine="native")
    watch = [name for layer in plan.program.layers for name in layer.outputs] if expose else []

    def case(number: int) -> Callable[[], object]:
        rng = np.random.default_rng(number)
        shapes = {name: plan.program.tensors[name].shape for name in plan.program.inputs}
        inputs = {name: rng.integers(-128, 128, shape, np.int8) for name, shape in shapes.items()}
        return lambda: session.run_quantized(inputs, watch)

    return case


def peer_case(model: bytes, shape: Sequence[int], threads: int) -> Case:
    """A session of the peer, fed with what its input wants."""
    session = open_session(model, threads)
    (spec,) = session.get_inputs()

    def case(number: int) -> Callable[[], object]:
        (feeds,) = random_samples(shape, 1, number)
        if spec.type == "tensor(uint8)":
            array: Any = np.random.default_rng(number).integers(0, 256, shape, np.uint8)
        else:
            array = feeds["images"]
        return lambda: session.run(None, {spec.name: array})

    return case


def compare(built: Built, *, rounds: int, threads: Sequence[int] = (1, 2)) -> list[Row]:
    """Every row of one network."""
    cases: dict[str, Case] = {}
    for n in threads:
        cases[f"ours {n}"] = device_case(built.plan, n)
        cases |= {f"{form} {n}": peer_case(model, built.shape, n) for form, model in built.stripped.items()}
    if {1, 2} <= set(threads):
        cases["twice"] = twice_case(built.plan)
    times = interleave(cases, rounds=rounds)
    target = TARGETS.get(built.name)
    rows = [_against_peer(built, "device part", times, n, target) for n in threads]
    if {1, 2} <= set(threads):
        one, two = times["ours 1"], times["ours 2"]
        ratio = one.median_ms / two.median_ms
        limit = 2 * one.median_ms / times["twice"].median_ms
        rows.append(
            _against_self(built, "2 threads over 1", ratio, TWO_THREADS, two, one, threads=2, of_limit=ratio / limit)
        )
        rows.append(_against_self(built, "2 engines at once", limit, None, times["twice"], one, threads=2))
    frames: dict[str, Case] = {"ours 1": frame_case(built.plan, built.shape, 1)}
    frames |= {f"{form} 1": peer_case(model, built.shape, 1) for form, model in built.forms.items()}
    rows.append(_against_peer(built, "float to float", interleave(frames, rounds=rounds), 1, None))
    exposure = interleave(
        {"exposed": watched_case(built.plan, expose=True), "plain": watched_case(built.plan, expose=False)},
        rounds=rounds,
    )
    ratio = exposure["plain"].median_ms / exposure["exposed"].median_ms
    both = (exposure["exposed"], exposure["plain"])
    rows.append(_against_self(built, "every tensor exposed", ratio, EXPOSED, *both, threads=1, cost=1 / ratio))
    return rows


def _against_peer(built: Built, measured: str, times: dict[str, Timing], threads: int, target: float | None) -> Row:
    ours = times[f"ours {threads}"]
    peers = {form: times[f"{form} {threads}"] for form in built.forms}
    best = min(peers, key=lambda form: peers[form].median_ms)
    return table.row(
        built.name,
        measured,
        peers[best].median_ms / ours.median_ms,
        target,
        ours=table.side("axtool native", __version__, ours, isa=isa()),
        peer=table.side(f"onnxruntime {best} u8s8", version(), peers[best]),
        threads=threads,
        cpu_ratio=round(peers[best].cpu_median_ms / ours.cpu_median_ms, 4),
        min_ratio=round(peers[best].min_ms / ours.min_ms, 4),
        other_peers={form: timing.to_dict() for form, timing in peers.items() if form != best},
    )


def _against_self(
    built: Built, measured: str, ratio: float, target: float | None, ours: Timing, base: Timing, **more: object
) -> Row:
    name = "axtool native"
    return table.row(
        built.name,
        measured,
        ratio,
        target,
        ours=table.side(name, __version__, ours, isa=isa()),
        peer=table.side(name, __version__, base, isa=isa()),
        min_ratio=round(base.min_ms / ours.min_ms, 4),
        **more,
    )


def isa() -> str:
    """The instruction set that the engine takes on this CPU."""
    return str(importlib.import_module("axtool.native._native").cpu()["best"])


def run(names: Sequence[str], *, rounds: int, threads: Sequence[int] = (1, 2)) -> list[Row]:
    """Build and compare the named networks."""
    if not native_available():
        raise SystemExit("the native engine is not built: there is nothing to time")
    logging.getLogger("axtool").setLevel(logging.ERROR)
    rows: list[Row] = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            table.say(f"{name}: building")
            built = build(name, NETWORKS[name](), Path(folder))
        table.say(f"{name}: timing")
        rows += compare(built, rounds=rounds, threads=threads)
    return rows


def main() -> None:
    """`python -m benchmarks.engine`."""
    parser = table.parser("engine", __doc__, rounds=25)
    table.add_names(parser, NETWORKS)
    parser.add_argument("--threads", type=table.positive, action="append", help="default: 1 and 2")
    given = parser.parse_args()
    rows = run(given.names or list(NETWORKS), rounds=given.rounds, threads=given.threads or (1, 2))
    table.show("engine", rows, as_json=given.json)


if __name__ == "__main__":
    main()
