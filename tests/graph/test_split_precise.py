"""Nodes that a recipe wants in fx32 or fp16 stay on the device; the stages say what they compute in."""

from typing import Any

from axtool.graph.passes import clean
from axtool.graph.split import Split, Wishes, split
from axtool.target_file import load_target
from axtool.types import Precision
from tests.graph.pass_models import build, noise

TARGET = load_target("qc-u-1d5-8mb")
HEAD = "a = MatMul(x, w) b = Sigmoid(a) c = Mul(b, s) y = Transpose<perm = [0, 2, 1]>(c)"


def parts(body: str, wanted: dict[str, Precision], inputs: dict[str, Precision] | None = None) -> Split:
    constants: dict[str, Any] = {"w": noise(8, 6), "s": noise(6), "v": noise(6, 6)}
    used = {name: value for name, value in constants.items() if f" {name})" in body}
    model = clean(build(body, "float[1, 5, 8] x", "float y", **used)).model

    def wish(sites: Any) -> Wishes:
        at = {name: at for at, site in enumerate(sites) for name in site.outputs}
        return Wishes(precision={at[name]: kind for name, kind in wanted.items()}, input_precision=inputs or {})

    return split(model, TARGET, wish=wish)


def host(result: Split) -> list[str]:
    return [verdict.op for verdict in result.verdicts if verdict.kind == "host"]


def test_a_sigmoid_at_the_end_is_the_hosts_by_default() -> None:
    assert host(parts(HEAD, {})) == ["Sigmoid", "Mul", "Transpose"]


def test_what_is_wanted_in_fx32_stays_with_what_leads_to_it_and_what_moves_it() -> None:
    result = parts(HEAD, {"b": "fx32", "c": "fx32"})
    assert host(result) == []
    assert result.stages[0].precision == {"b": "fx32", "c": "fx32"}


def test_what_follows_a_precise_node_and_is_not_wanted_is_the_hosts() -> None:
    assert host(parts(HEAD, {"b": "fx32"})) == ["Mul", "Transpose"]


def test_int16_is_rounded_like_int8_and_stays_by_the_same_rules() -> None:
    assert host(parts(HEAD, {"b": "int16"})) == ["Sigmoid", "Mul", "Transpose"]


def test_a_stage_knows_what_its_inputs_are_stored_in() -> None:
    result = parts("a = MatMul(x, w) b = LogSoftmax<axis = 2>(a) y = MatMul(b, v)", {"y": "fp16"}, {"x": "fx32"})
    assert [(stage.kind, dict(stage.precision)) for stage in result.stages] == [
        ("device", {"x": "fx32"}), ("host", {}), ("device", {"y": "fp16"}),
    ]  # fmt: skip
