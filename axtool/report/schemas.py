"""What the JSON documents of the commands look like. `docs/generate.py` writes these as JSON Schema files.

Every key is listed: a document with another one is a bug. Units are in the names; `null` is explained where it occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from axtool.report.schemas_base import CheckedLayers, Document, Ok, Part, Tensor
from axtool.report.schemas_info import Info
from axtool.report.schemas_metrics import Semantic, VerifyMetrics
from axtool.report.schemas_profile import Devices, Job, Profile, ProfileCompare, ProfileSweep, Targets
from axtool.report.schemas_stream import RunStream
from axtool.report.schemas_tail import RunTail, TailVerdict
from axtool.report.schemas_zoo import ZooBenchmark, ZooCheck, ZooEval, ZooInfo, ZooList, ZooNew, ZooShowConfig


class Device(Part):
    cycles_modelled: int
    latency_ms_modelled: float = Field(description="Of one frame, on one core.")
    cores: int
    frames_per_s_modelled: float = Field(description="Of all cores, each with a frame of its own.")
    peak_ocm_bytes: int
    ocm_bytes: int
    external_read_bytes: int
    external_write_bytes: int


class CompiledStage(Part):
    kind: Literal["host", "device"]
    inputs: list[str]
    outputs: list[str]
    layers: int | None = Field(None, description="Of a device stage.")
    commands: int | None = Field(None, description="Of a device stage.")


class RecipeTrial(Part):
    recipe: str
    sqnr_db: float = Field(description="Mean over the outputs, on samples held back from calibration; measured.")
    refines: str = Field("", description="Name of the refinement that was tried on the best recipe so far.")
    gain_db: float | None = Field(None, description="Of the refinement, over that recipe; kept where it is a gain.")


class Int16Step(Part):
    """A tensor that became int16 under a budget, the figures with all those before it."""

    tensor: str
    sqnr_db: float = Field(description="Mean over the outputs, on samples held back from calibration; measured.")
    cycles_added: float = Field(description="Share of the cycles of int8 that came on top; modelled.")


class MixedStep(Part):
    """Nodes that a budget bought another format for, the figures with all steps before it."""

    format: Literal["int16", "fp16", "fx32", "float"]
    node: str = Field(description="Name of the first one.")
    outputs: list[str] = Field(description="First outputs of all of them.")
    sqnr_db: float = Field(description="Mean over the outputs, on samples held back from calibration; measured.")
    cycles_added: float = Field(description="Share of the cycles of int8 that came on top; modelled.")


class Calibration(Part):
    method: str = Field(description="The recipe that was kept, or where the ranges came from.")
    samples: int = Field(description="0 where ranges were given.")
    bias_corrected: bool
    trials: list[RecipeTrial] = Field(description="Every recipe that was tried; empty where there was no choice.")
    recipe: str = Field(description="Name of the recipe file, or of the options, that said what is tried.")
    int16: list[Int16Step] = Field(description="Tensors that a budget widened, in the order in which they were.")
    mixed: list[MixedStep] = Field(description="Nodes that a budget moved to fp16 or fx32, likewise.")


class Placed(Part):
    """Something on both sides of the split."""

    device: int
    host: int


class Explained(Part):
    tensor: str
    low: float = Field(description="Of the range, in real units.")
    high: float
    format: str
    scale: float | None = Field(description="null for fx32 and fp16.")
    fraction_bits: int | None = Field(description="Of fx32: the real number is the stored one / 2^fraction_bits.")
    zero_point: int
    tie: str = Field(description="What it costs that the tensor shares a format; empty where nothing.")
    why: str


class PassRow(Part):
    name: str = Field(description="The optimisation; NAME:2 is its second place.")
    phase: int = Field(description="1 moves data, each on its own; 2 changes arithmetic, each on top of those before.")
    contract: Literal["bit-exact", "measured", "approximate"]
    what: str
    cycles_modelled: int | None = Field(description="Added to a frame, below 0 saved; null: it changes nothing here.")


class PassAgreement(Part):
    unit: Literal["% of labels", "dB"] = Field(description="Equal whole numbers, or the lowest SQNR of an output.")
    before: float | None = Field(description="Without optimisations; measured; null: not finite.")
    after: float | None = Field(description="With all of them; measured; null: not finite.")
    samples: int


class Passes(Part):
    base_cycles_modelled: int = Field(description="Of a frame without optimisations.")
    composed_cycles_modelled: int = Field(description="With those of phase 1.")
    final_cycles_modelled: int = Field(description="With all.")
    own: list[str] = Field(description="What the program without optimisations has all the same.")
    rows: list[PassRow]
    agreement: PassAgreement | None = Field(description="With the float model; null without samples.")


class QdqFile(Part):
    file: str
    file_bytes: int


class CompileBody(Document):
    file: str
    file_bytes: int
    qdq: QdqFile | None = Field(description="The quantized model as QDQ ONNX; null where none was asked for.")
    target: str
    model: str
    stages: list[CompiledStage]
    nodes: Placed
    regions: dict[str, int] = Field(description="Of a transformer: how many linears, attention and other blocks.")
    macs: Placed
    preparation: dict[str, Any] | None = Field(description="Of pictures, with the values that have an effect.")
    preprocess: str = Field(description="The file of the user's own function; empty without one.")
    preparation_defaults: list[str] = Field(description="What of it nobody chose.")
    calibration: Calibration
    layers: CheckedLayers | None = Field(description="Null where no layer was checked.")
    elapsed_s_measured: float = Field(description="Of the whole command, on this machine.")
    device: Device
    explain: list[Explained] | None = Field(None, description="With --explain: each tensor of the device.")
    passes: Passes | None = Field(None, description="With --explain-passes: what each optimisation is worth.")


class Compile(CompileBody):
    schema_: Literal["axtool.compile/1"] = Field(alias="schema")


class TopRow(Part):
    index: int
    score: float


class OutputRow(Tensor):
    top: list[TopRow] | None = Field(None, description="The largest of a (1, n) output, where no task is known.")
    min: float | None = Field(description="Of the finite values; null where there are none.")
    mean: float | None
    max: float | None
    non_finite: int


class ClassRow(Part):
    index: int
    label: str
    score: float


class DetectionRow(ClassRow):
    box: list[float] = Field(min_length=4, max_length=4, description="x1, y1, x2, y2 in pixels of the image.")


class PoseRow(DetectionRow):
    keypoints: list[list[float]] = Field(description="x, y in pixels of the image, and how sure, of each.")


class MaskRuns(Part):
    size: list[int] = Field(min_length=2, max_length=2, description="Rows and columns of the image.")
    counts: list[int] = Field(description="Lengths of runs down the columns, outside first, as COCO has them.")


class SegmentationRow(DetectionRow):
    mask: MaskRuns


class Classification(Part):
    kind: Literal["classification"]
    classes: list[ClassRow]


class Detection(Part):
    kind: Literal["detection"]
    threshold: float
    detections: list[DetectionRow]


class Pose(Part):
    kind: Literal["pose"]
    threshold: float
    detections: list[PoseRow]


class Segmentation(Part):
    kind: Literal["segmentation"]
    threshold: float
    detections: list[SegmentationRow]


class Times(Part):
    """Of a frame after one that is not measured; the median of each where there are several."""

    repeats: int
    prepare_ms_measured: float = Field(description="From the file to the arrays; not in the frame.")
    device_ms_measured: float | None = Field(None, description="Of the simulated device, on this machine.")
    host_ms_measured: float | None = Field(None, description="Of the host stages; absent where there are none.")
    front_ms_measured: float | None = Field(None, description="With a Postamble: preamble, quantization, padding.")
    tail_ms_measured: float | None = Field(None, description="With a Postamble: from the buffers to the outputs.")
    frame_ms_measured: float = Field(description="Device, host, and what passes between them.")
    device_ms_modelled: float | None = Field(description="On the chip; null for the float engine.")


class Run(Ok):
    schema_: Literal["axtool.run/1"] = Field(alias="schema")
    model: str
    engine: Literal["native", "reference", "float"] = Field(description="The one that ran.")
    outputs: list[OutputRow]
    result: Annotated[Classification | Detection | Pose | Segmentation | Semantic, Field(discriminator="kind")] | None
    tail: RunTail | None = Field(description="What restored the outputs; null without --postamble.")
    time: Times


class SliceRow(Part):
    input: str = Field(description="The input of the Concat that made these entries.")
    axis: int
    start: int
    stop: int
    sqnr_db: float | None


class ComparisonRow(Part):
    output: str
    samples: int
    exact: bool
    sqnr_db: float | None = Field(description="null: infinite where exact, else the reference is all zero.")
    cosine: float
    max_abs_error: float
    max_abs_reference: float
    non_finite_mismatches: int
    worst_channel: int | None
    worst_channel_sqnr_db: float | None
    worst_slice: SliceRow | None
    dead_channels: list[int]
    top1_agreement: float | None


class LayerRow(Part):
    index: int
    op: str
    name: str
    origin: list[str]
    output: str
    accumulated_sqnr_db: float | None
    accumulated_exact: bool
    single_sqnr_db: float | None
    single_exact: bool
    max_abs_error: float
    saturated_share: float
    used_levels: int | None
    few_level_channels: int = Field(description="Channels that vary, but over fewer than 8 levels.")
    channels: int
    tie_factor: float = Field(description="Times that its steps are coarser than it needs, as it shares a format.")
    tied_to: str = Field(description="The tensor that it shares a format with; empty without a cost.")
    bad: bool


class ClassAgreement(Part):
    top1_agreement: float
    samples: int


class ObjectAgreement(Part):
    objects: int
    found: int
    found_share: float
    invented: int
    samples: int
    iou: float


class Verify(Document):
    schema_: Literal["axtool.verify/1"] = Field(alias="schema")
    status: Literal["ok", "failed"]
    model: str
    against: str | None = Field(description="Null where only a kernel was judged; the figures are empty then.")
    stage: str | None
    samples: int
    calibrated_with: int = Field(description="Samples that the model was calibrated with, too.")
    verdict: Literal["passed", "failed", "not comparable"]
    outputs: list[ComparisonRow]
    agreement: ClassAgreement | ObjectAgreement | None
    metrics: VerifyMetrics | None = Field(description="Of --metric, or of a semantic task; null: none was asked for.")
    checks: list[str] = Field(description="What was checked, in words.")
    failures: list[str]
    notes: list[str]
    next_steps: list[str] = Field(description="What to try; empty when nothing failed.")
    incomparable: list[str]
    layers: list[LayerRow] | None
    first_bad_layer: int | None
    postamble: TailVerdict | None = Field(description="Of a kernel against the onnxruntime tail; null: none was named.")
    job: Job | None = Field(description="Of the file on its chip; null where only a kernel was judged.")


class ExpectedRow(Part):
    metric: str
    minimum: float
    measured: float | None
    met: bool


class ZooBuild(CompileBody):
    schema_: Literal["axtool.axzoo.build/1"] = Field(alias="schema")
    recipe: str
    name: str
    expected: list[ExpectedRow] | None


class ZooPicture(Part):
    picture: str
    drawn: str | None = Field(description="The file with what was found drawn on; null where none was asked for.")
    outputs: list[OutputRow]
    result: Annotated[Classification | Detection | Pose | Segmentation | Semantic, Field(discriminator="kind")] | None
    time: Times


class ZooRun(Ok):
    schema_: Literal["axtool.axzoo.run/1"] = Field(alias="schema")
    name: str
    licence: str
    axm: str
    engine: Literal["native", "reference"]
    postamble: dict[str, Any] | None = Field(description="The kernel that ran; null for the tail in onnxruntime.")
    pictures: list[ZooPicture]


class Version(Ok):
    schema_: Literal["axtool.version/1"] = Field(alias="schema")
    python: str
    packages: dict[str, str | None]


class ErrorBody(Part):
    code: str = Field(description="A stable word for scripts.")
    exit: int
    message: str
    where: str
    hint: str
    details: list[str]


class Error(Document):
    """Of every command that could not do its work."""

    schema_: Literal["axtool.error/1"] = Field(alias="schema")
    status: Literal["failed", "error"]
    error: ErrorBody


SCHEMAS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "compile": Compile,
        "run": Run,
        "run.stream": RunStream,
        "info": Info,
        "profile": Profile,
        "profile.compare": ProfileCompare,
        "profile.sweep": ProfileSweep,
        "verify": Verify,
        "targets": Targets,
        "devices": Devices,
        "axzoo.list": ZooList,
        "axzoo.info": ZooInfo,
        "axzoo.check": ZooCheck,
        "axzoo.build": ZooBuild,
        "axzoo.show-config": ZooShowConfig,
        "axzoo.new": ZooNew,
        "axzoo.run": ZooRun,
        "axzoo.eval": ZooEval,
        "axzoo.benchmark": ZooBenchmark,
        "version": Version,
        "error": Error,
    }
)


def check_document(document: Mapping[str, Any]) -> None:
    """Raises pydantic's ValidationError, or KeyError for a schema that does not exist."""
    name = str(document["schema"]).removeprefix("axtool.").split("/")[0]
    SCHEMAS[name].model_validate(document)
