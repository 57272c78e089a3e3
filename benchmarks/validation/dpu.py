"""AMD DPUCZDX8G B4096 on a Kria KV260: frames a second of networks of the Vitis AI model zoo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from axtool.target import Target
from axtool.target_file import load_target
from axtool.timing.clock import time_plan
from benchmarks.validation.chimera_data import read_csv
from benchmarks.validation.rows import LeftOut, Row, Rule, median_error
from benchmarks.validation.timing import planned

TITLE = "AMD DPUCZDX8G B4096 on a Kria KV260"
TARGET = "dpu-b4096"
TARGETS = (TARGET,)
ABOUT = """
The Vitis AI 2.5 model zoo publishes frames a second, end to end, on one core at 300 MHz. With one thread the host's
part of a frame (reading, resizing, copying, what follows the network) and the device's follow each other: one constant
stands for the host's part of every network. With several threads the host works beside the device: there the constant
is left out, and nothing else is changed. Two constants are fitted, the bandwidth of external memory (one path, which
the file gives twice) and the host's part of a frame, to the figures with one thread of all networks but those kept
back: the mean size of the logarithm of ours over published is least. The networks are written anew from their
publications; their multiply-accumulates agree with the zoo's within 5 %, but for MobileNet-v3-small and U-Net, of
which more below, and MobileNet-EdgeTPU, whose name counts each once.
"""
WRONG = (
    "The host's part of a frame is one constant. Where a network ends in much work for the host (boxes of SSD, "
    "classes of every pixel in U-Net, interest points of SuperPoint) one thread is slower than predicted; the figures "
    "with several threads show the device's part.",
    "MobileNet-v3-small: this build of the DPU does not multiply two maps (ELEW_MULT_DISABLE), so that its gates run "
    "on the host and cut the network in pieces; ours runs on the device whole. The zoo counts 66 M "
    "multiply-accumulates, as Keras' table does, ours has 57 M, as torchvision's.",
    "U-Net: the zoo counts a transposed convolution of 2x2 as one of 1x1, 11.65 G multiply-accumulates in all; ours "
    "has 12.05 G.",
    "One on-chip memory stands for the image, weight and bias banks, and the ports to external memory have no "
    "refresh, row misses or traffic of the CPUs but what the fitted bandwidth holds of them.",
)

ONE = "Frames a second, one thread"
SEVERAL = "Frames a second, several threads: the device alone"
MEDIAN = 0.15  # of the sizes of the errors, of either set
SINGLE = 0.2  # of single figures that say something about the device
HOST_SHARE = 0.2  # of the time of one thread, by the published figures, from which single figures are not asked for
KEPT_BACK = ("mobilenet-edge", "sphereface20", "superpoint")
NOTES = {"mobilenet-v3-small": "its gates run on the host"}

BANDWIDTHS = (5.0, 7.0, 9.6)  # GB/s, at which the plans are timed; between them by the time of a byte
RATES = np.arange(5.0, 9.65, 0.1)  # GB/s, tried
ENTRIES = np.arange(0.0, 400_001, 5_000)  # cycles of the host's part, tried


@dataclass(frozen=True)
class Figure:
    """One line of published/dpu_kv260.csv."""

    model: str
    network: str
    gops: float  # two for a multiply-accumulate
    one: float  # frames a second with one thread
    several: float

    @property
    def asked(self) -> bool:
        """Whether the device makes most of the time, so that the figure says something about it."""
        return 1 - self.one / self.several < HOST_SHARE and self.network not in NOTES


@cache
def published() -> tuple[Figure, ...]:
    """Every figure, in the order of the file."""
    numbers = ("gops", "fps_one_thread", "fps_threads")
    return tuple(
        Figure(line["model"], line["network"], *(float(line[key]) for key in numbers)) for line in read_csv("dpu_kv260")
    )


@cache
def device_cycles(network: str) -> tuple[float, ...]:
    """Cycles of a frame on the device at each of BANDWIDTHS, of the plan that the file's bandwidth gives."""
    target = load_target(TARGET)
    plan = planned(network, target)
    return tuple(float(time_plan(plan, _at(target, rate)).total - target.costs["entry"]) for rate in BANDWIDTHS)


