"""What is no parameter, no tensor and no buffer is refused by every kernel, by name, before anything is computed."""

from __future__ import annotations

import inspect
import math
import time
from functools import cache
from typing import Any

import numpy as np
import pytest

from axtool.runtime import TensorInfo, mega
from axtool.runtime.mega.params import shown
from benchmarks.tails import CASES, Case
from tests.runtime.tail_case import Tail, random_buffers

DEEP: list[Any] = []
for _ in range(900):
    DEEP = [DEEP]
# What no parameter of any kernel may be.
HOSTILE: dict[str, Any] = {
    "not a number": math.nan, "infinity": math.inf, "less than nothing": -1, "beyond every float": 10**400,
    "beyond every model": 10**9, "tiny": 1e-320, "text": "x", "empty text": "", "a list of nothing": [[]],
    "a list of None": [None] * 3, "a list of text": ["x"], "a mapping": {"a": 1},
    "numbers that are none": [math.nan] * 4, "a deep list": DEEP, "a long list": [1] * 100_000,
    "a long text": "a" * 100_000,
}  # fmt: skip
KERNELS = {case.kernel: case for case in reversed(CASES)}
PARAMETERS = [
    (kernel, name)
    for kernel in KERNELS
    for name, parameter in inspect.signature(getattr(mega, kernel)).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY and name != "name"
]


@cache
def infos_of(kernel: str) -> tuple[TensorInfo, ...]:
    return tuple(Tail(KERNELS[kernel].tail()).infos(np.random.default_rng(0)))


def build(kernel: str, infos: Any = None, size: Any = None, **params: Any) -> Any:
    case = KERNELS[kernel]
    size = (case.model_width, case.model_height) if size is None else size
    infos = list(infos_of(kernel)) if infos is None else infos
    return getattr(mega, kernel)(infos, *size, **{**case.params, **params})


def refused(kernel: str, **given: Any) -> str:
    """What a kernel says to it."""
    begun = time.process_time()
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the callers look at the message
        build(kernel, **given)
    assert time.process_time() - begun < 2
    assert len(str(error.value)) < 1000
    return str(error.value)


@pytest.mark.parametrize(("kernel", "name"), PARAMETERS)
def test_what_is_no_value_of_a_parameter_is_refused_by_its_name(kernel: str, name: str) -> None:
    word = "role" if name == "tensor_roles" else name.removesuffix("s")
    for what, value in HOSTILE.items():
        assert word in refused(kernel, **{name: value}), what


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scale": math.nan}, "scale is nan"),
        ({"scale": math.inf}, "scale is inf"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scale": -0.5}, "scale is -0.5"),
        ({"zero_point": 128}, "zero_point is 128"),
        ({"scale": np.array([0.1, 0.2])}, "has 2 scales: needs a per-tensor output quantization; drop the Postamble"),
        ({"scale": np.array([])}, "has 1 scales"),
        ({"dtype": np.int16}, "is int16, want int8"),
        ({"dtype": np.float32}, "is float32, want int8"),
        ({"shape": (1, 2, 3)}, "want a buffer (1, h, w, c)"),
        ({"shape": ()}, "want a buffer (1, h, w, c)"),
        ({"shape": (2, 4, 4, 8)}, "want a buffer (1, h, w, c)"),
        ({"shape": (1, 0, 4, 8)}, "0 bytes, want 1 to 1,073,741,824"),
        ({"shape": (1, 1 << 20, 1 << 20, 64)}, "70,368,744,177,664 bytes, want 1 to"),
    ],
)  # fmt: skip
def test_a_tensor_that_no_kernel_reads_is_refused_by_its_name(kernel: str, changed: Any, said: str) -> None:
    first, *others = infos_of(kernel)
    given = {"shape": first.shape, "dtype": first.dtype, "name": "cv2.0", "scale": 0.1, "zero_point": 3, **changed}
    message = refused(kernel, infos=[TensorInfo(**given), *others])
    assert said in message
    assert "output 0 'cv2.0'" in message


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("infos", [None, [], [(1, 2)], "abc", 3, {}], ids=str)
def test_what_is_no_list_of_tensors_is_refused(kernel: str, infos: Any) -> None:
    with pytest.raises(ValueError, match=r"output_infos is |the model gives no tensor|reads the one output"):
        getattr(mega, kernel)(infos, 64, 64, **KERNELS[kernel].params)


