"""A Concat that only feeds results is joined by the host: its parts leave the device with scales of their own."""

import pytest

from axtool.graph.split import Split
from tests.graph.test_split import SAME, W, parts

V = {"p": W["v"], "q": W["v"] * 40}
TWO = f"a = Conv{SAME}(x, w) b = Conv{SAME}(a, p) c = Conv{SAME}(a, q) "

# form: (nodes behind `b` and `c`, outputs, what leaves the device)
FORMS = {
    "alone": ("y = Concat<axis = 1>(b, c)", "float y", {"b", "c"}),
    "behind a transpose": ("k = Concat<axis = 1>(b, c) y = Transpose<perm = [0, 2, 3, 1]>(k)", "float y", {"b", "c"}),
    "behind a reshape": ("k = Concat<axis = 1>(b, c) y = Flatten(k)", "float y", {"b", "c"}),
    "behind a sigmoid": ("k = Concat<axis = 1>(b, c) y = Sigmoid(k)", "float y", {"b", "c"}),
    "of reshapes": ("e = Flatten(b) f = Flatten(c) y = Concat<axis = 1>(e, f)", "float y", {"b", "c"}),
    "of transposes": (
        "e = Transpose<perm = [0, 2, 3, 1]>(b) f = Transpose<perm = [0, 2, 3, 1]>(c) y = Concat<axis = 3>(e, f)",
        "float y",
        {"b", "c"},
    ),
    "of a Concat": ("k = Concat<axis = 1>(b, c) y = Concat<axis = 1>(k, a)", "float y", {"a", "b", "c"}),
    "several": (
        "y = Concat<axis = 1>(b, c) k = Concat<axis = 1>(c, a) z = Flatten(k)",
        "float y, float z",
        {"a", "b", "c"},
    ),
    "a part that is a result as well": ("y = Concat<axis = 1>(b, c) z = Relu(b)", "float y, float z", {"b", "c"}),
    "twice the same": ("y = Concat<axis = 1>(b, b)", "float y", {"b"}),
}


def leaving(result: Split) -> set[str]:
    return {name for stage in result.stages if stage.kind == "device" for name in stage.outputs}


def where(result: Split, op: str) -> set[str]:
    return {verdict.kind for verdict in result.verdicts if verdict.op == op}


@pytest.mark.parametrize("form", FORMS)
def test_a_concat_of_results_is_on_the_host(form: str) -> None:
    body, outputs, expected = FORMS[form]
    result = parts(TWO + body, outputs, **V)
    assert where(result, "Concat") == {"host"}
    assert leaving(result) == expected


JOINED = {**V, "r": W["v"].repeat(2, 1)}


def test_a_concat_that_a_convolution_reads_stays() -> None:
    result = parts(TWO + f"k = Concat<axis = 1>(b, c) h = Conv{SAME}(k, r) y = Relu(h)", **JOINED)
    assert where(result, "Concat") == {"device"}


def test_a_concat_that_is_a_result_and_read_on_the_device_stays() -> None:
    result = parts(TWO + f"y = Concat<axis = 1>(b, c) z = Conv{SAME}(y, r)", "float y, float z", **JOINED)
    assert where(result, "Concat") == {"device"}


PLAIN = {"inputs": "float[1, 4, 8, 8] x, float[1, 4, 8, 8] z"}


@pytest.mark.parametrize(
    "body",
    [
        "a = Relu(x) b = Tanh(z) y = Concat<axis = 1>(a, b)",
        "a = Relu(x) b = Tanh(z) k = Concat<axis = 1>(a, b) y = Transpose<perm = [0, 2, 3, 1]>(k)",
        "a = Relu(x) b = Tanh(z) k = Concat<axis = 1>(a, b) y = Concat<axis = 1>(k, a)",
    ],
)
def test_a_model_without_layers_leaves_its_last_concat_to_the_host_too(body: str) -> None:
    result = parts(body, **PLAIN)
    assert where(result, "Concat") == {"host"}
    assert leaving(result) == {"a", "b"}


def test_a_model_of_nothing_but_a_concat_stays_on_the_device() -> None:
    assert where(parts("y = Concat<axis = 1>(x, z)", **PLAIN), "Concat") == {"device"}


def test_a_concat_before_a_function_stays_in_a_model_without_layers() -> None:
    assert where(parts("k = Concat<axis = 1>(x, z) y = Tanh(k)", **PLAIN), "Concat") == {"device"}
