"""The commands on a chip of another kind: four cores, words of 64 channels, an op list and rules of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from axtool.artefact import axm
from tests import tiny
from tests.tiny import axtool

# A picture, odd channel counts, a depthwise layer, a residual sum, a Concat, and two ops that the chip does not take.
GRAPH = """(float[1,3,20,28] x) => (float[1,70,10,14] y, float[1,5] scores) {
  a = Conv <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x, w1, b1)
  r = Relu(a)
  d = Conv <kernel_shape=[3,3], pads=[1,1,1,1], group=20> (r, w2, b2)
  e = HardSwish(d)
  s = Add(r, e)
  g = Conv <kernel_shape=[3,3], pads=[1,1,1,1], group=2> (s, w3, b3)
  c = Concat <axis=1> (s, g)
  y = Conv <kernel_shape=[1,1]> (c, w4, b4)
  u = Elu(y)
  v = Conv <kernel_shape=[1,1], strides=[2,2]> (u, w5, b5)
  p = GlobalAveragePool(v)
  f = Flatten(p)
  z = Gemm <transB=1> (f, w6, b6)
  scores = Softmax(z)
}"""
WEIGHTS = {
    "w1": (20, 3, 3, 3), "b1": (20,), "w2": (20, 1, 3, 3), "b2": (20,), "w3": (50, 10, 3, 3), "b3": (50,),
    "w4": (70, 70, 1, 1), "b4": (70,), "w5": (90, 70, 1, 1), "b5": (90,), "w6": (5, 90), "b6": (5,),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`net.onnx`, `data.npz`, and the model compiled for both chips from one calibration."""
    made = tmp_path_factory.mktemp("metis")
    tiny.save(made / "net.onnx", GRAPH, WEIGHTS)
    np.savez(made / "data.npz", x=np.random.default_rng(0).normal(0, 1, (12, 3, 20, 28)).astype(np.float32))
    for chip in ("metis", "qc-u-1d5-8mb"):
        words = ("--calib", made / "data.npz", "-O", 0, "--target", chip, "-o", made / f"{chip}.axm")
        ran = axtool("compile", made / "net.onnx", *words)
        assert ran.code == 0, ran.err
    return made


def test_compile_says_what_all_cores_do_together(folder: Path):
    words = ("--calib", folder / "data.npz", "-O", 0, "--target", "metis", "-o")
    ran = axtool("compile", folder / "net.onnx", *words, folder / "text.axm")
    assert "a frame on one core" in ran.out
    assert "frames/s on all 4" in ran.out
    device = axtool("compile", folder / "net.onnx", *words, folder / "json.axm", "--json").document["device"]
    assert device["frames_per_s_modelled"] == pytest.approx(4e3 / device["latency_ms_modelled"])


@pytest.mark.parametrize("stage", ["reference", "native", "all"])
def test_verify_passes_with_equal_bits_in_both_engines(folder: Path, stage: str):
    words = ("--against", folder / "net.onnx", "--data", folder / "data.npz", "--stage", stage)
    ran = axtool("verify", folder / "metis.axm", *words)
    assert ran.code == 0, ran.out


def test_run_gives_what_was_asked_for(folder: Path):
    np.save(folder / "x.npy", np.load(folder / "data.npz")["x"][:1])
    ran = axtool("run", folder / "metis.axm", folder / "x.npy", "--out", folder / "results.npz")
    assert ran.code == 0, ran.err
    results = np.load(folder / "results.npz")
    assert {name: results[name].shape for name in results.files} == {"y": (1, 70, 10, 14), "scores": (1, 5)}
    assert results["scores"].sum() == pytest.approx(1, abs=1e-4)


def test_the_ops_that_the_chip_does_not_take_run_on_the_host(folder: Path):
    rows = {row["op"]: row for row in axm.read(folder / "metis.axm").support if row["kind"] == "host"}
    assert "Elu" in rows
    assert rows["Elu"]["reasons"] == ["metis runs only some ops. Here the op is Elu."]
    assert "Elu" not in {row["op"] for row in axm.read(folder / "qc-u-1d5-8mb.axm").support if row["kind"] == "host"}


def test_every_tensor_is_stored_in_words_of_64_channels_and_the_picture_in_four(folder: Path):
    artefact = axm.read(folder / "metis.axm")
    checked = set[int]()
    for stage in artefact.device_stages:
        program = stage.plan.program
        for slot in stage.plan.slots:
            if slot.tensor in program.tensors and slot.tensor not in program.constants:
                _, h, w, c = program.tensors[slot.tensor].shape
                assert slot.size >= h * w * (4 if c <= 4 else -(-c // 64) * 64)
                checked.add(c)
    assert {3, 20, 70} <= checked


def test_profile_counts_frames_of_four_cores(folder: Path):
    document = axtool("profile", folder / "metis.axm", "--json").document
    assert document["cores"] == 4
    assert document["frames_per_s"] == pytest.approx(4 * document["frames_per_s_per_core"])
