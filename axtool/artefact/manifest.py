"""The JSON manifest of an .axm file: what every field is, checked before anything is used.

Shapes are element counts, sizes and offsets bytes. Numbers that are not finite do not occur.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT: Literal["axtool.axm/1"] = "axtool.axm/1"

Count = Annotated[int, Field(ge=0, lt=2**48)]
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Name = Annotated[str, Field(max_length=4096)]


class Strict(BaseModel):
    """Every key known, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FormatEntry(Strict):
    kind: Literal["int8", "int16", "int32", "fx32", "fp16", "float32"]
    scale: list[Annotated[float, Field(gt=0)]] = []
    zero_point: list[Int32] = [0]
    fraction_bits: Annotated[int, Field(ge=-64, le=64)] | None = None


class TensorEntry(Strict):
    shape: list[Count]
    format: FormatEntry
    layout: Literal["channel_first", "channel_last"]
    onnx_shape: list[Count]


class LayerEntry(Strict):
    op: Name
    name: Name
    inputs: list[Name]
    outputs: list[Name]
    attrs: dict[str, Int64 | list[Int64]]
    origin: list[Name]


class SlotEntry(Strict):
    tensor: Name
    memory: Literal["ext", "ocm"]
    offset: Count
    size: Count
    first: Count
    last: Count


class SpecEntry(Strict):
    name: Name
    shape: list[Count]
    dtype: Name


class HostEntry(Strict):
    kind: Literal["host"]
    inputs: list[Name]
    outputs: list[Name]


class DeviceEntry(Strict):
    kind: Literal["device"]
    inputs: list[Name]
    outputs: list[Name]
    tensors: dict[str, TensorEntry]
    layers: list[LayerEntry]
    constants: list[Name]
    slots: list[SlotEntry]
    sizes: dict[Literal["ext", "ocm"], Count]
    without: list[Name] = []  # optimisations that are switched off


class TrialEntry(Strict):
    """A recipe, and the mean SQNR of the outputs that it gave on samples held back from calibration.

    Of a refinement also its name, and what it gained over the best recipe before it.
    """

    recipe: str
    sqnr_db: float
    refines: str = ""
    gain_db: float | None = None


class WorstLayerEntry(Strict):
    """A layer that loses much on its own: figures, what is wrong there, what would help; null where not finite."""

    op: Name
    name: Name
    origin: list[Name]
    output: Name
    single_sqnr_db: float | None
    accumulated_sqnr_db: float | None
    noise_share: float
    saturated_share: float
    used_levels: Count | None
    cause: str
    advice: str
    recipe: dict[str, Any] | None


class LayersEntry(Strict):
    """What the layer check at the end of compilation found, on some of the calibration samples."""

    samples: Count
    checked: Count
    worst: list[WorstLayerEntry]


class QuantizationEntry(Strict):
    """How the ranges were found. `ranges` is (low, high) by the name of the ONNX tensor.

    `factors` are what the channels (axis 1) of a tensor are multiplied by on the device: ranges are of the products.
    """

    method: str = ""
    samples: Count = 0
    bias_corrected: bool = False
    trials: list[TrialEntry] = []
    recipe: dict[str, Any] | None = None  # as `axtool.quant.recipe_file` reads it
    layers: LayersEntry | None = None
    ranges: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]] = {}
    factors: dict[str, list[float]] = {}


class SupportEntry(Strict):
    """Where one node of the source runs, and for a host node why, and what would avoid it."""

    node: Name
    index: int
    op: Name
    kind: Literal["host", "device"]
    stage: int
    reasons: list[str]
    advice: list[str]
    macs: Count


class TaskEntry(Strict):
    """What the outputs mean: the values that `axtool.runtime.task` reads."""

    kind: Literal["classification", "detection", "pose", "segmentation", "semantic"]
    labels: list[str] = []
    softmax: bool = False
    decode: str | None = None
    threshold: float = 0.3
    iou: float = 0.5
    classes: Count | None = None
    size: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=2, max_length=2)] | None = None
    strides: list[Annotated[int, Field(gt=0)]] | None = None
    outputs: list[Name] | None = None
    mask_threshold: float | None = None
    unclip: float | None = None
    keep: list[str] | None = None
    keypoints: Count | None = None
    coefficients: Count | None = None
    min_sizes: list[list[Annotated[int, Field(gt=0)]]] | None = None


EXPORT_TASKS = ("detect", "segment", "pose", "obb", "classify")
Side = Annotated[int, Field(gt=0, lt=2**31)]


class ExportEntry(Strict):
    """What the exporter wrote into the source model, in the keys of Ultralytics.

    `names` by class number, `imgsz` (height, width) in pixels, `kpt_shape` (keypoints, 2 or 3 values of each).
    """

    task: Literal["detect", "segment", "pose", "obb", "classify"]
    names: Annotated[list[Name], Field(max_length=1 << 16)] = []
    stride: Side | None = None
    imgsz: Annotated[list[Side], Field(min_length=2, max_length=2)] | None = None
    kpt_shape: Annotated[list[Side], Field(min_length=2, max_length=2)] | None = None
    license: Name = ""
    description: Name = ""


class ProvenanceEntry(BaseModel):
    """Where the file comes from. Further keys are kept and shown to nobody."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    axtool: str = ""
    model: str = ""
    sha256: str = ""
    producer: str = ""
    opset: int | None = None
    calibration: list[str] = []
    samples: list[str] = []  # as `axtool.quant.twins` knows them again
    notes: list[str] = []
    directives: dict[str, Any] | None = None  # what the planner was told, as `axtool.plan.directives_file` reads it


class Manifest(Strict):
    """The whole of the metadata key `axm`."""

    format: Literal["axtool.axm/1"]
    target: dict[str, Any]
    inputs: list[SpecEntry]
    outputs: list[SpecEntry]
    stages: list[Annotated[HostEntry | DeviceEntry, Field(discriminator="kind")]]
    preparation: dict[str, Any] | None = None
    task: TaskEntry | None = None
    export: ExportEntry | None = None
    quantization: QuantizationEntry = QuantizationEntry()
    support: list[SupportEntry] = []
    provenance: ProvenanceEntry = ProvenanceEntry()
