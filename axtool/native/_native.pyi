from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

abi_version: int

def cpu() -> dict[str, Any]: ...
def op_table() -> list[tuple[str, list[tuple[str, int]]]]: ...
def histogram_f32(x: NDArray[np.float32], exponent: int, counts: NDArray[np.int64]) -> tuple[int, float, float]: ...
def round_rows_f64(
    real: NDArray[np.float64],
    nearest: NDArray[np.float64],
    grams: NDArray[np.float64],
    order: NDArray[np.int64],
    damping: NDArray[np.float64],
    limit: float,
    steps: NDArray[np.float64],
    lost: NDArray[np.float64],
) -> bool: ...
def gram_f32(x: NDArray[np.float32], gram: NDArray[np.float64]) -> None: ...
def windows_f32(
    image: NDArray[np.float32],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    y: NDArray[np.int64],
    x: NDArray[np.int64],
    found: NDArray[np.float32],
) -> None: ...
def postamble_backends() -> list[str]: ...

class Engine:
    def __init__(
        self,
        layers: NDArray[np.int64],
        layer_offsets: NDArray[np.int64],
        commands: NDArray[np.int64],
        command_offsets: NDArray[np.int64],
        sizes: Mapping[str, int],
        threads: int = 1,
        isa: str = "auto",
        merge: bool = True,
        functions: Mapping[int, int] = ...,
    ) -> None: ...
    def run(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8], taps: Iterable[Any] | None = None) -> None: ...
    def freeze(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8]) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def isa(self) -> str: ...

def head_backends() -> list[str]: ...

class Labels:
    def __init__(self, backend: str = "auto", threads: int = 1) -> None: ...
    def run(self, x: NDArray[np.int8], factor: int, out: NDArray[np.int64]) -> None: ...
    @property
    def backend(self) -> str: ...

class Steps:
    def __init__(self, backend: str = "auto", threads: int = 1) -> None: ...
    def add_source(self, shape: Sequence[int], padding: Sequence[Sequence[int]]) -> None: ...
    def add_target(self, floats: int) -> None: ...
    def add_map(
        self,
        source: Sequence[int],
        target: Sequence[int],
        kinds: NDArray[np.int32],
        tables: NDArray[np.float32],
        params: NDArray[np.float32],
        grid: NDArray[np.float32],
    ) -> None: ...
    def add_boxes(
        self,
        source: Sequence[int],
        target: Sequence[int],
        shifted: bool,
        stride: float,
        kinds: Sequence[NDArray[np.int32]],
        tables: Sequence[NDArray[np.float32]],
        params: Sequence[NDArray[np.float32]],
        grid: NDArray[np.float32],
    ) -> None: ...
    def run(self, buffers: Sequence[NDArray[np.int8]], targets: Sequence[NDArray[np.float32]]) -> None: ...
    @property
    def backend(self) -> str: ...

class Heads:
    def __init__(self, backend: str = "auto", threads: int = 1) -> None: ...
    def add_source(self, shape: Sequence[int], padding: Sequence[Sequence[int]]) -> None: ...
    def add_target(self, floats: int) -> None: ...
    def add_strip(
        self,
        kind: str,
        places: Sequence[int],
        columns_first: bool,
        scale: float,
        zero: float,
        table: NDArray[np.float32],
        factors: NDArray[np.float32],
        sizes: NDArray[np.float32],
        rows: NDArray[np.float32],
        cols: NDArray[np.float32],
        steps: NDArray[np.float32],
    ) -> None: ...
    def run(self, buffers: Sequence[NDArray[np.int8]], targets: Sequence[NDArray[np.float32]]) -> None: ...
    @property
    def backend(self) -> str: ...