@pytest.mark.parametrize("kernel", KERNELS)
def test_more_tensors_than_any_head_has_are_refused(kernel: str) -> None:
    assert refused(kernel, infos=list(infos_of(kernel)) * 70)


SIZED = (
    "UltralyticsYoloPostamble",
    "AnchoredYoloPostamble",
    "SsdPostamble",
    "SegFormerPostamble",
    "UltraFacePostamble",
)


@pytest.mark.parametrize("kernel", [kernel for kernel in SIZED if kernel in KERNELS])
@pytest.mark.parametrize("size", [(0, 0), (-1, 64), (None, None), ("a", "b"), (math.nan, 64), (10**40, 64), (True, 64)])
def test_a_size_without_pixels_is_refused_where_coordinates_need_it(kernel: str, size: Any) -> None:
    assert "model_width is" in refused(kernel, size=size)


def not_the_buffer(buffer: np.ndarray) -> dict[str, Any]:
    return {
        "a list": buffer[0, 0].tolist(), "None": None, "bytes": buffer.tobytes(), "text": "abc", "a number": 3,
        "float32": buffer.astype(np.float32), "uint8": buffer.view(np.uint8), "objects": np.array(None),
        "one row less": buffer[:, :-1], "flat": buffer.ravel(), "one axis more": buffer[None], "nothing": buffer[:0],
    }  # fmt: skip


def laid_out_otherwise(buffer: np.ndarray) -> dict[str, np.ndarray]:
    every_other = np.zeros([2 * size for size in buffer.shape], np.int8)[tuple(slice(None, None, 2) for _ in range(4))]
    every_other[...] = buffer
    unwritable = buffer.copy()
    unwritable.flags.writeable = False
    return {
        "every other byte": every_other, "fortran": np.asfortranarray(buffer), "unwritable": unwritable,
        "backwards": np.ascontiguousarray(buffer[:, ::-1])[:, ::-1],
        "unaligned": np.frombuffer(b"x" + buffer.tobytes(), np.int8, offset=1).reshape(buffer.shape),
        "masked": np.ma.masked_array(buffer),
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_buffers_are_refused_or_read_in_any_layout(case: Case) -> None:
    rng, tail = np.random.default_rng(1), Tail(case.tail())
    infos = tail.infos(rng)
    buffers = random_buffers(infos, rng)
    kernel = getattr(mega, case.kernel)(infos, case.model_width, case.model_height, **case.params)
    wanted = [array.copy() for array in outputs(kernel(*buffers))]
    for what, value in not_the_buffer(buffers[0]).items():
        with pytest.raises(ValueError) as refusal:  # noqa: PT011
            kernel(value, *buffers[1:])
        assert "tensor 0 is " in str(refusal.value), what
    for what, value in laid_out_otherwise(buffers[0]).items():
        for got, array in zip(outputs(kernel(value, *buffers[1:])), wanted, strict=True):
            np.testing.assert_array_equal(got, array, err_msg=what)
    if len(buffers) > 1:
        with pytest.raises(ValueError, match=f"got {len(buffers) - 1} tensors, want {len(buffers)}"):
            kernel(*buffers[1:])


def outputs(made: Any) -> list[np.ndarray]:
    return list(made) if isinstance(made, tuple) else [made]


@pytest.mark.parametrize("value", [DEEP, [1] * 10**6, "a" * 10**6, {str(i): i for i in range(10**4)}, 10**400])
def test_a_value_in_a_message_is_short(value: Any) -> None:
    assert len(shown(value)) < 100
