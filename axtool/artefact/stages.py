"""What an .axm file holds, in memory: an `Artefact` and its stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from axtool.types import Plan, TensorSpec


@dataclass(frozen=True)
class HostStage:
    """A piece of the model that the host runs: a complete ONNX model."""

    onnx: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class DeviceStage:
    """A piece of the model that the chip runs."""

    plan: Plan

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.plan.program.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.plan.program.outputs


@dataclass(frozen=True)
class Artefact:
    """A compiled model. `target` is the chip's description as plain values; `preparation` how inputs are made;
    `export` what the exporter of the source model wrote about it.
    """

    target: Mapping[str, Any]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    stages: tuple[HostStage | DeviceStage, ...]
    preparation: Mapping[str, Any] | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    export: Mapping[str, Any] = field(default_factory=dict)
    quantization: Mapping[str, Any] = field(default_factory=dict)
    support: tuple[Mapping[str, Any], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device_stages(self) -> tuple[DeviceStage, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, DeviceStage))
