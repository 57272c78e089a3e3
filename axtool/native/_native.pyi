from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

abi_version: int

def cpu() -> dict[str, Any]: ...
def op_table() -> list[tuple[str, list[tuple[str, int]]]]: ...
def histogram_f32(x: NDArray[np.float32], exponent: int, counts: NDArray[np.int64]) -> tuple[int, float, float]: ...

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
    ) -> None: ...
    def run(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8], taps: Iterable[Any] | None = None) -> None: ...
    def freeze(self, ext: NDArray[np.uint8], ocm: NDArray[np.uint8]) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def isa(self) -> str: ...
