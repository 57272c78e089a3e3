"""The benchmark of transformers: its pictures, its networks' outputs, and MiniLM's sentences."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from axtool.errors import EnvironmentFault
from benchmarks.minilm import TOKENS, MiniLM, feeds_of, sentences
from benchmarks.transformers import SUBJECTS, labelled, pictures
from benchmarks.validation import transformers as validation
from benchmarks.validation.rows import Rule


def test_pictures_are_the_same_for_the_same_seed() -> None:
    first, again, other = (pictures((1, 3, 24, 32), 2, seed) for seed in (1, 1, 2))
    assert first.shape == (2, 3, 24, 32)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert -2.1 <= first.min() < first.max() <= 2.6


def test_labels_are_those_of_the_enlarged_scores() -> None:
    graph = "(float[1,3,4,6] images) => (float[1,3,4,6] y) { y = Neg(images) }"
    model = labelled(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {graph}'))
    (output,) = model.graph.output
    assert (output.name, [dim.dim_value for dim in output.type.tensor_type.shape.dim]) == ("labels", [1, 16, 24])


def test_every_network_has_a_chip_a_recipe_and_a_limit() -> None:
    assert {name: (one.target, one.most_s) for name, one in SUBJECTS.items()} == {
        "detr-r101": ("qc-u-1d5-8mb", 1.2), "segformer-b0": ("qc-u-1d7-16mb", 0.15),
    }  # fmt: skip


def test_there_are_100_sentences_and_others_to_calibrate_with() -> None:
    test, calibration = sentences("test"), sentences("calibration")
    assert (len(test), len(set(test)), len(calibration)) == (100, 100, 32)
    assert not set(test) & set(calibration)


def test_words_are_cut_into_the_longest_known_pieces() -> None:
    pieces = {"[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "un": 4, "##like": 5, "##ly": 6, ".": 7, "cafe": 8, "##likely": 9}
    (feeds,) = feeds_of(MiniLM({}, pieces), ["Unlikely café. Xylophone"])
    ids, mask = feeds["input_ids"][0], feeds["attention_mask"][0]
    assert ids[:7].tolist() == [1, 4, 9, 8, 7, 3, 2]
    assert (ids.shape, mask.sum(), ids[7:].any()) == ((TOKENS,), 7, False)


def test_a_rule_whose_weights_cannot_be_had_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    def without_network() -> Rule:
        raise EnvironmentFault("cannot fetch the package")

    rule = Rule("a set", "a figure", 0.99, 0.98, "at least")
    assert validation.at_hand(lambda: rule) == [rule]
    assert validation.at_hand(without_network) == []
    assert "left out: cannot fetch the package" in capsys.readouterr().err
