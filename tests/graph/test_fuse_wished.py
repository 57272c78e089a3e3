"""Projections are fused where a recipe wants them in fp16, and what is wanted of nodes stays with them."""

import pytest

from axtool.graph.fuse_wished import fuse_wished
from axtool.graph.passes import Cleaned, clean
from axtool.graph.passes.checking import Checker
from axtool.graph.sites import sites_of
from axtool.graph.split import Wishes
from axtool.ops.limits import Reason
from axtool.types import Precision
from tests.graph.pass_models import ops
from tests.graph.transformer_models import bert

TAKES = ("Attention", "LayerNormalization")


def wanted(cleaned: Cleaned, kind: Precision = "fp16", op: str = "MatMul") -> Wishes:
    """A wish for every node of an op."""
    sites = sites_of(cleaned.model)
    return Wishes(precision={at: kind for at, site in enumerate(sites) if site.op == op})


def test_products_in_fp16_are_fused() -> None:
    cleaned = clean(bert(), takes=TAKES)
    products = ops(cleaned.model).count("MatMul")
    fused, _ = fuse_wished(cleaned, wanted(cleaned), Checker())
    assert ops(fused.model).count("MatMul") == products - 4  # two blocks: one product each in the place of three
    assert (fused.log[-1].name, fused.log[-1].count) == ("fuse-projections", 2)


@pytest.mark.parametrize("kind", ["int16", "fx32"])
def test_products_in_another_format_are_not(kind: Precision) -> None:
    cleaned = clean(bert(), takes=TAKES)
    before = ops(cleaned.model)
    wishes = wanted(cleaned, kind)
    fused, same = fuse_wished(cleaned, wishes)
    assert ops(fused.model) == before
    assert same is wishes


def test_a_group_with_one_product_in_int8_stays_apart() -> None:
    cleaned = clean(bert(), takes=TAKES)
    wishes = wanted(cleaned)
    first = min(wishes.precision)
    some = Wishes(precision={at: kind for at, kind in wishes.precision.items() if at != first})
    fused, _ = fuse_wished(cleaned, some)
    assert fused.log[-1].count == 1


def test_wishes_stay_with_their_nodes() -> None:
    cleaned = clean(bert(), takes=TAKES)
    sites = sites_of(cleaned.model)
    norms = [at for at, site in enumerate(sites) if site.op == "LayerNormalization"]
    names = [sites[at].outputs[0] for at in norms]
    wishes = Wishes({norms[-1]: Reason("It stays.", "")}, frozenset(norms[:1]), dict(wanted(cleaned).precision))
    fused, moved = fuse_wished(cleaned, wishes)
    after = sites_of(fused.model)
    assert [after[at].outputs[0] for at in moved.host] == names[-1:]
    assert names[0] in {after[at].outputs[0] for at in moved.device}
    assert {after[at].op for at, kind in moved.precision.items() if kind == "fp16"} == {"MatMul", "Add"}


def test_the_bias_behind_a_fused_product_is_in_fp16_too() -> None:
    cleaned = clean(bert(), takes=TAKES)
    fused, moved = fuse_wished(cleaned, wanted(cleaned))
    sites = sites_of(fused.model)
    biased = [at for at, site in enumerate(sites) if site.op == "Add" and site.shapes[site.outputs[0]][-1] == 48]
    assert biased
    assert all(moved.precision[at] == "fp16" for at in biased)