def predicted(network: str, *, host: bool = True) -> float:
    """Frames a second with the constants of the file; without the host's part where `host` is False."""
    target = load_target(TARGET)
    cycles = float(_between(network, np.array([target.external.read_bytes_per_s / 1e9]))[0])
    return target.clock_hz / (cycles + (target.costs["entry"] if host else 0))


def rows() -> list[Row]:
    """Every figure of both sets."""
    found = []
    for figure in published():
        kept, note = figure.network in KEPT_BACK, NOTES.get(figure.network, "")
        one, several = predicted(figure.network), predicted(figure.network, host=False)
        asked = SINGLE if figure.asked else None
        found.append(Row(ONE, figure.model, "1/s", figure.one, one, tolerance=asked, kept_back=kept, note=note))
        found.append(Row(SEVERAL, figure.model, "1/s", figure.several, several, kept_back=kept, note=note))
    return sorted(found, key=lambda row: row.set)


def rules(rows: Sequence[Row]) -> list[Rule]:
    """The median of either set, every network in it."""
    return [
        Rule(name, "median error", median_error(row for row in rows if row.set == name), MEDIAN, unit="%")
        for name in (ONE, SEVERAL)
    ]


def leave_one_out() -> list[LeftOut]:
    """Each figure of the fit, predicted by constants fitted to the others."""
    figures = fitted_to()
    return [
        LeftOut(figure.model, "1/s", figure.one, predicted_by(figure.network, *fit(figure.network)))
        for figure in figures
    ]


def fitted_to(without: str = "") -> tuple[Figure, ...]:
    """The figures of the fit, but those of one network."""
    return tuple(f for f in published() if f.network not in KEPT_BACK and f.network != without)


def fit(without: str = "") -> tuple[float, float]:
    """Bandwidth in GB/s and the host's part of a frame in cycles that fit best, one network left out."""
    sizes = spread(RATES, ENTRIES, without)
    rate, entry = np.unravel_index(np.argmin(sizes), sizes.shape)
    return round(float(RATES[rate]), 1), float(ENTRIES[entry])


def spread(rates: NDArray[np.float64], entries: NDArray[np.float64], without: str = "") -> NDArray[np.float64]:
    """(rates, entries): the mean size of the logarithm of ours over published."""
    figures, clock = fitted_to(without), load_target(TARGET).clock_hz
    sizes: NDArray[np.float64] = np.zeros((len(rates), len(entries)))
    for figure in figures:
        cycles = _between(figure.network, rates)[:, None] + entries[None, :]
        sizes += np.abs(np.log(clock / cycles / figure.one))
    return sizes / len(figures)


def predicted_by(network: str, rate: float, entry: float) -> float:
    """Frames a second with one thread at a bandwidth in GB/s and with so many cycles of the host."""
    return load_target(TARGET).clock_hz / (float(_between(network, np.array([rate]))[0]) + entry)


def _between(network: str, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cycles on the device at other bandwidths: what waits for memory goes with the time of a byte."""
    known = 1 / np.array(BANDWIDTHS)
    return np.interp(1 / rates, known[::-1], np.array(device_cycles(network))[::-1])


def _at(target: Target, rate: float) -> Target:
    external = replace(target.external, read_bytes_per_s=rate * 1e9, write_bytes_per_s=rate * 1e9)
    return replace(target, external=external)


def main() -> None:
    rate, entry = fit()
    print(f"external bandwidth {rate:g} GB/s, entry {entry:,.0f} cycles; each network left out:")
    for network in dict.fromkeys(figure.network for figure in fitted_to()):
        print(f"  {network}: {fit(network)}")


if __name__ == "__main__":
    main()
