"""`op.load`: which operators a compiled model is made of, and that they give what the model gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.runtime import Postamble, op
from axtool.runtime.model import load as load_model
from tests.conftest import Tiny

USER = "tests.runtime.kernels_of_the_user"
FRONT = ["NchwToNhwc", "Quant", "Pad", "AxRuntimeModel"]
BEHIND = ["Depad", "Dequant", "_AlignToModelOutput", "_ListUnpack"]


def kinds(pipeline: op.LoadedSeq) -> list[str]:
    return [type(operator).__name__ for operator in pipeline.operators]


def given(loaded: op.LoadedSeq, image: np.ndarray) -> tuple[np.ndarray, ...]:
    """What the kernel of a model, TwoTails, is called with."""
    return tuple(op.seq(*loaded.operators)(image))


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(3).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)


def test_the_default_tail_is_depad_dequantize_align_and_the_graph(tiny_models: Tiny) -> None:
    assert kinds(op.load(tiny_models / "two.axm")) == [*FRONT, *BEHIND, "OnnxModel"]


def test_a_fused_kernel_replaces_all_four(tiny_models: Tiny) -> None:
    loaded = op.load(tiny_models / "two.axm", using_postamble=Postamble(fused_kernel=f"{USER}:TwoTails"))
    assert kinds(loaded) == [*FRONT, "_ListUnpack", "TwoTails"]


def test_a_kernel_of_floats_replaces_the_graph_alone(tiny_models: Tiny) -> None:
    loaded = op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{USER}:TwoTails"))
    assert kinds(loaded) == [*FRONT, *BEHIND, "TwoTails"]


def test_an_empty_postamble_keeps_the_graph(tiny_models: Tiny) -> None:
    assert kinds(op.load(tiny_models / "two.axm", using_postamble=Postamble())) == [*FRONT, *BEHIND, "OnnxModel"]


def test_the_operators_give_the_bits_of_the_compiled_model(tiny_models: Tiny, image: np.ndarray) -> None:
    wanted = load_model(tiny_models / "two.axm").run({"image": image}).outputs
    for got, (name, array) in zip(op.load(tiny_models / "two.axm")(image), wanted.items(), strict=True):
        np.testing.assert_array_equal(got, array, err_msg=name)


def test_a_fused_kernel_reads_what_its_infos_describe(tiny_models: Tiny, image: np.ndarray) -> None:
    plain = op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{USER}:TwoTails"))
    fused = op.load(tiny_models / "two.axm", using_postamble=Postamble(fused_kernel=f"{USER}:TwoTails"))
    for info, raw, real in zip(fused.infos, given(fused, image), given(plain, image), strict=True):
        assert (raw.shape, raw.dtype) == (info.shape, info.dtype)
        inside = (raw[info.inside].astype(np.float32) - info.zero_point) * np.float32(info.scale)
        np.testing.assert_array_equal(np.moveaxis(inside, -1, 1).reshape(real.shape), real)


def test_a_kernel_of_floats_is_told_shapes_without_padding(tiny_models: Tiny, image: np.ndarray) -> None:
    loaded = op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{USER}:TwoTails"))
    for info, value in zip(loaded.infos, given(loaded, image), strict=True):
        assert (info.shape, info.dtype) == (value.shape, np.float32)
        assert not np.any(info.padding)


def test_a_kernel_that_would_make_other_shapes_is_refused_with_both(tiny_models: Tiny) -> None:
    with pytest.raises(ValueError, match=r"WrongShapes would make \[1, 2, 3\], but the model declares chances \["):
        op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{USER}:WrongShapes"))


def test_a_kernel_that_refuses_names_the_file_and_itself(tiny_models: Tiny) -> None:
    wanted = re.escape(f"{tiny_models / 'two.axm'}: Refusing: reads three outputs, this model has 1")
    with pytest.raises(ValueError, match=wanted):
        op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{USER}:Refusing"))


def test_a_parameter_that_a_kernel_does_not_take_is_refused_by_name(tiny_models: Tiny) -> None:
    with pytest.raises(TypeError, match=r"two\.axm: SoftmaxTail: .* unexpected keyword argument 'axes'"):
        op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{USER}:SoftmaxTail", axes=1))


def test_a_kernel_that_fails_while_running_names_model_outputs_and_kernel(tiny_models: Tiny, image: np.ndarray) -> None:
    loaded = op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{USER}:Broken"))
    with pytest.raises(
        RuntimeError, match=r"two\.axm: kernel Broken failed while making 'chances', 'map' of .*'anchors'"
    ):
        loaded(image)


def test_an_input_of_another_shape_is_refused_by_name(tiny_models: Tiny) -> None:
    with pytest.raises(ValueError, match="input 'image' wants 1x3x8x8, got 1x3x8x9"):
        op.load(tiny_models / "two.axm")(np.zeros((1, 3, 8, 9), np.float32))


def front(loaded: op.LoadedSeq, image: np.ndarray) -> np.ndarray:
    """The buffer that the device gets."""
    buffer: np.ndarray = op.Seq(*loaded.operators[:3])(image)
    return buffer


def test_a_buffer_that_is_held_is_not_filled_again(tiny_models: Tiny, image: np.ndarray) -> None:
    loaded = op.load(tiny_models / "two.axm")
    first = front(loaded, image)
    before = first.copy()
    second = front(loaded, -image)
    np.testing.assert_array_equal(first, before)
    assert not np.array_equal(first, second)


def test_a_buffer_that_nobody_holds_is_filled_again_with_the_same_padding(tiny_models: Tiny, image: np.ndarray) -> None:
    loaded = op.load(tiny_models / "two.axm")
    (lane,) = loaded.device.part.inputs
    first = front(loaded, image)
    address = first.ctypes.data
    del first
    again = front(loaded, -image)
    assert again.ctypes.data == address
    outside = np.ones(again.shape, bool)
    outside[lane.info.inside] = False
    assert outside.any()
    assert (again[outside] == lane.info.zero_point).all()


def test_a_view_of_a_buffer_holds_it_too(tiny_models: Tiny, image: np.ndarray) -> None:
    loaded = op.load(tiny_models / "two.axm")
    row = front(loaded, image)[0, 0]
    before = row.copy()
    front(loaded, -image)
    np.testing.assert_array_equal(row, before)


def test_floats_are_turned_as_a_view(tiny_models: Tiny, image: np.ndarray) -> None:
    assert np.shares_memory(op.load(tiny_models / "two.axm").operators[0](image), image)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "type",
            r"MapAndChances gave float64 \[1, 4, 8, 8\] for 'map', the model has chances float32 \[1, 4, 64\], map",
        ),
        ("shape", r"MapAndChances gave float32 \[4, 8, 8\] for 'map'"),
        ("one output", r"MapAndChances gave 1 values, the model has chances float32 \[1, 4, 64\], map"),
    ],
)
def test_a_kernel_that_gives_other_tensors_than_the_models_is_told_so(
    tiny_models: Tiny, image: np.ndarray, fault: str, said: str
) -> None:
    loaded = op.load(tiny_models / "two.axm", using_postamble=Postamble(kernel=f"{USER}:MapAndChances", fault=fault))
    with pytest.raises(ValueError, match=said):
        loaded(image)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda x: (x * 50).astype(np.uint8),
            r"input 'image' wants float32 .*, got uint8; op.to_tensor\(\) gives pixels",
        ),
        (lambda x: x.astype(bool), "got bool"),
        (lambda x: np.where(x > 1, np.nan, x), r"input 'image': \d+ NaN of 192 values"),
        (lambda x: np.where(x > 1, np.inf, x), r"input 'image': \d+ Inf of 192 values"),
        (lambda x: x[:, :2], r"input 'image' wants 1x3x8x8, got 1x2x8x8; prepare it as the model wants it"),
        (lambda x: object(), r"wants 1x3x8x8, got a scalar or an object that is no array"),
    ],
)
def test_what_a_float_model_cannot_take_is_refused_by_its_input(
    tiny_models: Tiny, image: np.ndarray, change: Callable[[np.ndarray], Any], said: str, optimize: bool
) -> None:
    loaded = op.load(tiny_models / "two.axm")
    with pytest.raises((ValueError, UsageError), match=said):
        (loaded.optimized() if optimize else loaded)(change(image))


def test_a_mask_of_minus_infinity_is_a_number(tiny_models: Tiny, image: np.ndarray) -> None:
    loaded = op.load(tiny_models / "two.axm")
    assert np.isfinite(loaded(np.where(image > 1, -np.inf, image))[0]).all()
