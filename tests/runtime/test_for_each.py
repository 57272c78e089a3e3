"""`for_each`: what it names, what it keeps beside the results, and what it writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from axtool.runtime import op


def double(x: int) -> int:
    return 2 * x


def test_the_elements_stay_beside_what_became_of_them() -> None:
    each = op.for_each(double, double)([1, 2])
    assert each.input == [1, 2]
    assert each.output == [4, 8]


@pytest.mark.parametrize(
    "each", [op.for_each("ages", double, iter="persons"), op.for_each(double, iter="persons", name="ages")]
)
def test_both_fields_take_the_names_that_are_given(each: op.ForEach) -> None:
    result = each([3])
    assert result._fields == ("persons", "ages")
    assert (result.persons, result.ages) == ([3], [6])


def test_an_empty_list_gives_empty_lists() -> None:
    assert op.for_each(double)([]) == ([], [])


def test_what_is_no_list_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match="for_each wants a list, got int"):
        op.for_each(double)(3)


def test_rows_of_an_array_are_elements() -> None:
    assert op.for_each(np.sum)(np.arange(6).reshape(2, 3)).output == [3, 12]


def test_an_output_with_two_names_is_refused() -> None:
    with pytest.raises(ValueError, match="named twice, 'a' and 'b'"):
        op.for_each("a", double, name="b")


@pytest.mark.parametrize(("iter", "name"), [("class", "a"), ("a", "a"), ("2nd", "a")])
def test_names_that_a_named_tuple_cannot_have_are_refused(iter: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf"for_each\(iter='{iter}', name='a'\): "):
        op.for_each(double, iter=iter, name=name)


def test_a_string_between_operators_is_refused() -> None:
    with pytest.raises(TypeError, match="one string, the name of the output, in front"):
        op.for_each(double, "late")


def test_an_error_says_at_which_element() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        op.for_each(lambda x: 1 / x)([1, 2, 0])
    assert caught.value.__notes__ == ["for_each: element 2 of 3"]


def test_results_are_written_where_save_says_and_counted_by_call(tmp_path: Path) -> None:
    each = op.for_each(lambda x: np.array([x]), save=tmp_path / "made")
    each([5, 6])
    each([7])
    names = ["000000-000.npy", "000000-001.npy", "000001-000.npy"]
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == names
    assert [np.load(tmp_path / "made" / name).tolist() for name in names] == [[5], [6], [7]]


def test_names_come_back_from_a_saved_pipeline(tmp_path: Path) -> None:
    op.seq(op.for_each("best", op.top_k(1), iter="scores")).save_axe(tmp_path / "x.axe")
    assert op.load(tmp_path / "x.axe")([np.arange(3)])._fields == ("scores", "best")


def test_a_folder_to_write_to_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="save= cannot be saved: its folder is of this machine only"):
        op.seq(op.for_each(op.top_k(1), save=tmp_path)).save_axe(tmp_path / "x.axe")
