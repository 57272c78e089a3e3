"""`OnnxModel`: an ONNX graph in onnxruntime as a step; preambles, postambles, and files of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from axtool.artefact.stages import HostStage
from axtool.runtime.model import HostSession
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.types import TensorSpec

PROVIDERS = {
    "cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider", "openvino": "OpenVINOExecutionProvider",
    "cpu": "CPUExecutionProvider",
}  # fmt: skip


class OnnxModel(Operator):
    """A graph in onnxruntime: its inputs in order in, its outputs in order out (one as it is, several as arguments)."""

    path: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _sessions: tuple[HostSession, ...]

    def __init__(self, path: str | Path, *, provider: str | None = None, name: str = "") -> None:
        """Raises FileNotFoundError, and ValueError for a file that onnxruntime refuses or a provider it has not."""
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(f"{file}: no such file")
        session = HostSession.of_file(file, [_provider(provider)])
        self.path, self._sessions = str(path), (session,)
        self.inputs, self.outputs = session.inputs, session.outputs
        super().__init__(name=name)

    @classmethod
    def of_stages(
        cls, stages: Sequence[HostStage], inputs: Sequence[str], outputs: Sequence[str], *, path: str = ""
    ) -> OnnxModel:
        """Host stages one after another. An output may be an input that no stage changes."""
        made = cls.__new__(cls)
        made.path, made.name = path, ""
        made.inputs, made.outputs = tuple(inputs), tuple(outputs)
        made._sessions = tuple(HostSession(stage) for stage in stages)
        return made

    @property
    def specs(self) -> dict[str, TensorSpec]:
        """What is known of the tensors of the graph."""
        return {name: spec for session in self._sessions for name, spec in session.specs.items()}

    def __call__(self, *values: Any) -> Any:
        if len(values) != len(self.inputs):
            raise ValueError(f"the graph takes {len(self.inputs)} inputs ({', '.join(self.inputs)}), got {len(values)}")
        known = {
            key: array[None] if array.ndim == rank - 1 else array  # one picture, without its batch of one, gets it
            for key, rank, array in zip(self.inputs, self._ranks, map(np.asarray, values), strict=True)
        }
        for session in self._sessions:
            known |= session.run(known)
        results = [known[name] for name in self.outputs]
        return results[0] if len(results) == 1 else Unpacked(results)

    @cached_property
    def _ranks(self) -> tuple[int, ...]:
        """The number of axes of each input; -1 of one that the graph only hands on."""
        read = {name: spec for one in self._sessions for name, spec in one.specs.items() if name in one.inputs}
        return tuple(len(read[name].shape) if name in read else -1 for name in self.inputs)


def _provider(name: str | None) -> str:
    """The best provider there is, or the one asked for."""
    import onnxruntime as ort

    there = ort.get_available_providers()
    if name is None:
        return next(provider for provider in PROVIDERS.values() if provider in there)
    if name not in PROVIDERS:
        raise ValueError(f"there is no provider '{name}'; known: {', '.join(PROVIDERS)}")
    if PROVIDERS[name] not in there:
        have = [key for key, provider in PROVIDERS.items() if provider in there]
        raise ImportError(f"this onnxruntime has no provider '{name}' ({PROVIDERS[name]}); it has: {', '.join(have)}")
    return PROVIDERS[name]
