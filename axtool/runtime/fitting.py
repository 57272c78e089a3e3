"""A compiled model  ->  the built-in kernels whose outputs have the shapes that it declares, and with which parameters.

Nothing is run: a kernel that fits by shape may still compute something else, which `axtool verify --postamble` tells.
Every parameter says where it was read, and what nothing in the file says (anchors) is named as missing, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from axtool.artefact.stages import Artefact, DeviceStage
from axtool.runtime.device import buffer_shape
from axtool.runtime.op.device_part import cut, info_of
from axtool.runtime.op.load import input_size
from axtool.runtime.postamble import Postamble
from axtool.runtime.tensor_info import TensorInfo
from axtool.types import TensorSpec

MOST = 4  # sets of parameters of one kernel that are shown
CHECK = "the shapes alone: check it"
MISSING = "missing: "
Params = dict[str, Any]


@dataclass(frozen=True)
class Fit:
    """A kernel that takes the model's buffers and would make its outputs. `origins` says where parameters are from."""

    postamble: Postamble
    origins: Mapping[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "kernel": self.postamble.kernel_name,
            "postamble": self.postamble.to_dict(),
            "python": repr(self.postamble),
            "origins": dict(self.origins),
            "missing": dict(self.missing),
        }


@dataclass(frozen=True)
class Facts:
    """What a file says of its tail."""

    infos: tuple[TensorInfo, ...]
    outputs: tuple[TensorSpec, ...]
    size: tuple[int, int]
    labels: int  # classes by name; 0 where the file does not say
    host_ops: frozenset[str]
    keypoint_dims: int = 0  # 0 where the file does not say

    @property
    def channels(self) -> list[int]:
        """The different counts of channels of the device's tensors."""
        return sorted({info.unpadded_shape[-1] for info in self.infos})

    def classes(self, counts: Sequence[int]) -> list[tuple[int, str]]:
        """Numbers of classes to try, and where each is from: the labels, or else the shapes."""
        if self.labels:
            return [(self.labels, "the labels of the file")]
        return [(count, CHECK) for count in counts if count > 0]


Candidate = tuple[Params, Mapping[str, str]]


def fits_of(artefact: Artefact) -> tuple[Fit, ...]:
    """The fits, at most `MOST` of each kernel; none for a model whose tail also reads tensors of the host."""
    facts = facts_of(artefact)
    return () if facts is None or not facts.infos else fits(facts)


def fits(facts: Facts) -> tuple[Fit, ...]:
    """The fits of what a file says."""
    from axtool.runtime import mega

    found: list[Fit] = []
    for name in mega.__all__:
        ops, candidates = TAILS.get(name, (frozenset(), _plain))
        if not ops <= facts.host_ops:
            continue
        of_kernel: list[Fit] = []
        for params, origins in candidates(facts):
            if len(of_kernel) < MOST and _makes(getattr(mega, name), facts, params):
                missing = {key: value for key, value in origins.items() if value.startswith(MISSING)}
                kept = {key: value for key, value in params.items() if key not in missing}
                told = {key: value for key, value in origins.items() if key not in missing}
                short = {key: value.removeprefix(MISSING) for key, value in missing.items()}
                of_kernel.append(Fit(Postamble(fused_kernel=name, **kept), told, short))
        found += of_kernel
    return tuple(found)


def facts_of(artefact: Artefact) -> Facts | None:
    """What is known; None without a device part, or where the tail reads what no fused kernel is given."""
    try:
        _, stages, after = cut(artefact)
        made = {
            name: info_of(stage.plan.program.tensors[name], buffer_shape(stage.plan, name))
            for stage in stages
            if isinstance(stage, DeviceStage)
            for name in stage.plan.program.outputs
        }
    except (ValueError, KeyError, ArithmeticError):  # a plan that could not run either
        return None
    here = [name for stage in stages for name in stage.outputs]
    behind = {name for stage in after for name in stage.outputs}
    read = [name for stage in after for name in stage.inputs] + [spec.name for spec in artefact.outputs]
    wanted = {name for name in read if name not in behind}
    leaving = [name for name in dict.fromkeys(here) if name in wanted]
    if wanted - set(leaving) or any(name not in made for name in leaving):
        return None
    labels = len(artefact.task.get("labels") or artefact.export.get("names") or ())
    host_ops = frozenset(str(row.get("op")) for row in artefact.support if row.get("kind") == "host")
    shape = artefact.export.get("kpt_shape") or (0, 0)
    infos = tuple(made[name] for name in leaving)
    return Facts(infos, artefact.outputs, input_size(artefact), labels, host_ops, int(shape[1]))


