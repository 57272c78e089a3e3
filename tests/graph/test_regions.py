"""Regions are named as the kernels of a transformer, by what they read and in which format."""

import pytest

from axtool.graph.front import Reading, read_front
from axtool.graph.fuse_wished import fuse_wished
from axtool.graph.passes import clean
from axtool.graph.regions import count_of, counted, regions_of
from axtool.graph.sites import sites_of
from axtool.graph.split import Wishes
from axtool.quant.follow import wish_of
from axtool.quant.recipe_file import chosen_recipe
from axtool.report.regions import in_words
from axtool.target_file import load_target
from axtool.types import Precision, Site
from tests.graph.pass_models import build, noise
from tests.graph.transformer_models import bert, detr, segformer, vit
from tests.shared_data import EXPORTS

TAKES = ("Attention", "LayerNormalization")
INT8: dict[str, Precision] = {}


def sites_and_precision(model: object, real: tuple[str, ...]) -> tuple[tuple[Site, ...], dict[str, Precision]]:
    """The clean model in which the ops of `real` are in fp16 and their norms and sums in fx32, projections fused."""
    cleaned = clean(model, takes=TAKES)  # type: ignore[arg-type]
    sites = sites_of(cleaned.model)
    feed = {at for region in regions_of(sites, INT8) if region.kind == "feed-forward block" for at in region.nodes[:-1]}
    wanted: dict[int, Precision] = {}
    for at, site in enumerate(sites):
        biased = site.op == "Add" and "MatMul" in site.makers.values() and bool(site.constants)
        if at not in feed and (site.op in real or biased):
            wanted[at] = "fp16"
        elif site.op in ("Add", "LayerNormalization") and at not in feed:
            wanted[at] = "fx32"
    cleaned, wishes = fuse_wished(cleaned, Wishes(precision=wanted))
    sites = sites_of(cleaned.model)
    return sites, {sites[at].outputs[0]: kind for at, kind in wishes.precision.items()}


def test_the_regions_of_a_detection_transformer() -> None:
    sites, precision = sites_and_precision(detr(), ("MatMul", "Attention"))
    found = counted(regions_of(sites, precision))
    assert found["self-attention"] == 2
    assert found["cross-attention"] == 1
    assert found["cross-attention of constant queries"] == 1
    assert found["feed-forward block"] == 3
    assert found["fp16 linear"] == 4 + 4 + 2  # out-projections, groups of projections, first products of the heads
    assert found["fp16 linear of int8"] == 2  # of the input's tokens, and of what a Relu makes in int8


def test_norms_may_stand_before_a_block_or_behind_it() -> None:
    for model in (vit(), bert()):
        found = counted(regions_of(sites_of(clean(model, takes=TAKES).model), INT8))
        assert found == {"self-attention": 2, "feed-forward block": 2}


def test_keys_of_fewer_tokens_are_another_source() -> None:
    found = counted(regions_of(sites_of(clean(segformer(), takes=TAKES).model), INT8))
    assert found == {"cross-attention": 1}


def test_a_linear_of_an_int8_tensor_is_told_apart() -> None:
    body = "a = Relu(x) b = MatMul(a, w) c = Add(b, v) d = MatMul(c, w) y = Add(d, v)"
    sites = sites_of(build(body, "float[1, 3, 8] x", w=noise(8, 8), v=noise(8)))
    precision: dict[str, Precision] = dict.fromkeys(("b", "c", "d", "y"), "fp16")
    assert [region.kind for region in regions_of(sites, precision)] == ["fp16 linear of int8", "fp16 linear"]


def test_a_product_whose_sum_is_fx32_is_no_region() -> None:
    sites = sites_of(build("b = MatMul(x, w) y = Add(b, v)", "float[1, 3, 8] x", w=noise(8, 8), v=noise(8)))
    assert regions_of(sites, {"b": "fp16", "y": "fx32"}) == ()


def test_two_linears_without_the_sum_are_no_feed_forward_block() -> None:
    body = "a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) y = Add(c, z)"
    sites = sites_of(build(body, "float[1, 3, 8] x, float[1, 3, 8] z", w=noise(8, 8)))
    assert regions_of(sites, INT8) == ()


def test_counts_are_said_in_words() -> None:
    assert in_words({"fp16 linear": 39, "fp16 linear of int8": 1, "cross-attention of constant queries": 2}) == (
        "39 fp16 linears, 1 fp16 linear of int8, 2 cross-attentions of constant queries"
    )
    assert in_words({}) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["detr_r101_750x800_fb_opset13", "detr_r101_750x800"])
def test_the_kernels_of_a_whole_detr_in_mixed_precision(name: str) -> None:
    path = EXPORTS / f"{name}.onnx"
    if not path.is_file():
        pytest.skip("the export is not at hand")
    target = load_target("qc-u-1d5-8mb")
    wish = wish_of(chosen_recipe("detr-mixed", None, None, None, None), target, {})
    front = read_front(path, target, Reading(), wish=wish)
    assert [stage.kind for stage in front.parts.stages] == ["device"]
    assert count_of(front.parts.stages) == {
        "fp16 linear": 39,
        "feed-forward block": 12,
        "self-attention": 11,
        "cross-attention": 5,
        "fp16 linear of int8": 1,
        "cross-attention of constant queries": 1,
    }
