"""The summary of a job, and which pairs of linears are feed-forward blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from axtool.report.feed_forward import feed_forward_blocks
from axtool.report.job import job_of_file, job_text
from axtool.report.profile import Request, profile, programs_of_onnx
from axtool.report.profiled import profile_document
from axtool.target_file import load_target
from tests import tiny
from tests.conftest import Tiny

TOKENS = """(float[1,24,16] x) => (float[1,24,16] y) {
  a = MatMul(x, w1)
  b = Add(a, b1)
  r = Relu(b)
  c = MatMul(r, w2)
  d = Add(c, b2)
  y = Add(d, x)
}"""
WEIGHTS = {"w1": (16, 64), "b1": (64,), "w2": (64, 16), "b2": (16,)}
CONVS = """(float[1,16,8,8] x) => (float[1,16,8,8] y) {
  a = Conv <kernel_shape=[1,1]> (x, w1)
  r = Relu(a)
  m = Conv <kernel_shape=[3,3], pads=[1,1,1,1], group=64> (r, wd)
  s = Relu(m)
  y = Conv <kernel_shape=[1,1]> (s, w2)
}"""
CONV_WEIGHTS = {"w1": (64, 16, 1, 1), "wd": (64, 1, 3, 3), "w2": (16, 64, 1, 1)}


def blocks(folder: Path, graph: str, weights: dict[str, tuple[int, ...]]) -> int:
    from axtool.graph.front import Reading

    path = tiny.save(folder / "m.onnx", graph, weights)
    programs, _ = programs_of_onnx(path, load_target("qc-u-1d5-8mb"), Reading(), lambda name: None)
    return sum(len(feed_forward_blocks(program)) for program in programs)


def test_two_linears_with_an_activation_between_them_are_a_block(tmp_path: Path) -> None:
    assert blocks(tmp_path, TOKENS, WEIGHTS) == 1


def test_the_macs_of_a_block_are_those_of_its_linears(tmp_path: Path) -> None:
    path = tiny.save(tmp_path / "m.onnx", TOKENS, WEIGHTS)
    document = profile_document("m.onnx", profile(Request(path, "qc-u-1d5-8mb")))
    assert document["feed_forward_macs"] == 2 * 24 * 16 * 64 == document["macs"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = Add(d, x)", "s = ReduceSum(r, axes)\n  y = Add(d, s)"),  # the hidden tokens have another reader
        ("c = MatMul(r, w2)\n  d = Add(c, b2)\n", "c = Slice(r, starts, ends, axes)\n  d = Add(c, b2)\n"),
    ],
)
def test_look_alikes_are_none(tmp_path: Path, old: str, new: str) -> None:
    graph = TOKENS.replace(old, new).replace(
        "{\n",
        "{\n  axes = Constant <value_ints=[2]> ()\n  starts = Constant <value_ints=[0]> ()\n"
        "  ends = Constant <value_ints=[16]> ()\n",
        1,
    )
    weights = {name: shape for name, shape in WEIGHTS.items() if name in graph}
    assert blocks(tmp_path, graph, weights) == 0


def test_a_convolution_between_the_linears_makes_it_no_block(tmp_path: Path) -> None:
    assert blocks(tmp_path, CONVS, CONV_WEIGHTS) == 0


def test_a_job_says_what_each_memory_holds_and_where_cycles_go(tiny_models: Tiny) -> None:
    job = job_of_file(tiny_models / "cls.axm")
    assert job is not None
    assert 0 < job["peak_lrm_bytes"] <= job["lrm_bytes_per_pe"] == 4096
    assert sum(job["ledger_cycles"].values()) == job["cycles"]
    text = job_text(job)
    for said in (job["target"], "L2M", "LRM", "temporary external", "GMACs", "data_external", f"{job['cycles']:,} cyc"):
        assert said in text
