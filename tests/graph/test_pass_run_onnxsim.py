"""onnxsim is asked only where shape arithmetic is left over, and believed only if it kept every name."""

import numpy as np
import onnx_ir as ir
import pytest

from axtool.graph.passes import onnxsim_adapter as adapter
from axtool.graph.passes.onnxsim_adapter import leftover, run_onnxsim, simplify, unsound
from axtool.graph.passes.work import Work
from tests.graph.pass_models import build, hits, noise, ops, run

BODY = "r = Relu(x) s = Shape(r) m = Mul(s, one) y = Reshape(x, m)"


def model() -> ir.Model:
    return build(BODY, one=np.array([1]))


def test_onnxsim_folds_shape_arithmetic_and_keeps_the_names() -> None:
    work = Work(model())
    before = run(work.model, x=noise(1, 3, 8, 8))[0]
    assert run_onnxsim(work) >= 2
    assert "Shape" not in ops(work.model)
    assert [value.name for value in work.model.graph.outputs] == ["y"]
    np.testing.assert_array_equal(run(work.model, x=noise(1, 3, 8, 8))[0], before)


def test_nothing_is_left_over_after_our_own_folding() -> None:
    from axtool.graph.passes import clean

    assert "run-onnxsim" not in hits(clean(model()))


def test_sizes_that_depend_on_a_free_dimension_are_not_left_over() -> None:
    free = build(BODY, "float[N, 3] x", one=np.array([1]))
    assert not leftover(Work(free))


def test_it_is_not_called_where_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "simplify", lambda model: pytest.fail("called"))
    assert run_onnxsim(Work(build("y = Relu(x)"))) == 0


def test_above_two_gigabytes_it_is_skipped_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "TOO_LARGE_BYTES", 4)
    work = Work(model())
    assert run_onnxsim(work) == 0
    assert "skipped" in work.notes[0]


def test_a_crash_of_it_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "SCRIPT", "import os; os.abort()")
    work = Work(model())
    assert run_onnxsim(work) == 0
    assert "not used" in work.notes[0]


def test_a_hang_of_it_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "SCRIPT", "import time; time.sleep(60)")
    monkeypatch.setattr(adapter, "TIMEOUT_S", 0.2)
    assert simplify(model())[0] is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("y = Relu(x)", "dropped input 'z'"),
        ("y = Mul(x, z) q = Relu(y)", "changed the outputs"),
        ("w = Mul(x, z) y = Relu(w)", "a tensor 'w'"),
        ("y = Mul(z, x)", ""),
    ],
)
def test_a_result_that_lost_a_name_is_not_used(body: str, said: str) -> None:
    before = build("y = Mul(x, z)", "float[4] x, float[4] z")
    inputs = "float[4] x, float[4] z" if "z" in body else "float[4] x"
    after = build(body, inputs, "float y, float q" if "q" in body else "float y")
    assert said in unsound(before, after)
    assert bool(said) == bool(unsound(before, after))


def test_a_result_that_lost_a_default_is_not_used() -> None:
    before = build("y = Mul(x, z)", "float[4] x, float[4] z")
    gain = before.graph.inputs[1]
    gain.const_value = ir.tensor(np.ones(4, np.float32), name="z")
    before.graph.register_initializer(gain)
    assert "default of input 'z'" in unsound(before, build("y = Mul(x, z)", "float[4] x, float[4] z"))
