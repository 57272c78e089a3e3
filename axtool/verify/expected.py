"""Figures of a comparison, or of labelled pictures, against those that a zoo config expects  ->  what falls short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from axtool.verify.check import Verdict


class ExpectedLike(Protocol):
    """What is needed of `axtool.zoo.schema.Expected`."""

    @property
    def metric(self) -> str: ...
    @property
    def minimum(self) -> float: ...


def measured(verdict: Verdict) -> dict[str, float]:
    """The figures by the name of their metric. `sqnr_db` is of the worst output."""
    figures = {"sqnr_db": min((c.sqnr_db for c in verdict.outputs), default=float("inf"))}
    totals = [(c.top1_agree, c.top1_total) for c in verdict.outputs if c.top1_total]
    if totals:
        figures["top1_agreement"] = min(agree / total for agree, total in totals)
    if verdict.agreement is not None:
        figures["top1_agreement" if verdict.agreement.classified else "found_share"] = verdict.agreement.found_share
    labels = verdict.metrics.labels
    if labels is not None:
        figures |= {"pixel_agreement": labels.pixel, "mean_iou": labels.miou or 0.0}
    return figures


def compare(expected: Sequence[ExpectedLike], figures: Mapping[str, float]) -> list[dict[str, Any]]:
    """One row a metric: what is wanted, what was measured, whether it is met."""
    return [
        {
            "metric": item.metric,
            "minimum": item.minimum,
            "measured": figures.get(item.metric),
            "met": item.metric in figures and figures[item.metric] >= item.minimum,
        }
        for item in expected
    ]