def _makes(kernel: Callable[..., Any], facts: Facts, params: Params) -> bool:
    """Whether a kernel takes the buffers and would make the declared outputs."""
    try:
        made = kernel(list(facts.infos), *facts.size, **params)
    except (ValueError, TypeError):
        return False
    return tuple(map(tuple, made.output_shapes)) == tuple(spec.shape for spec in facts.outputs)


def _plain(facts: Facts) -> Iterator[Candidate]:
    """A kernel of which nothing is known here: without parameters, and with a number of classes."""
    yield {}, {}
    for count, origin in facts.classes(facts.channels):
        yield {"num_classes": count}, {"num_classes": origin}


def _ultralytics(facts: Facts) -> Iterator[Candidate]:
    grids = [info.unpadded_shape[1:3] for info in facts.infos]
    three = all(grids.count(grid) == 3 for grid in grids)  # boxes, classes, and keypoints or angles or objectness
    for count, origin in facts.classes(facts.channels):
        base, told = {"num_classes": count}, {"num_classes": origin}
        for bins in sorted({c // 4 for c in facts.channels if c % 4 == 0 and c <= 256}, key=lambda b: b != 16):
            own = base if bins == 16 else {**base, "dfl_bins": bins}
            telling = told if bins == 16 else {**told, "dfl_bins": f"the {4 * bins} channels of a tensor"}
            if facts.keypoint_dims != 2 or not three:
                yield own, telling
            if three and facts.keypoint_dims != 3:
                origin_of_dims = "the exporter's kpt_shape" if facts.keypoint_dims else CHECK
                yield {**own, "keypoint_dims": 2}, {**telling, "keypoint_dims": origin_of_dims}
            yield {**own, "form": "yolov6"}, {**telling, "form": "the shape of the output"}
        if three:
            decoded = "Exp" in facts.host_ops
            form = {} if decoded else {"form": "yolox-raw"}
            says = {} if decoded else {"form": "no Exp in the tail"}
            yield {**base, "has_objectness": True, **form}, {**told, "has_objectness": "a tensor of 1 channel", **says}


def _anchored(facts: Facts) -> Iterator[Candidate]:
    counts = [spec.shape[-1] - 5 for spec in facts.outputs[:1] if spec.shape]
    decode = {"decode": "v2"} if "Exp" in facts.host_ops else {}
    classes = [*facts.classes(counts), *([(0, "the output, which has none")] if decode and counts == [0] else [])]
    for count, origin in classes:
        each = [info.unpadded_shape[-1] // (5 + count) for info in facts.infos]
        if not all(each):
            continue
        pairs = " + ".join(map(str, each))
        wanted = f"{MISSING}(w, h) pairs in pixels from the model's configuration, {pairs} of them, finest grid first"
        yield (
            {"num_classes": count, "anchors": [[[1.0, 1.0]] * number for number in each], **decode},
            {"num_classes": origin, "anchors": wanted, **dict.fromkeys(decode, "an Exp in the tail")},
        )


def _ssd(facts: Facts) -> Iterator[Candidate]:
    counts = [spec.shape[-1] for spec in facts.outputs[1:2] if spec.shape]
    grids = len({info.unpadded_shape[1:3] for info in facts.infos})
    for count, origin in facts.classes(counts):
        base, told = {"num_classes": count}, {"num_classes": origin}
        levels = {} if grids == 5 else {"max_level": 2 + grids}
        told_levels = {} if not levels else {"max_level": "the number of grids"}
        for head in (count, *sorted({c // a - 1 for c in facts.channels for a in (3, 6) if c % a == 0} - {count})):
            more = {} if head == count else {"head_classes": head}
            says = {} if head == count else {"head_classes": "the channels of the class tensors"}
            yield {**base, **more, **levels}, {**told, **says, **told_levels}
            rule = {"anchor_generator": "not seen in shapes: check it and its scales"}
            yield {**base, **more, "anchor_generator": "ssd"}, {**told, **says, **rule}


def _labels(facts: Facts) -> Iterator[Candidate]:
    heights = [spec.shape[-2] for spec in facts.outputs[:1] if len(spec.shape) > 2]
    factor = heights[0] // max(facts.infos[0].unpadded_shape[1], 1) if heights else 1
    for count, origin in facts.classes(facts.channels):
        for keepdims in (False, True):
            kept = {"keepdims": True} if keepdims else {}
            says = {"num_classes": origin, **({"keepdims": "the shape of the output"} if keepdims else {})}
            yield {"num_classes": count, **kept}, says
            yield {"num_classes": count, "factor": factor, **kept}, {**says, "factor": "the shape of the output"}


def _faces(facts: Facts) -> Iterator[Candidate]:
    decoded = "Exp" in facts.host_ops
    yield ({}, {}) if decoded else ({"decoded": False}, {"decoded": "no Exp in the tail"})


def _dense(facts: Facts) -> Iterator[Candidate]:
    """The families that the kernel's manual names."""
    blaze, media = [["score", 1], ["box", 16]], [["box", 16], ["score", 1]]
    yunet = [["cls", 1, "sigmoid"], ["obj", 1, "sigmoid"], ["bbox", 4], ["kps", 10]]
    told = {"outputs": "a family of the kernel's manual: check it"}
    yield {"outputs": blaze, "join": False}, told
    yield {"outputs": media}, told
    yield {"outputs": yunet, "join": False, "tensor_roles": ["cls", "bbox", "obj", "kps"] * 3}, told
    scrfd = [["score", 1, "sigmoid"], ["bbox", 4], ["kps", 10]]
    for outputs in (scrfd, scrfd[:2]):
        for batched in ({"batched": False}, {}):
            yield {"outputs": outputs, "join": False, **batched}, told


def _queries(facts: Facts) -> Iterator[Candidate]:
    """A softmax or a sigmoid of the classes is no op that boxes need as well."""
    for count, origin in facts.classes(facts.channels):
        softmax = {"scores": "softmax"} if "Softmax" in facts.host_ops else {}
        yield (
            {"num_classes": count, **softmax},
            {"num_classes": origin, **dict.fromkeys(softmax, "a Softmax in the tail")},
        )


def _mask(facts: Facts) -> Iterator[Candidate]:
    for count, origin in facts.classes(facts.channels):
        yield {"num_classes": count}, {"num_classes": origin}
        yield {"num_classes": count, "layout": "nhwc"}, {"num_classes": origin, "layout": "the shape of the output"}


# By kernel: the ops that its tail has at least, and the parameters to try.
TAILS: Mapping[str, tuple[frozenset[str], Callable[[Facts], Iterator[Candidate]]]] = {
    "UltralyticsYoloPostamble": (frozenset({"Concat"}), _ultralytics),
    "AnchoredYoloPostamble": (frozenset({"Concat"}), _anchored),
    "SsdPostamble": (frozenset({"Concat"}), _ssd),
    "ClassificationPostamble": (frozenset({"Softmax"}), _plain),
    "SegFormerPostamble": (frozenset({"ArgMax"}), _labels),
    "RetinaFacePostamble": (frozenset({"Softmax"}), _plain),
    "YolactPostamble": (frozenset({"Softmax", "Tanh"}), _plain),
    "UltraFacePostamble": (frozenset({"Softmax"}), _faces),
    "DbnetPostamble": (frozenset({"Sigmoid"}), _plain),
    "CenterFacePostamble": (frozenset({"Sigmoid"}), _plain),
    "DenseHeadPostamble": (frozenset(), _dense),
    "DetrPostamble": (frozenset({"Sigmoid"}), _queries),
    "SigmoidMaskPostamble": (frozenset({"Sigmoid"}), _mask),
}
