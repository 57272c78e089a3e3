"""A mixed recipe from file to file: saved ranges give the same program again, emitted QDQ keeps what is int8 alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from axtool.artefact import axm
from tests.quant.qdq_case import run, sqnr_db
from tests.small_transformer import samples, written
from tests.tiny import Ran, axtool

CHIP = ("--target", "qc-u-1d5-8mb", "--force")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mixed")
    written(made)
    words = ("--calib", made / "calib", "--recipe", made / "mixed.yaml", "--save-ranges", made / "r.json", *CHIP)
    ran = compiled(made, *words, "--emit", f"qdq={made / 'q.onnx'}", "-o", made / "a.axm")
    assert ran.code == 0, ran.err
    return made


def compiled(folder: Path, *words: object) -> Ran:
    return axtool("compile", folder / "small.onnx", "--no-layer-check", *words)


def program(path: Path) -> Any:
    return axm.read(path).device_stages[0].plan.program


def saved(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "r.json").read_text())
    return document


def test_saved_ranges_say_what_nodes_compute_in(folder: Path) -> None:
    found = saved(folder)["precision"]
    assert (found["l0_sum1"], found["l0_attention_q_product"]) == ("fx32", "fp16")
    assert set(found.values()) == {"fx32", "fp16"}


@pytest.mark.parametrize("recipe", [(), ("--recipe", "mixed.yaml")], ids=["alone", "with the recipe"])
def test_saved_ranges_give_the_same_program_again(folder: Path, recipe: tuple[str, ...]) -> None:
    words = [folder / word if word.endswith("yaml") else word for word in recipe]
    ran = compiled(folder, "--ranges", folder / "r.json", *words, *CHIP, "-o", folder / "b.axm")
    assert ran.code == 0, ran.err
    before, after = program(folder / "a.axm"), program(folder / "b.axm")
    assert before.layers == after.layers
    assert before.tensors == after.tensors
    for name, array in before.constants.items():
        np.testing.assert_array_equal(array, after.constants[name])


def test_a_precision_that_is_none_is_refused(folder: Path) -> None:
    (folder / "bad.json").write_text(json.dumps({**saved(folder), "precision": {"l0_sum1": "fx23"}}))
    ran = compiled(folder, "--ranges", folder / "bad.json", *CHIP, "-o", folder / "b.axm")
    assert ran.code == 2
    assert "'precision' wants int8, int16, fx32, fp16 or float: 'l0_sum1': 'fx23'" in ran.err


def test_the_emitted_model_rounds_what_is_int8_and_nothing_else(folder: Path) -> None:
    proto = onnx.load(str(folder / "q.onnx"))
    onnx.checker.check_model(proto, full_check=True)
    rounded = {node.input[0] for node in proto.graph.node if node.op_type == "QuantizeLinear"}
    kinds = {name: tensor.format.kind for name, tensor in program(folder / "a.axm").tensors.items()}
    assert "l0_ffn_relu" in rounded
    assert [name for name in rounded if kinds.get(name) in ("fx32", "fp16") and name.startswith("box")] == []
    weights = {node.input[0] for node in proto.graph.node if node.op_type == "DequantizeLinear"}
    assert {name for name in weights if name.startswith("l0_ffn1.w")}  # the int8 linear has int8 weights
    assert not {name for name in weights if name.startswith(("class.w", "l0_attention_q.w"))}


def test_int8_reads_a_tensor_of_another_format_rounded_and_other_readers_do_not(folder: Path) -> None:
    proto = onnx.load(str(folder / "q.onnx"))
    makers = {name: node for node in proto.graph.node for name in node.output}

    def source(node: onnx.NodeProto) -> str:
        return makers[node.input[0]].op_type if node.input[0] in makers else ""

    def weights_of(node: onnx.NodeProto) -> list[str]:
        return [makers[name].input[0] for name in node.input[1:] if name in makers and makers[name].input]

    linears = [node for node in proto.graph.node if any(name.startswith("l0_ffn1.w") for name in weights_of(node))]
    assert linears
    assert {source(node) for node in linears} == {"DequantizeLinear"}  # int8 linears of fx32 norms
    norms = [node for node in proto.graph.node if node.op_type in ("LayerNormalization", "Sigmoid")]
    assert norms
    assert "DequantizeLinear" not in {source(node) for node in norms}


def test_the_emitted_model_is_near_the_float_one(folder: Path) -> None:
    quantized, real = onnx.load(str(folder / "q.onnx")), onnx.load(str(folder / "small.onnx"))
    for image in samples(3, seed=9):
        made, want = run(quantized, {"image": image}), run(real, {"image": image})
        assert min(sqnr_db(want[name], made[name]) for name in want) > 20
