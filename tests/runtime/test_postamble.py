"""`Postamble`: what it takes, and what it refuses with which words."""

from __future__ import annotations

import re

import numpy as np
import pytest

from axtool.runtime import Postamble, op
from tests.runtime.kernels_of_the_user import RawSoftmaxTail, SoftmaxTail

USER = "tests.runtime.kernels_of_the_user"


def test_an_empty_postamble_has_no_slot() -> None:
    assert Postamble().is_empty
    assert Postamble().slot is None


def test_both_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="one kernel: kernel='A' and fused_kernel='B' are both given"):
        Postamble(kernel="A", fused_kernel="B")


def test_parameters_without_a_kernel_are_refused() -> None:
    with pytest.raises(ValueError, match="parameters without a kernel: num_classes"):
        Postamble(num_classes=80)


def test_a_class_is_kept_as_its_import_path() -> None:
    assert Postamble(kernel=SoftmaxTail).kernel == f"{USER}:SoftmaxTail"
    assert Postamble(kernel=SoftmaxTail) == Postamble(kernel=f"{USER}:SoftmaxTail")


def test_a_class_inside_a_function_is_refused() -> None:
    local = type("Local", (op.Operator,), {"__qualname__": "outer.<locals>.Local", "__module__": USER})
    with pytest.raises(ValueError, match=r"Local is defined inside outer\(\), where an import cannot find it again"):
        Postamble(kernel=local)


def test_a_class_in_main_is_refused() -> None:
    main = type("Mine", (op.Operator,), {"__module__": "__main__"})
    with pytest.raises(ValueError, match="Mine is defined in __main__"):
        Postamble(kernel=main)


@pytest.mark.parametrize(
    ("value", "what"),
    [(np.float32(1), "a is a float32"), ([1, {2}], r"a\[1\] is a set"), ({"b": object()}, r"a\.b is a object")],
)
def test_a_parameter_that_is_no_plain_value_is_refused_by_its_place(value: object, what: str) -> None:
    with pytest.raises(TypeError, match=what):
        Postamble(kernel="m:C", a=value)


def test_numbers_strings_lists_and_dicts_are_plain_values() -> None:
    params = {"a": 1, "b": [1.5, (2, "x")], "c": {"d": None, "e": True}}
    assert Postamble(fused_kernel="m:C", **params).to_dict() == {"fused_kernel": "m:C", **params}


@pytest.mark.parametrize("name", ["", ":", "m:", ":C", "a:b:c"])
def test_a_name_that_is_neither_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="want the name of a built-in kernel, or 'module:ClassName'"):
        Postamble(kernel=name)


def test_the_wrong_slot_is_refused_by_the_name_of_the_right_one() -> None:
    with pytest.raises(ValueError, match=re.escape("SoftmaxTail must be declared as kernel=, not fused_kernel=.")):
        Postamble(fused_kernel=SoftmaxTail).kernel_class()
    with pytest.raises(ValueError, match=re.escape("RawSoftmaxTail must be declared as fused_kernel=, not kernel=.")):
        Postamble(kernel=RawSoftmaxTail).kernel_class()


def test_a_kernel_that_does_not_say_its_slot_is_not_checked() -> None:
    for slot in ("kernel", "fused_kernel"):
        assert Postamble(**{slot: f"{USER}:TwoTails"}).kernel_class().__name__ == "TwoTails"


def test_a_module_that_is_not_there_is_named_with_where_it_was_looked_for() -> None:
    with pytest.raises(
        ImportError, match="cannot import 'no_such_module': No module named 'no_such_module'; looked in"
    ):
        Postamble(kernel="no_such_module:Kernel").kernel_class()


def test_a_class_that_a_module_does_not_have_is_named_with_its_neighbours() -> None:
    with pytest.raises(ImportError, match=r"kernels_of_the_user\.py\) has no class 'SoftmaxTale'.*SoftmaxTail"):
        Postamble(kernel=f"{USER}:SoftmaxTale").kernel_class()


def test_what_is_no_operator_is_no_kernel() -> None:
    with pytest.raises(ValueError, match=r"is not a subclass of op\.Operator"):
        Postamble(kernel=f"{USER}:NoOperator").kernel_class()


def test_a_built_in_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no built-in kernel 'UltralyticsYoloPostmble'"):
        Postamble(fused_kernel="UltralyticsYoloPostmble").kernel_class()


def test_a_postamble_prints_as_it_is_written() -> None:
    shown = "Postamble(fused_kernel='UltralyticsYoloPostamble', num_classes=80)"
    assert repr(Postamble(fused_kernel="UltralyticsYoloPostamble", num_classes=80)) == shown
