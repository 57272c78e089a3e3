# ruff: noqa: E501 (a graph is one line)
"""Rules that a target chooses by name: both sides of each, judged on the target that has them all."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from axtool.graph.sites import sites_of
from axtool.ops.limits import choices, manual, why_not
from axtool.target_file import load_target
from axtool.types import Site

METIS, OTHER = load_target("metis"), load_target("qc-u-1d5-8mb")
IMAGE = "float[1,64,8,8] x"


def sites(graph: str, opset: int = 17, **weights: tuple[int, ...]) -> tuple[Site, ...]:
    """The nodes of an ONNX text graph; keyword arguments are shapes of float initializers."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {graph}')
    for name, shape in weights.items():
        array = np.linspace(0.5, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return sites_of(ir.from_proto(onnx.shape_inference.infer_shapes(model, strict_mode=True)))


def seen(graph: str, at: int = 0, opset: int = 17, **weights: tuple[int, ...]) -> str:
    """What the target says of a node, as one text; empty where it takes the node. The op must be known to the chip."""
    return " | ".join(reason.seen or reason.rule for reason in why_not(sites(graph, opset, **weights)[at], METIS))


def conv(attrs: str, w: tuple[int, ...]) -> tuple[str, dict[str, tuple[int, ...]]]:
    return f"({IMAGE}) => (float[1,a,b,c] y) {{ y = Conv<{attrs}>(x, w) }}", {"w": w}


def deconv(attrs: str, w: tuple[int, ...] = (64, 8, 2, 2)) -> tuple[str, dict[str, tuple[int, ...]]]:
    return f"({IMAGE}) => (float[1,a,b,c] y) {{ y = ConvTranspose<{attrs}>(x, w) }}", {"w": w}


def pool(op: str, attrs: str) -> tuple[str, dict[str, tuple[int, ...]]]:
    return f"({IMAGE}) => (float[1,64,b,c] y) {{ y = {op}<{attrs}>(x) }}", {}


def two(op: str, other: str) -> tuple[str, dict[str, tuple[int, ...]]]:
    """An op on the image and a second input of the run time."""
    return f"({IMAGE}, float[{other}] z) => (float[1,a,b,c] y) {{ y = {op}(x, z) }}", {}


def fixed(op: str, *shape: int) -> tuple[str, dict[str, tuple[int, ...]]]:
    """An op on the image and a constant."""
    return f"({IMAGE}) => (float[1,a,b,c] y) {{ y = {op}(x, w) }}", {"w": shape}


def cut(start: str, end: str, axes: str, steps: str, channels: int = 64) -> tuple[str, dict[str, tuple[int, ...]]]:
    n = axes.count(",") + 1
    values = ", ".join(
        f"int64[{n}] {name} = {{{value}}}" for name, value in zip("seat", (start, end, axes, steps), strict=True)
    )
    return f"(float[1,{channels},8,8] x) => (float[1,k,l,m] y) <{values}> {{ y = Slice(x, s, e, a, t) }}", {}


def pad(amounts: str, mode: str = "constant", value: float = 0.0) -> tuple[str, dict[str, tuple[int, ...]]]:
    body = f'y = Pad<mode="{mode}">(x, p, v)' if mode == "constant" else f'y = Pad<mode="{mode}">(x, p)'
    return f"({IMAGE}) => (float[k,l,m,n] y) <int64[8] p = {{{amounts}}}, float v = {{{value}}}> {{ {body} }}", {}


def resize(attrs: str, h: float = 2.0, w: float = 2.0) -> tuple[str, dict[str, tuple[int, ...]]]:
    return f"({IMAGE}) => (float[1,64,m,n] y) <float[4] s = {{1.0,1.0,{h},{w}}}> {{ y = Resize<{attrs}>(x, , s) }}", {}


# rule -> (a node that the target takes, one that it leaves to the host, what it says of that)
SIDES = {
    "explicit_pads": (conv("pads=[1,1,1,1]", (64, 64, 3, 3)), conv('auto_pad="SAME_UPPER"', (64, 64, 3, 3)), "auto_pad is SAME_UPPER"),
    "grouped_square": (conv("group=64, pads=[5,5,5,5]", (64, 1, 11, 11)), conv("group=64, pads=[6,6,6,6]", (64, 1, 13, 13)), "the window spans 13 x 13 = 169"),
    "transposed_group": (deconv("strides=[2,2]"), deconv("strides=[2,2], group=2"), "there are 2"),
    "transposed_pads_symmetric": (deconv("pads=[1,0,1,0]"), deconv("pads=[1,1,0,0]"), "pads are (1, 1, 0, 0)"),
    "transposed_shape_free": (deconv("strides=[2,2], output_padding=[1,1]", (64, 8, 3, 3)), deconv("strides=[2,2], output_shape=[16,16]"), "output_shape is (16, 16)"),
    "average_counts_pads": (pool("AveragePool", "kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1"), pool("AveragePool", "kernel_shape=[3,3], pads=[1,1,1,1]"), "count_include_pad is 0"),
    "average_pads_half": (pool("AveragePool", "kernel_shape=[4,4], pads=[2,2,2,2], count_include_pad=1"), pool("AveragePool", "kernel_shape=[3,3], pads=[2,2,2,2], count_include_pad=1"), "pads are (2, 2, 2, 2) of a window (3, 3)"),
    "max_pool_order": (pool("MaxPool", "kernel_shape=[2,2], storage_order=0"), pool("MaxPool", "kernel_shape=[2,2], storage_order=1"), "storage_order is 1"),
    "sum_shapes": (fixed("Add", 1, 64, 1, 1), fixed("Add", 1, 1, 1, 8), "(1, 1, 1, 8), one of them constant"),
    "product_shapes": (two("Mul", "1,64,1,1"), two("Mul", "1,64,8,1"), "the operands have the shapes (1, 64, 8, 8) and (1, 64, 8, 1)"),
    "product_of_two": (two("Mul", "1,64,8,8"), (f"({IMAGE}) => (float[1,64,8,8] y) {{ y = Mul(x, x) }}", {}), "both are 'x'"),
    "difference_shapes": (two("Sub", "1,64,1,1"), two("Sub", "1,64,8,8"), "the operands have the shapes (1, 64, 8, 8) and (1, 64, 8, 8)"),
    "clip_bounds": ((f"({IMAGE}) => (float[1,64,8,8] y) <float a = {{0.0}}, float b = {{6.0}}> {{ y = Clip(x, a, b) }}", {}), (f"({IMAGE}) => (float[1,64,8,8] y) <float a = {{0.0}}, float b = {{1.0}}> {{ y = Clip(x, a, b) }}", {}), "they are 0 and 1"),
    "hard_sigmoid_slope": ((f"({IMAGE}) => (float[1,64,8,8] y) {{ y = HardSigmoid<alpha=0.1666666, beta=0.5>(x) }}", {}), (f"({IMAGE}) => (float[1,64,8,8] y) {{ y = HardSigmoid(x) }}", {}), "alpha is 0.2"),
    "selu_default": ((f"({IMAGE}) => (float[1,64,8,8] y) {{ y = Selu(x) }}", {}), (f"({IMAGE}) => (float[1,64,8,8] y) {{ y = Selu<alpha=1.0>(x) }}", {}), "alpha is 1 and gamma"),
    "prelu_slope": (fixed("PRelu", 64, 1, 1), fixed("PRelu", 8), "the slope has the shape (8,)"),
    "concat_axes": (two("Concat<axis=2>", "1,64,8,8"), ("(float[1,8,4] x, float[1,8,4] z) => (float[1,8,8] y) { y = Concat<axis=2>(x, z) }", {}), "axis 2 of 3 dimensions"),
    "pad_zeros": (pad("0,0,1,1,0,0,1,1"), pad("0,0,1,1,0,0,1,1", value=1.0), "the value is 1"),
    "pad_axes": (pad("0,0,0,0,0,64,0,0"), pad("0,0,0,0,0,32,0,0"), "it adds 0 and 32 channels"),
    "slice_one_axis": (cut("0", "32", "1", "1"), cut("0,1", "32,8", "1,2", "1,1"), "it cuts the axes [1, 2]"),
    "slice_step": (cut("0", "64", "1", "2"), cut("0", "8", "2", "2"), "the steps are (1, 1, 2, 1)"),
    "slice_whole_groups": (cut("1", "8", "2", "1"), cut("1", "8", "2", "1", channels=32), "it cuts axis 2 of (1, 32, 8, 8)"),
    "resize_linear": (resize('mode="linear"'), resize('mode="linear"', 2.0, 4.0), "scales are (1.0, 1.0, 2.0, 4.0)"),
    "resize_nearest": (resize('mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"'), resize('mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="round_prefer_floor"'), "it rounds by round_prefer_floor"),
}  # fmt: skip


@pytest.mark.parametrize("rule", SIDES)
def test_a_node_that_keeps_the_rule_goes_to_the_device(rule: str):
    graph, weights = SIDES[rule][0]
    assert seen(graph, **weights) == ""


@pytest.mark.parametrize("rule", SIDES)
def test_a_node_that_breaks_the_rule_stays_on_the_host_and_says_what_and_why(rule: str):
    graph, weights = SIDES[rule][1]
    (site,) = sites(graph, **weights)
    (reason,) = why_not(site, METIS)
    assert SIDES[rule][2] in reason.seen
    assert reason.rule == choices()[rule].limit.rule(METIS)
    assert reason.advice


# The kernels have a limit of their own on what these three refuse here.
KERNELS_TOO = {"prelu_slope", "max_pool_order", "slice_step"}


@pytest.mark.parametrize("rule", sorted(set(SIDES) - KERNELS_TOO))
def test_a_target_that_does_not_choose_the_rule_takes_the_node(rule: str):
    graph, weights = SIDES[rule][1]
    assert why_not(sites(graph, **weights)[0], OTHER) == ()


@pytest.mark.parametrize(
    ("attrs", "shape", "fault"),
    [
        ("group=2, pads=[1,0,1,0]", (64, 32, 3, 1), "with 2 groups kernel are (3, 1)"),
        ("group=64, strides=[2,1], pads=[1,1,1,1]", (64, 1, 3, 3), "with 64 groups strides are (2, 1)"),
        ("group=64, dilations=[1,2], pads=[1,2,1,2]", (64, 1, 3, 3), "with 64 groups dilations are (1, 2)"),
        ("group=64, dilations=[6,6], pads=[6,6,6,6]", (64, 1, 3, 3), "the window spans 13 x 13 = 169"),
        ("pads=[1,0,1,0]", (64, 64, 3, 1), ""),
        ("dilations=[6,6], pads=[6,6,6,6]", (64, 64, 3, 3), ""),
    ],
)
def test_only_a_convolution_in_groups_must_be_square_and_small(attrs: str, shape: tuple[int, ...], fault: str):
    graph, weights = conv(attrs, shape)
    assert seen(graph, **weights) == fault


@pytest.mark.parametrize(
    ("op", "operand", "taken"),
    [
        ("Add", (1, 64, 8, 8), False),  # a constant of the whole shape
        ("Add", (64, 1, 1), True),
        ("Add", (1,), True),
        ("Add", (1, 1, 8, 8), False),
        ("Mul", (1, 64, 1, 1), True),
        ("Mul", (1, 64, 8, 8), False),
        ("Sub", (1, 64, 1, 1), True),
        ("Sub", (1, 64, 8, 8), False),
    ],
)
def test_a_constant_operand_is_one_value_or_one_for_each_channel(op: str, operand: tuple[int, ...], taken: bool):
    graph, weights = fixed(op, *operand)
    assert (seen(graph, **weights) == "") == taken


def test_sums_of_two_computed_tensors_have_one_shape():
    assert seen(two("Add", "1,64,8,8")[0]) == ""
    assert "(1, 64, 8, 1)" in seen(two("Add", "1,64,8,1")[0])


def test_relu_six_and_hard_tanh_are_the_clips_of_the_chip():
    bounds = "<float a = {{{}}}, float b = {{{}}}> {{ y = Clip(x, a, b) }}"
    graph = f"({IMAGE}) => (float[1,64,8,8] y) "
    assert seen(graph + bounds.format(-1.0, 1.0)) == ""
    assert seen(graph + bounds.format(-6.0, 6.0)) == "they are -6 and 6"


def test_split_divides_what_the_network_computed_and_never_the_batch():
    graph = "(float[1,64,8,8] x) => (float[1,32,8,8] a, float[1,32,8,8] b) <int64[2] s = {32,32}> { r = Relu(x) a, b = Split<axis=1>(r, s) }"
    assert seen(graph, at=1) == ""
    first = graph.replace("r = Relu(x) ", "").replace("(r, s)", "(x, s)")
    assert seen(first) == "it reads 'x', an input"
    rows = "(float[1,8] x) => (float[1,8] a) <int64[1] s = {1}> { r = Relu(x) a = Split<axis=0>(r, s) }"
    assert seen(rows, at=1) == "the axis is 0"


def test_gemm_has_its_data_in_rows():
    assert seen("(float[1,8] x) => (float[1,3] y) { y = Gemm(x, w) }", w=(8, 3)) == ""
    assert "transA is 1" in seen("(float[1,1] x) => (float[1,3] y) { y = Gemm<transA=1>(x, w) }", w=(1, 3))


def test_flatten_stands_in_front_of_a_gemm_or_at_the_end():
    head = "(float[1,8,1,1] x) => (float[1,a] y) "
    assert seen(head + "{ f = Flatten(x) y = Gemm(f, w) }", w=(8, 3)) == ""
    assert seen(head + "{ y = Flatten(x) }") == ""
    assert seen(head + "{ f = Flatten(x) y = Sigmoid(f) }") == "Sigmoid reads it"


ATTENTION = """(float[1,128,4,4] x) => (float[1,128,4,4] y)
    <int64[4] heads = {1,2,64,16}, int64[3] sizes = {16,16,32}, int64[4] image = {1,64,4,4}, float scale = {0.25}> {
    cut = Reshape(x, heads)
    q, k, v = Split<axis=2>(cut, sizes)
    t = Transpose<perm=[0,1,3,2]>(q)
    product = MatMul(t, k)
    scaled = Mul(product, scale)
    p = Softmax<axis=-1>(scaled)
    u = Transpose<perm=[0,1,3,2]>(p)
    z = MatMul(v, u)
    back = Reshape(z, image)
    y = Concat<axis=1>(back, back)
}"""


def chosen_faults(site: Site) -> list[str]:
    """What the chosen rules say of a site, whatever the kernels say."""
    rules = [choices()[name] for name in METIS.rules]
    return [fault for rule in rules if site.op in rule.ops and (fault := rule.limit.check(site, METIS))]


def test_the_ops_of_an_attention_block_keep_the_rules():
    assert [chosen_faults(site) for site in sites(ATTENTION) if site.op != "Split"] == [[]] * 9


@pytest.mark.parametrize(
    ("graph", "weights", "fault"),
    [
        ("(float[1,7,8] x) => (float[1,7,3] y) { y = MatMul(x, w) }", {"w": (8, 3)}, "'w' is a constant"),
        ("(float[1,7,8] x, float[1,8,7] z) => (float[1,7,7] y) { y = MatMul(x, z) }", {}, "(1, 7, 8) and (1, 8, 7)"),
        ("(float[1,8,4,4] x) => (float[1,8,4,4] y) { y = Softmax<axis=1>(x) }", {}, "the axis is 1 of (1, 8, 4, 4)"),
        ("(float[1,8,4,4] x) => (float[1,8,4,4] y) { y = Softmax<axis=3>(x) }", {}, "its neighbours are none"),
        ("(float[1,8,4,4] x) => (float[1,2,4,16] y) <int64[4] s = {1,2,4,16}> { y = Reshape(x, s) }", {}, "it makes (1, 2, 4, 16) of (1, 8, 4, 4)"),
        ("(float[1,8,4,4] x) => (float[1,8,4,4] y) { y = Transpose<perm=[0,1,3,2]>(x) }", {}, "perm is (0, 1, 3, 2) between none"),
        ("(float[1,8,4,4] x) => (float[1,4,4,8] y) { y = Transpose<perm=[0,2,3,1]>(x) }", {}, "perm is (0, 2, 3, 1) between none"),
    ],
)  # fmt: skip
def test_outside_an_attention_block_they_stay_on_the_host(graph: str, weights: dict[str, tuple[int, ...]], fault: str):
    (site,) = sites(graph, **weights)
    assert any(fault in text for text in chosen_faults(site))


def test_a_reshape_that_only_drops_axes_and_a_transpose_that_moves_nothing_are_taken():
    assert seen("(float[1,8,1,1] x) => (float[1,8] y) <int64[2] s = {1,8}> { y = Reshape(x, s) }") == ""
    assert seen("(float[1,8,4,4] x) => (float[1,8,4,4] y) { y = Transpose<perm=[0,1,2,3]>(x) }") == ""


@pytest.mark.parametrize("op", ["Abs", "Elu", "Exp", "Softplus", "Sqrt"])
def test_an_op_that_the_chip_does_not_know_stays_on_the_host(op: str):
    graph = f"({IMAGE}) => (float[1,64,8,8] y) {{ y = {op}(x) }}"
    assert seen(graph) == f"the op is {op}"
    assert why_not(sites(graph)[0], OTHER) == ()


@pytest.mark.parametrize(
    "op", ["Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "GlobalAveragePool", "GlobalMaxPool"]
)
def test_some_ops_run_whatever_they_look_like(op: str):
    assert seen(f"({IMAGE}) => (float[1,64,a,b] y) {{ y = {op}(x) }}") == ""


def test_the_manual_of_a_target_lists_its_ops_and_its_rules():
    rows = {row.op: row.rules for row in manual(METIS)}
    assert set(rows) - {""} <= set(METIS.ops)
    assert "Pad leaves the batch alone, and adds channels in multiples of 64." in rows["Pad"]
    assert all("{" not in rule for rules in rows.values() for rule in rules)


def test_the_table_of_the_chip_is_chosen_whole():
    assert set(METIS.rules) == set(choices())
