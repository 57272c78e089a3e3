"""Patterns that could never be found, or would be found wrongly, are refused; and what a user's code raises is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from axtool.custom import load_custom_ops
from axtool.errors import UsageError
from axtool.graph.passes.pattern import read_pattern
from axtool.ops import custom
from axtool.ops.custom import told, users_code

HEAD = "import sys\nfrom axtool.custom import CustomOp\nreference = lambda inputs, numbers: inputs[0]\n"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    custom.forget()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("(x) => (y) { y = Add (y, x) }", "Add reads 'y' before a node makes it"),
        ("(x) => (y) { a = Mul (b, x) b = Sin (a) y = Add (a, b) }", "Mul reads 'b' before"),
        ("(x) => (y) { y = Sin (a) a = Cos (x) }", "Sin reads 'a' before"),
        ("(x) => (y) { y = Sin (x) y = Cos (x) }", "'y' is made twice"),
        ("(x) => (y) { x = Sin (x) y = Cos (x) }", "'x' is made twice"),
        ("(x, x) => (y) { y = Add (x, x) }", "the input 'x' is there twice"),
        ("() => (y) { y = Constant <value = float {1.0}> () }", "no input"),
        ("(x) => (y) { s = Sin (x) y = Constant <value = float {1.0}> () }", "the output 'y' is a constant"),
        ("(x) => (y) { c = Constant () y = Add (x, c) }", "the Constant 'c' has no number"),
        ("(x) => (y) { c = Constant <value_string = \"two\"> () y = Add (x, c) }", "the Constant 'c' has no number"),
        ("(x) => (y) { y = Sin (x) z = Cos (x) }", "does not need 'z'"),
        ("(x) => (y) { y = Blorp (x) }", "no op 'Blorp'"),
        ("(x) => (y) { y = Sin <angle = 1> (x) }", "Sin has no attribute 'angle'"),
        ("(x) => (y) { y = Sin (x, x) }", "Sin has 2 inputs, want 1"),
        ("(x) => (y, z) { y = Sin (x) z = Cos (x) }", "one output, this one has 2"),
        ("(x) => (y) { y = Sin (x) } B (x) => (y) { y = Cos (x) }", "goes on behind the last brace: 'B"),
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_be_meant_is_refused_in_words(body: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        read_pattern(custom.CustomOp(f"A {body}", lambda inputs, numbers: inputs[0]))


@pytest.mark.parametrize(
    "body",
    [
        "(x) => (y) { s = com.vendor.Blorp <angle = 1> (x, x) y = Sin (s) }",
        "(x) => (y) { axes = Constant <value_ints = [0]> () y = Squeeze (x, axes) }  # a remark, in { braces }\n",
        "(x) => (y) { y = Squeeze <axes = [0]> (x) }",
        "(x) => (y) { y, mask = Dropout (x) }",
    ],
)
def test_ops_of_other_domains_older_opsets_and_remarks_are_sound(body: str) -> None:
    assert len(read_pattern(custom.CustomOp(f"A {body}", lambda inputs, numbers: inputs[0])).inputs) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sys.exit(0)", "SystemExit: 0"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "fails: E"),
        ("a = CustomOp(5, reference)", "pattern is a int, want text"),
        ("a = CustomOp('A (x) => (y) { y = Sin (x) }', None)", "reference is a NoneType, want a function"),
        ("a = CustomOp('A (x) => (y) { y = Sin (x) }', reference, reads='row')", "reads is 'row'"),
        ("a = CustomOp('A (x) => (y) { y = Sin (x) }', reference, native=())", "native is ()"),
        ("a = CustomOp('A (x) => (y) { y = Sin (x) }', reference, native='lib.so')", "native is 'lib.so'"),
        ("a = CustomOp('A (x) => (y) { y = Sin (x) }', reference, body=3)", "body is a int"),
    ],
)
def test_a_file_that_leaves_or_says_nonsense_is_an_error_of_the_user(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "ops.py"
    file.write_text(HEAD + line + "\n")
    with pytest.raises(UsageError) as caught:
        load_custom_ops(file)
    assert said in str(caught.value)


def test_ctrl_c_passes_through_a_users_code_and_everything_else_is_told() -> None:
    with pytest.raises(KeyboardInterrupt), users_code("it", "wait"):
        raise KeyboardInterrupt
    with pytest.raises(UsageError, match="it fails: SystemExit: 3"), users_code("it", "wait"):
        raise SystemExit(3)
    assert told(MemoryError()) == "MemoryError"
