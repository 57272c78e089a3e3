"""Profiles with round figures, made by hand: what a report says of them does not change with the cycle model."""

from __future__ import annotations

from typing import Any

from axtool.report.profile import Profiled, Stage
from axtool.report.profiled import profile_document
from axtool.target_file import load_target
from axtool.timing.ledger import CATEGORIES, LayerTime, Timing, explained, words

LONG = (
    "model/batch_normalization_2/FusedBatchNormV3;model/conv2d_2/BiasAdd/ReadVariableOp/resource;model/conv2d_2/Conv2D"
)


def layer(
    index: int, name: str, op: str, macs: int, cycles: tuple[int, ...], read: int = 0, written: int = 0
) -> LayerTime:
    """A layer with cycles in the order of the categories; its peak is 16,384 MACs a cycle."""
    ledger = dict(zip(CATEGORIES, cycles, strict=True))
    total = sum(cycles)
    amounts = {"mac": "50 % of it in use", "compute": "86 % of the elements", "data_ocm": "3.0 MiB at 64 B/cycle"}
    return LayerTime(
        index=index,
        name=name,
        op=op,
        origin=(name,),
        ledger=ledger,
        causes={"entry": ledger["other"], "fence": 0, "drain": 0},
        macs=macs,
        read_bytes=read,
        write_bytes=written,
        utilisation=macs / (total * 16384) if total else 0.0,
        bound=words(ledger, {"reads": 2, "writes": 1}, amounts),
        commands=4 if total else 0,
        reasons=explained(ledger, {"dma read": 2, "dma write": 0}, {"entry": ledger["other"]}, amounts),
    )


LAYERS = (
    layer(0, "/stem/Conv", "conv", 118_013_952, (14_400, 30_000, 5_000, 12_000, 3_000, 900), read=152_320),
    layer(1, LONG, "depthwise", 4_064_256, (9_000, 2_000, 1_000, 50_000, 0, 0), read=2_048),
    layer(2, "/layer1/layer1.0/conv1/Conv", "conv", 1_234_567_890, (900_000, 80_000, 9_000, 20_000, 123_456, 39)),
    layer(3, "/layer1/layer1.0/Add", "add", 0, (0, 3_000, 0, 49_152, 0, 39), read=3_145_728, written=6_291_456),
    layer(4, "/head/Concat", "concat", 0, (0, 0, 0, 0, 0, 0)),
)  # fmt: skip


def profiled(
    layers: tuple[LayerTime, ...] = LAYERS,
    *,
    spilled: int = 0,
    groups: tuple[int | None, ...] = (),
    target: str = "qc-u-1d7-16mb",
) -> Profiled:
    chip = load_target(target)
    timing = Timing(
        target=target,
        clock_hz=chip.clock_hz,
        peak_macs_per_cycle=16384,
        peak_ocm_bytes=8_000_000,
        ocm_bytes=chip.memory.ocm_bytes,
        layers=layers,
    )
    segments = tuple(("stem", "stem", "layer1", "layer1", "head")[one.index] for one in layers)
    out = (spilled, *[0] * (len(layers) - 1))
    return Profiled(chip, (Stage(timing, segments, out, groups or (None,) * len(layers), spilled),), 3)


def document(**changes: Any) -> dict[str, Any]:
    return profile_document("model.onnx", profiled(**changes))
