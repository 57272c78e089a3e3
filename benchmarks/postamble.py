"""Postamble kernels against the path that they replace: depad, dequantize, align and onnxruntime, on one thread.

Both sides of a row get the same padded int8 buffers of the device and give the tensors of the source model. The path
is taken at its best (`postamble_path`). `floor` is a memcpy that reads the same bytes and writes as many as the outputs
have, into arrays of the pages that the kernel's have; `distance` is the kernel's time over it. Both sides and the
memcpy are run in turn, and medians are compared; beside them stand the fastest runs.

One thread is timed by the CPU time of the process: that is the wall time of a core of one's own, and leaves out waiting
for a core that others use, which would favour the side that fits into a time slice. Several threads are timed by the
clock on the wall.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from axtool.runtime import mega
from axtool.runtime.pool import new_array
from benchmarks import table
from benchmarks.measure import Timing, interleave
from benchmarks.postamble_path import Buffers, Floats, Path
from benchmarks.tails import CASES
from benchmarks.tails.case import Case

_FRAMES = 4  # of each case, in turn: no run finds its own input in the nearest cache


def _memcpy(sources: Buffers, targets: Floats) -> Callable[[], None]:
    """Reads every byte of the sources, and writes the targets once."""
    source = np.concatenate([buffer.reshape(-1) for buffer in sources])
    target = new_array((sum(array.nbytes for array in targets),), np.int8)
    target[:] = 0
    chunks = [(target[start : start + source.size], source) for start in range(0, target.size, source.size)]
    unread = np.empty(max(source.size - target.size, 0), np.int8)

    def copy() -> None:
        for to, what in chunks:
            np.copyto(to, what[: to.size])
        if unread.size:
            np.copyto(unread, source[-unread.size :])

    return copy


def measure(case: Case, *, rounds: int, threads: int = 1, seed: int = 0) -> table.Row:
    """One row: kernel, path, memcpy in turn, and the outputs compared first."""
    path = Path(case.tail(), seed, threads=threads)
    rng = np.random.default_rng(seed)
    frames = [[rng.integers(-128, 128, info.shape).astype(np.int8) for info in path.infos] for _ in range(_FRAMES)]
    kernel = _kernel(case, path, threads)
    path.settle(frames[0])
    made, wanted = kernel(*frames[0]), path.run(frames[0])
    for mine, theirs in zip(made if isinstance(made, tuple) else [made], wanted, strict=True):
        if np.issubdtype(theirs.dtype, np.integer):  # labels may differ where two classes are equal
            assert np.shape(mine) == theirs.shape
            assert np.mean(mine != theirs) < 0.01
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
    copies = [_memcpy(frame, wanted) for frame in frames]
    sides: dict[str, Callable[[int], Callable[[], object]]] = {
        "kernel": lambda i: lambda: kernel(*frames[i % _FRAMES]),
        "path": lambda i: lambda: path.run(frames[i % _FRAMES]),
        "front": lambda i: lambda: path.front(frames[i % _FRAMES]),
        "memcpy": lambda i: copies[i % _FRAMES],
    }
    times = interleave(sides, rounds=rounds)
    median, fastest = ({name: of(time, threads) for name, time in times.items()} for of in (_median_ms, _fastest_ms))
    return table.row(
        case.name,
        "tail",
        median["path"] / median["kernel"],
        case.wanted,
        ours=table.side(case.kernel, kernel.backend, times["kernel"]),
        peer=table.side("depad, dequantize, align, onnxruntime", ort.__version__, times["path"]),
        threads=threads,
        timed_by=_clock(threads),
        ratio_of_fastest=round(fastest["path"] / fastest["kernel"], 4),
        front=times["front"].to_dict(),
        floor=times["memcpy"].to_dict(),
        distance=round(median["kernel"] / median["memcpy"], 4),
        distance_of_fastest=round(fastest["kernel"] / fastest["memcpy"], 4),
        bytes_in=sum(info.size for info in path.infos),
        bytes_out=sum(array.nbytes for array in wanted),
    )


def _clock(threads: int) -> str:
    return "CPU" if threads == 1 else "wall"


def _median_ms(timing: Timing, threads: int) -> float:
    return timing.cpu_median_ms if threads == 1 else timing.median_ms


def _fastest_ms(timing: Timing, threads: int) -> float:
    return timing.cpu_min_ms if threads == 1 else timing.min_ms


def _kernel(case: Case, path: Path, threads: int) -> Any:
    """The kernel of a case, with as many threads as it takes."""
    made = getattr(mega, case.kernel)
    shared = {"threads": threads} if threads > 1 and "threads" in inspect.signature(made).parameters else {}
    return made(path.infos, case.model_width, case.model_height, **case.params, **shared)


def text(rows: Sequence[table.Row]) -> str:
    """The table that a person reads: measured milliseconds and ratios."""
    head = (
        "tail", "threads", "timed by", "kernel ms", "fastest", "path ms", "of it front", "fastest", "ratio",
        "of fastest", "wanted", "memcpy ms", "distance", "",
    )  # fmt: skip
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: table.Row) -> tuple[str, ...]:
    clock = "cpu_" if row["timed_by"] == "CPU" else ""
    median, fastest = f"{clock}median_ms", f"{clock}min_ms"
    return (
        row["name"],
        str(row["threads"]),
        row["timed_by"],
        f"{row['ours'][median]:.3f}",
        f"{row['ours'][fastest]:.3f}",
        f"{row['peer'][median]:.2f}",
        f"{row['front'][median]:.2f}",
        f"{row['peer'][fastest]:.2f}",
        f"{row['ratio']:.1f}",
        f"{row['ratio_of_fastest']:.1f}",
        f"{row['target']:.0f}",
        f"{row['floor'][median]:.3f}",
        f"{row['distance']:.2f}",
        {True: "ok", False: "MISSED", None: ""}[row["met"]],
    )


def run(names: Sequence[str], *, rounds: int, threads: int = 1) -> list[table.Row]:
    """The rows of these cases."""
    rows = []
    for case in CASES:
        if case.name in names:
            table.say(f"{case.name} …")
            rows.append(measure(case, rounds=rounds, threads=threads))
    return rows


def main() -> None:
    """`python -m benchmarks.postamble [TAIL ...]`."""
    parser = table.parser("postamble", __doc__, rounds=40)
    known = [case.name for case in CASES]
    table.add_names(parser, known)
    parser.add_argument("--threads", type=table.positive, default=1, help="of both sides (default %(default)s)")
    given = parser.parse_args()
    rows = run(given.names or known, rounds=given.rounds, threads=given.threads)
    if given.json:
        table.show("postamble", rows, as_json=True)
    else:
        print(text(rows))


if __name__ == "__main__":
    main()
