"""What the document of `info` looks like, of an .onnx and of an .axm."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from axtool.quant.recipe_file import RecipeFile
from axtool.report.schemas_base import CheckedLayers, Ok, Part, Tensor


class SupportRow(Part):
    node: str
    index: int
    op: str
    kind: Literal["host", "device"]
    stage: int
    reasons: list[str]
    advice: list[str]
    macs: int


class ExternalData(Part):
    file: str
    bytes: int


class OnnxStage(Part):
    kind: Literal["host", "device"]
    nodes: int
    inputs: list[str]
    outputs: list[str]


class Export(Part):
    """What the exporter of the source model wrote about it, in the keys of Ultralytics."""

    task: str
    names: list[str] = Field([], description="By class number.")
    stride: int | None = None
    imgsz: list[int] | None = Field(None, description="Height and width in pixels.")
    kpt_shape: list[int] | None = Field(None, description="Keypoints, and values of each.")
    license: str = ""
    description: str = ""


class InfoBody(Ok):
    schema_: Literal["axtool.info/1"] = Field(alias="schema")
    file: str
    file_bytes: int
    target: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    ops: dict[str, int]
    macs: int
    device_macs: int
    export: Export | None = Field(description="Null where no exporter wrote about the model.")
    support: list[SupportRow]


class InfoOnnx(InfoBody):
    kind: Literal["onnx"]
    sha256: str
    producer: str
    opset: int
    ir_version: int
    parameters: int
    stages: list[OnnxStage]
    passes: dict[str, int]
    external_files: list[ExternalData]
    weight_faults: list[str]
    random_ops: list[str]
    notes: list[str]
    warnings: list[str]


class LayerInfo(Part):
    index: int
    op: str
    name: str
    origin: list[str]
    output: str


class StoredTensor(Part):
    name: str
    shape: list[int]
    onnx_shape: list[int]
    format: str
    scale: float | None = Field(description="null for fx32 and fp16.")
    zero_point: int
    fraction_bits: int | None = Field(description="Of fx32: the real number is the stored one / 2^fraction_bits.")


class SlotInfo(Part):
    tensor: str
    memory: Literal["ext", "ocm"]
    offset: int
    bytes: int
    first_layer: int
    last_layer: int


class HostStageInfo(Part):
    kind: Literal["host"]
    inputs: list[str]
    outputs: list[str]
    onnx_bytes: int


class DeviceStageInfo(Part):
    kind: Literal["device"]
    inputs: list[str]
    outputs: list[str]
    layers: list[LayerInfo]
    commands: int
    constant_bytes: int
    tensors: list[StoredTensor]
    slots: list[SlotInfo]
    memory_bytes: dict[str, int]


class QuantizationInfo(Part):
    method: str
    samples: int
    bias_corrected: bool
    trials: list[dict[str, str | float]]
    layers: CheckedLayers | None = Field(None, description="Null where no layer was checked.")
    recipe: RecipeFile | None = Field(None, description="As a file of it says, and what became of it.")


class KernelFit(Part):
    """A built-in kernel whose outputs have the declared shapes; `axtool verify --postamble` says if it is right."""

    kernel: str
    postamble: dict[str, Any] = Field(description="The slot with its kernel, and the parameters.")
    python: str = Field(description="The Postamble to paste.")
    origins: dict[str, str] = Field(description="Where each parameter was read.")
    missing: dict[str, str] = Field(description="Parameters that nothing in the file says, and what they are.")


class InfoAxm(InfoBody):
    kind: Literal["axm"]
    preparation: dict[str, Any] | None
    task: dict[str, Any]
    kernels: list[KernelFit]
    stages: list[Annotated[HostStageInfo | DeviceStageInfo, Field(discriminator="kind")]]
    quantization: QuantizationInfo
    provenance: dict[str, Any]


class Info(RootModel[Annotated[InfoOnnx | InfoAxm, Field(discriminator="kind")]]):
    """Of an .onnx or an .axm."""
