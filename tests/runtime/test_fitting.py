"""Which built-in kernels fit a model by shape: the right one of every family, what is told of its parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.artefact import axm
from axtool.runtime import mega
from axtool.runtime.fitting import TAILS, Facts, facts_of, fits, fits_of
from axtool.types import TensorSpec
from benchmarks.tails import CASES, Case
from benchmarks.tails.anchored import yolov2
from tests.conftest import Tiny
from tests.runtime.tail_case import Tail


def facts_of_case(case: Case, labels: int = 0) -> Facts:
    model = case.tail()
    tail = Tail(model)
    outputs = tuple(TensorSpec(out.name, tuple(out.shape), "float32") for out in tail.session.get_outputs())
    ops = frozenset(node.op_type for node in onnx.load_from_string(model).graph.node)
    infos = tuple(tail.infos(np.random.default_rng(0), padded=False))
    return Facts(infos, outputs, (case.model_width, case.model_height), labels, ops)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_kernel_of_every_family_is_found_with_its_parameters(case: Case) -> None:
    found = [fit for fit in fits(facts_of_case(case)) if fit.postamble.kernel_name == case.kernel]
    assert found, "no fit"
    wanted = {key: value for key, value in case.params.items() if key != "anchors"}
    assert wanted in [dict(fit.postamble.params) for fit in found]
    assert all(set(fit.origins) <= set(fit.postamble.params) for fit in found)


def test_the_number_of_labels_is_the_number_of_classes() -> None:
    case = CASES[0]
    (fit,) = fits(facts_of_case(case, labels=80))
    assert fit.origins == {"num_classes": "the labels of the file"}
    assert fits(facts_of_case(case, labels=79)) == ()


def test_without_labels_it_is_said_that_the_shapes_alone_say_it() -> None:
    assert fits(facts_of_case(CASES[0]))[0].origins == {"num_classes": "the shapes alone: check it"}


def test_anchors_are_never_guessed() -> None:
    case = next(case for case in CASES if case.kernel == "AnchoredYoloPostamble")
    (fit,) = [fit for fit in fits(facts_of_case(case)) if fit.postamble.kernel_name == case.kernel]
    assert dict(fit.postamble.params) == {"num_classes": 80}
    assert "3 + 3 + 3 of them" in fit.missing["anchors"]


def test_the_dimensions_of_keypoints_are_those_of_the_exporter() -> None:
    case = next(case for case in CASES if case.name == "yolo11n-pose-640")
    facts = facts_of_case(case, labels=1)
    (fit,) = fits(replace(facts, keypoint_dims=3))
    assert dict(fit.postamble.params) == {"num_classes": 1}


def test_a_kernel_without_the_op_that_it_stands_for_does_not_fit() -> None:
    facts = facts_of_case(next(case for case in CASES if case.kernel == "DbnetPostamble"))
    assert "DbnetPostamble" in [fit.postamble.kernel_name for fit in fits(facts)]
    assert "DbnetPostamble" not in [fit.postamble.kernel_name for fit in fits(replace(facts, host_ops=frozenset()))]


def test_every_kernel_says_what_its_tail_needs() -> None:
    assert set(TAILS) == set(mega.__all__)


def test_what_is_read_of_a_file_is_what_op_load_gives_its_kernel(tiny_models: Tiny) -> None:
    from axtool.runtime import Postamble, op

    facts = facts_of(axm.read(tiny_models / "two.axm"))
    assert facts is not None
    kernel = Postamble(fused_kernel="tests.runtime.kernels_of_the_user:TwoTails")
    loaded = op.load(tiny_models / "two.axm", using_postamble=kernel)
    assert [vars(info) for info in facts.infos] == [vars(info) for info in loaded.infos]
    assert {"Softmax", "Sigmoid"} <= facts.host_ops


def test_a_model_whose_outputs_the_device_makes_needs_no_kernel(tiny_models: Tiny, tmp_path: Path) -> None:
    assert fits_of(axm.read(tiny_models / "cls.axm")) == ()


@pytest.mark.parametrize("classes", [0, 3])
def test_exponential_sizes_are_told_from_squared_ones_by_the_tail(classes: int) -> None:
    pairs = [(10.0, 20.0), (30.0, 40.0)]
    case = Case("v2", lambda: yolov2(96, 96, classes, pairs), "AnchoredYoloPostamble", {}, 96, 96, 1)
    (fit,) = [fit for fit in fits(facts_of_case(case)) if fit.postamble.kernel_name == case.kernel]
    assert dict(fit.postamble.params) == {"num_classes": classes, "decode": "v2"}
