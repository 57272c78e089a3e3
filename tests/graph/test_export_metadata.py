"""What the exporter wrote into a model, as `export_of` reads it."""

from __future__ import annotations

import onnx
import pytest

from axtool.graph.export_metadata import export_of


def model(**texts: str) -> onnx.ModelProto:
    made = onnx.ModelProto()
    for key, value in texts.items():
        made.metadata_props.add(key=key, value=value)
    return made


def test_the_keys_of_ultralytics_are_read_as_values() -> None:
    export, note = export_of(
        model(task="pose", names="{0: 'person', 1: 'dog'}", stride="32", imgsz="[480, 640]", kpt_shape="[17, 3]",
              license="AGPL-3.0", author="somebody", batch="1")
    )  # fmt: skip
    assert export == {
        "task": "pose", "names": ["person", "dog"], "stride": 32, "imgsz": [480, 640], "kpt_shape": [17, 3],
        "license": "AGPL-3.0",
    }  # fmt: skip
    assert note == ""


def test_names_are_in_the_order_of_their_numbers() -> None:
    assert export_of(model(task="detect", names="{1: 'b', 0: 'a'}"))[0]["names"] == ["a", "b"]


def test_names_may_be_a_list_and_a_size_one_number() -> None:
    export, _ = export_of(model(task="detect", names="['a', 'b']", imgsz="640"))
    assert (export["names"], export["imgsz"]) == (["a", "b"], [640, 640])


@pytest.mark.parametrize("texts", [{}, {"names": "{0: 'a'}"}, {"task": "sing", "names": "{0: 'a'}"}])
def test_a_model_without_a_known_task_has_none(texts: dict[str, str]) -> None:
    assert export_of(model(**texts)) == ({}, "")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("names", "{0: 'a', 2: 'c'}"),
        ("names", "{0: 'a', 1: 2}"),
        ("names", "__import__('os').abort()"),
        ("names", "{0: 'a'"),
        ("names", "(" * 5000),
        ("names", "'" + "a" * (1 << 20) + "'"),
        ("names", "{0: '" + "a" * 5000 + "'}"),
        ("stride", "-1"),
        ("stride", "1e400"),
        ("stride", "'32'"),
        ("imgsz", "[1, 2, 3]"),
        ("imgsz", "[True, 2.5]"),
        ("kpt_shape", "17"),
        ("kpt_shape", "[99999999999999999999, 3]"),
    ],
)
def test_what_does_not_read_is_left_out_and_named(key: str, text: str) -> None:
    export, note = export_of(model(task="detect", **{key: text}))
    assert export == {"task": "detect"}
    assert note == f"of the exporter's metadata {key} does not read and is left out"


def test_a_licence_too_long_to_keep_leaves_everything_out_and_says_so() -> None:
    export, note = export_of(model(task="detect", license="x" * 5000))
    assert export == {}
    assert "metadata does not read" in note
