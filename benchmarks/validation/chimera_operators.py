"""The datasheet's operator kernels: one convolution on a 64 x 64 image, as a model of its own, on a QB16."""

from __future__ import annotations

from functools import cache

from axtool.target import Target
from axtool.target_file import load_target, set_values
from benchmarks.validation.chimera_data import read_csv, time_model
from benchmarks.validation.rows import LeftOut, Row, fit_line, leave_one_out
from benchmarks.validation.shapes import Shapes, finish

FAMILY = "qc-u-1d5-8mb"
CHANNELS = 256
OTHERS = (128, 512)
SIZE = 64
POINTS = 4.0
SET = "QB datasheet: MAC utilisation of operator kernels"
ELSE = "QB datasheet: the same with other channel counts"
# What a QB16 has in place of a QC-U: 8 MACs a processing element at 1 GHz. The image, the weights and the result are on
# chip, as in a kernel that is measured alone: external memory is made so fast that it takes no time.
QB16 = {
    "array.input_channels": 8, "clock_hz": "1GHz", "external.latency_cycles": 0,
    "external.read_bytes_per_s": 1e15, "external.write_bytes_per_s": 1e15,
}  # fmt: skip


def qb16() -> Target:
    """The costs of the QC-U files on the array of a QB16."""
    return set_values(load_target(FAMILY), QB16)


@cache
def published() -> dict[int, float]:
    """MAC utilisation in per cent, by the side of the kernel."""
    return {int(row["kernel"]): float(row["mac_utilisation_percent"]) for row in read_csv("chimera_operators")}


@cache
def kernel_cycles(kernel: int, shift: float | None = None, channels: int = CHANNELS) -> tuple[float, float]:
    """Cycles of the kernel, start of the program included, and those of a full array."""
    target = qb16() if shift is None else set_values(qb16(), {"costs.window_shift": shift})
    net = Shapes("kernel", SIZE, channels=channels)
    timing = time_model(finish(net, net.conv("images", channels, kernel)), target).timing
    return timing.total, timing.macs / timing.peak_macs_per_cycle


def utilisation(kernel: int, shift: float | None = None, channels: int = CHANNELS) -> float:
    """In per cent."""
    total, ideal = kernel_cycles(kernel, shift, channels)
    return 100 * ideal / total


def rows() -> list[Row]:
    """The four kernels with the channel count that is taken for the datasheet's, and with half and twice as many."""
    note = "{} channels in and out".format
    return [
        Row(SET, f"{k}x{k}", "%", value, utilisation(k), tolerance=POINTS, absolute=True, note=note(CHANNELS))
        for k, value in published().items()
    ] + [
        Row(ELSE, f"{k}x{k}", "%", value, utilisation(k, channels=n), absolute=True, note=note(n))
        for n in OTHERS
        for k, value in published().items()
    ]


def left_out() -> list[LeftOut]:
    """Each kernel that is wider than a pixel, with `window_shift` fitted to the others."""
    wide = {f"{k}x{k}": value for k, value in published().items() if k > 1}
    return leave_one_out(
        wide, lambda rest, name: utilisation(_side(name), fitted_shift([_side(other) for other in rest])), "%"
    )


def fitted_shift(kernels: list[int]) -> float:
    """The `window_shift` that meets the published cycles of these kernels best; cycles grow in a line with it."""
    points = []
    for kernel in kernels:
        base, ideal = kernel_cycles(kernel, 0.0)
        points.append((100 * ideal / published()[kernel], base, kernel_cycles(kernel, 1.0)[0] - base))
    return fit_line(points)


def _side(name: str) -> int:
    return int(name.partition("x")[0])
