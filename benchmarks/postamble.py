"""Postamble kernels against the path that they replace: depad, dequantize, align and onnxruntime, on one thread.

Both sides of a row get the same padded int8 buffers of the device and give the tensors of the source model. The path is
taken at its best: its float arrays are allocated once, it transposes bytes or floats, whichever is faster for the tail,
and onnxruntime runs with all its optimizations. `floor` is a memcpy that reads the same bytes and writes as many as the
outputs have; `distance` is the kernel's time over it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from axtool.runtime import TensorInfo, mega
from benchmarks import table
from benchmarks.measure import Timing, interleave
from benchmarks.tails import CASES
from benchmarks.tails.case import Case

_FRAMES = 4  # of each case, in turn: no run finds its own input in the nearest cache
_SCALE = 0.05

Buffers = list[NDArray[np.int8]]
Floats = list[NDArray[np.float32]]


class Path:
    """What runs without a kernel, one thread."""

    def __init__(self, tail: bytes, seed: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(tail, options, providers=["CPUExecutionProvider"])
        inputs = self.session.get_inputs()
        self.names, self.shapes = [i.name for i in inputs], [tuple(i.shape) for i in inputs]
        rng = np.random.default_rng(seed)
        self.infos = [_info(name, shape, rng) for name, shape in zip(self.names, self.shapes, strict=True)]
        self.floats: Floats = [np.empty(shape, np.float32) for shape in self.shapes]
        self.by_bytes = True

    def front(self, buffers: Buffers) -> dict[str, NDArray[np.float32]]:
        """Depad, dequantize and align."""
        for buffer, info, out in zip(buffers, self.infos, self.floats, strict=True):
            numbers = np.moveaxis(buffer[info.inside], -1, 1) if out.ndim == 4 else buffer[info.inside][0]
            if self.by_bytes:
                numbers = np.ascontiguousarray(numbers)
            np.subtract(numbers, np.float32(info.zero_point), out=out, dtype=np.float32)
            np.multiply(out, np.float32(info.scale), out=out)
        return dict(zip(self.names, self.floats, strict=True))

    def run(self, buffers: Buffers) -> list[Any]:
        """The outputs of the source model."""
        return list(self.session.run(None, self.front(buffers)))

    def settle(self, buffers: Buffers) -> None:
        """Keep the faster order of transposing and widening."""
        seconds = {}
        for self.by_bytes in (True, False):
            seconds[self.by_bytes] = min(_seconds(lambda: self.front(buffers)) for _ in range(5))
        self.by_bytes = min(seconds, key=seconds.__getitem__)


def _info(name: str, shape: Sequence[int], rng: np.random.Generator) -> TensorInfo:
    """The buffer of a tensor (1, c, h, w), or of rows (1, n, c): channels padded to a multiple of 4, as the device
    writes them."""
    n, c, h, w = shape if len(shape) == 4 else (1, shape[2], 1, shape[1])
    padding = [(0, 0)] * 3 + [(0, -c % 4)]
    return TensorInfo(
        (n, h, w, c + -c % 4), name=name, padding=padding, scale=_SCALE, zero_point=int(rng.integers(-9, 9))
    )


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _memcpy(sources: Buffers, targets: Floats) -> Callable[[], None]:
    """Reads every byte of the sources, and writes the targets once."""
    source = np.concatenate([buffer.reshape(-1) for buffer in sources])
    target = np.concatenate([array.reshape(-1).view(np.int8) for array in targets])
    chunks = [(target[start : start + source.size], source) for start in range(0, target.size, source.size)]
    unread = np.empty(max(source.size - target.size, 0), np.int8)

    def copy() -> None:
        for to, what in chunks:
            np.copyto(to, what[: to.size])
        if unread.size:
            np.copyto(unread, source[-unread.size :])

    return copy


def measure(case: Case, *, rounds: int, seed: int = 0) -> table.Row:
    """One row: kernel, path, memcpy in turn, and the outputs compared first."""
    path = Path(case.tail(), seed)
    rng = np.random.default_rng(seed)
    frames = [[rng.integers(-128, 128, info.shape).astype(np.int8) for info in path.infos] for _ in range(_FRAMES)]
    kernel = getattr(mega, case.kernel)(path.infos, case.model_width, case.model_height, **case.params)
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
    ratio = times["path"].median_ms / times["kernel"].median_ms
    return table.row(
        case.name,
        "tail",
        ratio,
        case.wanted,
        ours=table.side(case.kernel, kernel.backend, times["kernel"]),
        peer=table.side("depad, dequantize, align, onnxruntime", ort.__version__, times["path"]),
        threads=1,
        ratio_of_fastest=round(times["path"].min_ms / times["kernel"].min_ms, 4),
        front=times["front"].to_dict(),
        floor=times["memcpy"].to_dict(),
        distance=round(_distance(times), 4),
        bytes_in=sum(info.size for info in path.infos),
        bytes_out=sum(array.nbytes for array in wanted),
    )


def _distance(times: dict[str, Timing]) -> float:
    return times["kernel"].median_ms / times["memcpy"].median_ms


def text(rows: Sequence[table.Row]) -> str:
    """The table that a person reads: measured milliseconds, medians, and ratios."""
    head = ("tail", "kernel ms", "path ms", "of it front", "ratio", "wanted", "fastest", "memcpy ms", "distance", "")
    lines = [head]
    for row in rows:
        mark = {True: "ok", False: "MISSED", None: ""}[row["met"]]
        lines.append(
            (
                row["name"],
                f"{row['ours']['median_ms']:.3f}",
                f"{row['peer']['median_ms']:.2f}",
                f"{row['front']['median_ms']:.2f}",
                f"{row['ratio']:.1f}",
                f"{row['target']:.0f}",
                f"{row['ratio_of_fastest']:.1f}",
                f"{row['floor']['median_ms']:.3f}",
                f"{row['distance']:.2f}",
                mark,
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def run(names: Sequence[str], *, rounds: int) -> list[table.Row]:
    """The rows of these cases."""
    rows = []
    for case in CASES:
        if case.name in names:
            table.say(f"{case.name} …")
            rows.append(measure(case, rounds=rounds))
    return rows


def main() -> None:
    """`python -m benchmarks.postamble [TAIL ...]`."""
    parser = table.parser("postamble", __doc__, rounds=40)
    known = [case.name for case in CASES]
    table.add_names(parser, known)
    given = parser.parse_args()
    rows = run(given.names or known, rounds=given.rounds)
    if given.json:
        table.show("postamble", rows, as_json=True)
    else:
        print(text(rows))


if __name__ == "__main__":
    main()
