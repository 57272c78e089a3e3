"""When a comparison fails, and what an agreement counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.graph.parts import Part
from axtool.verify.agreement import Agreement
from axtool.verify.check import Verdict
from axtool.verify.expected import compare, measured
from axtool.verify.judge import FLOOR_DB, Limits, judge
from axtool.verify.metrics import Comparison
from axtool.zoo.schema import Expected


def noisy(db: float, parts: tuple[Part, ...] = ()) -> Comparison:
    """An output with this SQNR."""
    rng = np.random.default_rng(0)
    ref, noise = rng.normal(size=(2, 1, 4, 8, 8))
    noise *= np.sqrt((ref**2).sum() / (noise**2).sum()) * 10 ** (-db / 20)
    comparison = Comparison("y", parts)
    comparison.add(ref, ref + noise)
    return comparison


@pytest.mark.parametrize("stage", ["all", "reference", "quant", "float"])
def test_each_stage_has_its_floor(stage: str) -> None:
    floor = FLOOR_DB[stage]
    assert judge(stage, [noisy(floor + 1)], None, Limits()).failures == ()
    (reason,) = judge(stage, [noisy(floor - 1)], None, Limits()).failures
    assert f"want at least {floor:g} dB" in reason


def test_the_engines_must_agree_bit_for_bit() -> None:
    (reason,) = judge("native", [noisy(200)], None, Limits()).failures
    assert "want equal bits" in reason


def test_a_given_limit_replaces_the_floor() -> None:
    assert judge("all", [noisy(8)], None, Limits(min_sqnr_db=5)).failures == ()
    assert len(judge("all", [noisy(30)], None, Limits(min_sqnr_db=40)).failures) == 1


def test_a_part_without_its_signal_fails_where_the_whole_passes() -> None:
    rng = np.random.default_rng(0)
    ref = np.concatenate([rng.uniform(0, 640, (1, 4, 20)), rng.uniform(0, 1, (1, 2, 20))], 1)
    got = ref.copy()
    got[:, 4:] = 0.5 - ref[:, 4:]
    comparison = Comparison("y", (Part("boxes", 1, 0, 4), Part("scores", 1, 4, 6)))
    comparison.add(ref, got)
    (reason,) = judge("all", [comparison], None, Limits()).failures
    assert "'scores' gives, [4:6] of axis 1" in reason


def found(*boxes: tuple[int, float]) -> dict[str, Any]:
    """Objects (class, left edge), each 10 pixels wide."""
    rows = [{"index": c, "label": str(c), "score": 0.9, "box": [x, 0.0, x + 10, 10.0]} for c, x in boxes]
    return {"kind": "detection", "threshold": 0.3, "detections": rows}


def test_objects_are_found_again_by_class_and_overlap() -> None:
    agreement = Agreement()
    agreement.add(found((0, 0), (0, 50), (1, 0)), found((0, 1), (1, 40), (2, 0)))
    assert (agreement.objects, agreement.found, agreement.invented) == (3, 1, 2)


def test_an_object_is_found_once() -> None:
    agreement = Agreement()
    agreement.add(found((0, 0)), found((0, 0), (0, 1)))
    assert (agreement.found, agreement.invented) == (1, 1)


def test_nothing_to_find_is_all_found() -> None:
    agreement = Agreement()
    agreement.add(found(), found())
    assert agreement.found_share == 1


def test_classes_agree_by_the_best_one() -> None:
    agreement = Agreement()
    for best in (3, 4):
        agreement.add(
            {"kind": "classification", "classes": [{"index": 3}]},
            {"kind": "classification", "classes": [{"index": best}]},
        )
    assert agreement.to_dict() == {"top1_agreement": 0.5, "samples": 2}


def test_an_expected_figure_that_was_not_measured_is_not_met() -> None:
    verdict = Verdict("all", 1, (noisy(30),))
    wanted = [Expected(metric="found_share", minimum=0.1), Expected(metric="sqnr_db", minimum=20)]
    rows = compare(wanted, measured(verdict))
    assert [(row["metric"], row["met"]) for row in rows] == [("found_share", False), ("sqnr_db", True)]
    assert measured(verdict)["sqnr_db"] == pytest.approx(30)


def agreed(kind: str, share: float, count: int) -> Agreement:
    if kind == "classification":
        return Agreement(samples=count, classified=count, same_class=round(share * count))
    return Agreement(samples=1, objects=count, found=round(share * count))


@pytest.mark.parametrize(("kind", "word"), [("classification", "top-1"), ("detection", "found")])
def test_a_known_task_decides_and_a_low_sqnr_is_a_note(kind: str, word: str) -> None:
    good = judge("all", [noisy(5)], agreed(kind, 0.95, 40), Limits())
    assert good.failures == ()
    assert "SQNR 5.00 dB" in good.notes[0]
    assert word in good.checks[0]
    assert not any("SQNR" in check for check in good.checks)
    (reason,) = judge("all", [noisy(30)], agreed(kind, 0.8, 40), Limits()).failures
    assert "0.8000" in reason


def test_a_given_sqnr_limit_fails_beside_a_good_task() -> None:
    assert judge("all", [noisy(5)], agreed("detection", 1, 40), Limits(min_sqnr_db=10)).failures


def test_few_objects_leave_the_decision_to_the_sqnr() -> None:
    few = judge("all", [noisy(5)], agreed("detection", 0.5, 4), Limits())
    assert len(few.failures) == 1
    assert "too few" in few.notes[0]
    assert judge("all", [noisy(30)], agreed("detection", 0.5, 4), Limits()).failures == ()


def classes(agree: int) -> Comparison:
    """Ten samples of a (1, 4) output, of which `agree` have the same best class."""
    comparison = Comparison("scores")
    for sample in range(10):
        ref = np.array([[9.0, 8.9, 0.0, 1.0]])
        comparison.add(ref, ref if sample < agree else ref[:, [1, 0, 2, 3]])
    return comparison


def test_an_output_that_looks_like_classes_needs_top_1_besides_the_sqnr() -> None:
    assert judge("all", [classes(9)], None, Limits()).failures == ()
    judged = judge("all", [classes(8)], None, Limits())
    assert "top-1 agreement 0.8000" in judged.failures[0]
    assert [check.split()[0] for check in judged.checks[:2]] == ["top-1", "SQNR"]
    assert judge("all", [classes(8)], None, Limits(min_top1=0.5)).failures == ()


def test_an_engine_fault_is_never_a_note() -> None:
    assert judge("native", [noisy(200)], agreed("detection", 1, 40), Limits()).failures
