"""The rewrites of transformers fire on every style of export, and the numbers stay: a table says where."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from axtool.graph.functions import attach
from axtool.graph.load import load_model
from axtool.graph.passes import FUSE_PROJECTIONS, PASSES, clean
from axtool.graph.passes.checking import random_feeds
from axtool.graph.passes.fuse_projections import fuse_projections
from axtool.graph.passes.work import Work
from axtool.graph.sites import sites_of
from tests.graph.pass_models import apply, cleaned, hits, ops, run
from tests.graph.transformer_models import bert, detr, segformer, vit, yolo
from tests.shared_data import EXPORTS

TAKES = ("Attention", "LayerNormalization")
EXACT = 1e-4  # what the outputs of a whole network may move by

# What each rewrite finds: layer norms, attention blocks, Gemms of contexts, packed products cut, picks of one layer,
# constants made batch-first; then groups of projections and linears of feed-forward blocks.
FOUND: dict[str, tuple[Callable[[], ir.Model], dict[str, int], int, int]] = {
    "DETR, sequence first": (
        detr,
        {"fuse-layer-norm": 9, "fuse-attention": 4, "unfuse-gemm": 4, "select-early": 2, "batch-first": 5},
        5, 6,
    ),
    "ViT": (vit, {"fuse-attention": 2, "split-projections": 2, "fuse-gates": 2}, 2, 4),
    "BERT": (bert, {"fuse-layer-norm": 5, "fuse-attention": 2, "fuse-gates": 2}, 2, 4),
    "SegFormer": (segformer, {"fuse-attention": 1, "fuse-gates": 1}, 1, 0),
    "YOLO11": (yolo, {"fuse-attention": 1}, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_every_style_of_transformer_is_recognised(name: str) -> None:
    make, found, groups, linears = FOUND[name]
    result = cleaned(make(), takes=TAKES)
    assert {step: count for step, count in hits(result).items() if step in found} == found
    assert "Softmax" not in ops(result.model)
    assert {entry.name: entry.count for entry in result.log}["ffn-gemm"] == linears
    assert apply(fuse_projections, result.model) == groups


@pytest.mark.parametrize("name", FOUND)
def test_the_numbers_stay(name: str) -> None:
    make = FOUND[name][0]
    feeds = random_feeds(make())
    before = run(make(), **feeds)
    result = clean(make(), takes=TAKES)
    fuse_projections(Work(result.model))
    for old, new in zip(before, run(result.model, **feeds), strict=True):
        np.testing.assert_allclose(new, old, atol=EXACT)


def test_streams_of_a_sequence_first_model_are_tokens_in_rows() -> None:
    model = clean(detr(), takes=TAKES).model
    shapes = {site.shapes[site.outputs[0]] for site in sites_of(model) if site.op in ("MatMul", "LayerNormalization")}
    assert {len(shape) for shape in shapes} == {3}
    assert {shape[0] for shape in shapes} == {1}
    assert not {"Gather", "Concat"} & set(ops(model))


def test_a_feed_forward_block_is_two_gemms_on_rows_of_tokens() -> None:
    gemms = [site for site in sites_of(clean(bert(), takes=TAKES).model) if site.op == "Gemm"]
    assert [site.shapes[site.outputs[0]] for site in gemms] == [(6, 32), (6, 16)] * 2
    assert all(len(site.constants) == 2 for site in gemms)  # weights and bias


def test_a_constant_query_is_an_operand_of_its_block() -> None:
    blocks = [site for site in sites_of(clean(detr(), takes=TAKES).model) if site.op == "Attention"]
    assert [site.inputs[0] in site.constants for site in blocks] == [False, True, False, False]


def test_a_mask_that_the_caller_feeds_reaches_every_block() -> None:
    blocks = [site for site in sites_of(clean(bert(), takes=TAKES).model) if site.op == "Attention"]
    assert len({site.inputs[3] for site in blocks}) == 1
    assert all(site.shapes[site.inputs[3]] == (1, 1, 1, 6) for site in blocks)


def test_a_device_without_blocks_keeps_the_graph_of_small_ops() -> None:
    assert ops(clean(detr()).model) == ops(clean(detr(), takes=["MatMul", "Softmax"]).model)


@pytest.mark.parametrize(
    "name",
    [
        "fuse-layer-norm",
        "fuse-attention",
        "split-projections",
        "unfuse-gemm",
        "select-early",
        "batch-first",
        "merge-views",
        "ffn-gemm",
    ],
)
def test_each_rewrite_can_be_left_out(name: str) -> None:
    feeds = random_feeds(detr())
    result = clean(detr(), takes=TAKES, disable=[name])
    assert name not in {entry.name for entry in result.log}
    for old, new in zip(run(detr(), **feeds), run(result.model, **feeds), strict=True):
        np.testing.assert_allclose(new, old, atol=EXACT)


# Exports of the architectures, where they are at hand: attention blocks, Gemms of contexts, constants made batch-first,
# groups of projections, linears of feed-forward blocks.
WHOLE = {
    "detr_r101_750x800_fb_opset13": (17, 17, 5, 22, 24),
    "detr_r101_750x800": (17, 0, 0, 22, 24),
    "deit_tiny": (12, 0, 0, 12, 24),
    "segformer_b0_256x512_ade150": (8, 0, 0, 8, 0),
    "segformer_b0_256x512_cityscapes19_mmseg": (8, 0, 0, 8, 0),
    "yolo11n_640": (1, 0, 0, 0, 0),
    "convnext_tiny": (0, 0, 0, 0, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_an_export_of_a_whole_network_is_recognised_and_keeps_its_outputs(name: str) -> None:
    path = EXPORTS / f"{name}.onnx"
    if not path.is_file():
        pytest.skip("the export is not at hand")
    model = load_model(Path(path)).model
    feeds = random_feeds(model)
    before = run(model, **feeds)
    result = clean(model, takes=TAKES)
    found = {entry.name: entry.count for entry in result.log}
    counts = fuse_projections(Work(result.model)), found["ffn-gemm"]
    assert (found["fuse-attention"], found["unfuse-gemm"], found["batch-first"], *counts) == WHOLE[name]
    for old, new in zip(before, run(attach(result.model), **feeds), strict=True):
        np.testing.assert_allclose(new, old, atol=EXACT * max(1.0, float(np.abs(old).max())))


def test_the_page_on_transformers_names_every_rewrite() -> None:
    page = (Path(__file__).parents[2] / "docs" / "transformers.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert {*named} >= {*(step.name for step in PASSES if step.makes), FUSE_PROJECTIONS}
