"""How ONNX tensors are stored, and which layouts a stage gets."""

from __future__ import annotations

from axtool.plan.layout import (
    axes_of,
    cheapest_reshape,
    infer_layouts,
    keeps_order,
    moves_nothing,
    permutation,
    stored_shape,
)
from tests.plan.lower_case import Case

FIRST, LAST = "channel_first", "channel_last"


def layouts(graph: str, **weights: object) -> dict[str, str]:
    case = Case(graph, **weights)
    return dict(infer_layouts(case.sites, case.inputs))


def test_an_image_is_stored_with_channels_last() -> None:
    assert stored_shape((1, 3, 5, 7), FIRST) == (1, 5, 7, 3)


def test_a_sequence_is_one_row() -> None:
    assert stored_shape((1, 3, 5), FIRST) == (1, 1, 5, 3)
    assert stored_shape((1, 3, 5), LAST) == (1, 1, 3, 5)


def test_a_vector_is_one_pixel_in_either_layout() -> None:
    assert stored_shape((1, 9), FIRST) == stored_shape((1, 9), LAST) == stored_shape((9,), LAST) == (1, 1, 1, 9)


def test_the_transpose_between_layouts_goes_by_axis() -> None:
    assert permutation(axes_of(4, FIRST), axes_of(4, LAST)) == (2, 0, 1)


def test_a_transpose_of_axes_of_one_moves_nothing() -> None:
    assert moves_nothing((1, 1, 1, 9), (1, 0, 2))
    assert not moves_nothing((1, 1, 9, 1), (0, 2, 1))
    assert not moves_nothing((1, 2, 3, 4), (1, 0, 2))


def test_merging_space_keeps_the_stored_order() -> None:
    assert keeps_order((1, 3, 4, 5), FIRST, (1, 3, 20), FIRST)
    assert not keeps_order((1, 3, 4, 5), FIRST, (1, 60), LAST)


def test_a_reshape_that_splits_channels_goes_through_onnx_order() -> None:
    assert cheapest_reshape((1, 12, 5, 6), FIRST, (1, 4, 3, 30), FIRST) == (LAST, LAST)


def test_an_input_that_is_only_transposed_is_stored_as_its_reader_wants_it() -> None:
    graph = "(float[1,5,6,4] x) => (float[1,7,5,6] y) { t = Transpose<perm=[0,3,1,2]>(x) a = Relu(t) y = Conv(a, w) }"
    assert layouts(graph, w=(7, 4, 1, 1)) == {"x": LAST, "t": FIRST, "a": FIRST, "y": FIRST}


def test_tokens_for_a_matmul_have_channels_last() -> None:
    graph = "(float[1,5,4] x) => (float[1,5,7] y) { a = Relu(x) y = MatMul(a, w) }"
    assert layouts(graph, w=(4, 7)) == {"x": LAST, "a": LAST, "y": LAST}


def test_a_sequence_for_a_conv_has_channels_first() -> None:
    graph = "(float[1,4,9] x) => (float[1,7,9] y) { a = Relu(x) y = Conv(a, w) }"
    assert layouts(graph, w=(7, 4, 1)) == {"x": FIRST, "a": FIRST, "y": FIRST}
