"""Ops of the user's own: found by their pattern, lowered, run by both engines to the same bits, charged their cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from axtool.custom import load_custom_ops
from axtool.graph.passes import clean
from axtool.ops import custom

DOCS = Path(__file__).parents[2] / "docs" / "custom-ops.md"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    custom.forget()


def block(language: str) -> str:
    """The first code block of a language on the page."""
    found = re.search(rf"```{language}\n(.*?)```", DOCS.read_text(), re.S)
    assert found is not None
    return found[1]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page's my_ops.py."""
    path = tmp_path / "my_ops.py"
    path.write_text(block("python"))
    return path


SNAKE = """s1 = Mul (c, a) s2 = Sin (s1) s3 = Pow (s2, two) s4 = Div (s3, a) y = Add (s4, c)"""


def model(path: Path, body: str = SNAKE, a: float = 1.5) -> Path:
    """A convolution, what is to become a custom op, and another convolution."""
    text = f"""<ir_version: 8, opset_import: ["": 17]> net (float[1,3,20,36] x) => (float[1,5,20,36] z) {{
        c = Conv <pads = [1,1,1,1]> (x, w) {body} z = Conv (y, v) }}"""
    proto = onnx.parser.parse_model(text)
    rng = np.random.default_rng(7)
    for name, array in {
        "w": rng.normal(0, 0.4, (7, 3, 3, 3)),
        "v": rng.normal(0, 0.4, (5, 7, 1, 1)),
        "a": np.array([a]),
        "two": np.array(2.0),
    }.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, np.float32), name))
    onnx.save(proto, path)
    return path


def ops_of(path: Path) -> list[str]:
    return [node.op_type for node in clean(ir.load(path)).model.graph]


def test_the_pages_pattern_is_found_in_either_order_of_its_sum(page: Path, tmp_path: Path) -> None:
    load_custom_ops(page)
    assert ops_of(model(tmp_path / "m.onnx")) == ["Conv", "Snake", "Conv"]


@pytest.mark.parametrize(
    "body",
    [
        "s1 = Mul (c, a) s2 = Cos (s1) s3 = Pow (s2, two) s4 = Div (s3, a) y = Add (c, s4)",
        "s1 = Mul (c, a) s2 = Sin (s1) s3 = Pow (s2, a) s4 = Div (s3, a) y = Add (c, s4)",
        "s1 = Mul (c, a) s2 = Sin (s1) s3 = Pow (s2, two) s4 = Div (s3, two) y = Add (c, s4)",
        "s1 = Mul (c, a) s2 = Sin (s1) s3 = Pow (s2, two) s4 = Div (s3, a) s5 = Add (c, s4) y = Add (s5, s2)",
    ],
    ids=["another function", "another power", "two different constants", "an inner value read outside"],
)
def test_what_only_looks_like_the_pattern_stays(page: Path, tmp_path: Path, body: str) -> None:
    load_custom_ops(page)
    assert "Snake" not in ops_of(model(tmp_path / "m.onnx", body))


def test_onnxruntime_computes_the_same_before_and_after(page: Path, tmp_path: Path) -> None:
    import onnxruntime

    from axtool.graph.functions import attach

    load_custom_ops(page)
    path = model(tmp_path / "m.onnx")
    after = ir.to_proto(attach(clean(ir.load(path)).model)).SerializeToString()
    feed = {"x": np.random.default_rng(1).normal(size=(1, 3, 20, 36)).astype(np.float32)}
    made = [onnxruntime.InferenceSession(m).run(None, feed)[0] for m in (path.read_bytes(), after)]
    np.testing.assert_allclose(made[0], made[1], rtol=1e-5, atol=1e-6)
