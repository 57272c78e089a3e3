"""Sequences, branches and what moves values between them."""

from __future__ import annotations

import pytest

from axtool.runtime import op


class AddN(op.Operator):
    n: int

    def __call__(self, x: int) -> int:
        return x + self.n


def test_a_sequence_passes_each_result_to_the_next_operator() -> None:
    assert op.seq(AddN(1), AddN(2))(10) == 13


def test_a_sequence_without_a_name_is_spread_out_inside_another() -> None:
    assert [step.n for step in op.seq(op.seq(AddN(1), AddN(2)), AddN(3)).operators] == [1, 2, 3]


def test_a_named_sequence_stays_one_step() -> None:
    assert len(op.seq(op.seq(AddN(1), AddN(2), name="inner"), AddN(3)).operators) == 2


def test_unnamed_branches_become_separate_arguments() -> None:
    assert op.seq(op.par(AddN(1), AddN(2)), lambda a, b: (a, b))(0) == (1, 2)


def test_named_branches_become_a_named_tuple() -> None:
    result = op.par(AddN(1, name="one"), AddN(2, name="two"))(0)
    assert (result.one, result.two) == (1, 2)


def test_two_branches_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="the same name: one, one"):
        op.par(AddN(1, name="one"), AddN(2, name="one"))


def test_a_plain_tuple_stays_one_argument_until_it_is_unpacked() -> None:
    assert op.seq(lambda x: (x, x), lambda pair: len(pair))(5) == 2
    assert op.seq(lambda x: (x, x + 1), op.unpack(), lambda a, b: a * b)(5) == 30


def test_pack_makes_one_tuple_of_separate_arguments() -> None:
    assert op.seq(op.par(AddN(1), AddN(2)), op.pack(), len)(0) == 2


def test_itemgetter_takes_from_a_tuple_or_from_separate_arguments() -> None:
    assert op.itemgetter(1)((3, 4)) == op.itemgetter(1)(3, 4) == 4
    assert op.itemgetter(slice(0, 2))([1, 2, 3]) == [1, 2]


def test_unpack_leaves_separate_arguments_and_single_values_as_they_are() -> None:
    assert op.seq(op.par(AddN(1), AddN(2)), op.unpack(), lambda a, b: a * b)(1) == 6
    assert op.seq(op.unpack(), AddN(1))(1) == 2


def test_a_class_in_place_of_an_operator_is_refused_with_the_way_to_make_one() -> None:
    with pytest.raises(TypeError, match=r"got the class AddN; make one: AddN\(\)"):
        op.seq(AddN)


def test_a_pipeline_prints_one_operator_a_line_with_its_fields() -> None:
    assert repr(op.seq(AddN(1), op.par(AddN(2), AddN(3)))) == (
        "Seq(\n  AddN(n=1),\n  Par(\n    AddN(n=2),\n    AddN(n=3),\n  ),\n)"
    )


def test_a_copy_shares_no_step_with_its_original() -> None:
    first = op.seq(AddN(1))
    second = first.copy()
    second.operators[0].n = 5
    assert first(0) == 1


def test_what_is_inside_branches_and_lists_is_copied_too() -> None:
    first = op.seq(op.par(AddN(1), AddN(2)), lambda a, b: [a, b], op.for_each(AddN(1)))
    second = first.copy()
    second.operators[0].branches[0].n = second.operators[2].body.operators[0].n = 7
    assert first(0).output == [2, 3]


def test_branches_and_lists_are_optimized_inside() -> None:
    plain = op.seq(op.par(op.seq(op.letterbox(8, 8), op.to_tensor(), name="kept"), name="both"), op.for_each(
        op.letterbox(8, 8), op.to_tensor()
    ))  # fmt: skip
    fast = plain.optimized()
    assert len(fast.operators[0].branches[0].operators) == 1
    assert len(fast.operators[1].body.operators) == 1
    assert len(plain.operators[1].body.operators) == 2


def test_a_name_that_an_operator_has_is_refused_to_another_class() -> None:
    with pytest.raises(TypeError, match="operator 'seq' exists already"):
        type("Seq", (op.Operator,), {"__module__": "mine"})


def test_an_operator_of_the_user_is_found_by_its_snake_case_name() -> None:
    assert op.add_n is AddN


class Stamp(op.Operator):
    """Its fields have names that sequences use for other things."""

    parts: int
    copy: bool = True
    optimized: str = "no"

    def __call__(self, x: int) -> int:
        return x * self.parts


def test_fields_may_have_the_names_of_what_sequences_do() -> None:
    pipeline = op.seq(Stamp(3)).optimized().copy()
    assert pipeline(2) == 6
    assert [result for _, result in pipeline.stream([1, 2])] == [3, 6]
