"""The benchmarks of whole steps: compile, calibration, start, each run once on little."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from benchmarks import calibrate, compile, start
from benchmarks.measure import Finished, Timing
from benchmarks.networks import NETWORKS, Net


def tiny() -> onnx.ModelProto:
    net = Net("tiny", (1, 3, 16, 16))
    return net.model([net.conv(net.conv("images", 16, 3, 2, act="relu"), 8)])


def test_the_imports_are_taken_from_each_run() -> None:
    own = compile.without(Timing((3.0, 4.0), (2.0, 3.0)), Timing((1.0, 1.5, 9.0), (0.5, 1.0, 1.0)))
    assert own == Timing((1.5, 2.5), (1.0, 2.0))


def test_the_budget_over_our_cpu_is_the_ratio(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile, "without", lambda whole, imports: Timing((0.7,), (0.5,)))
    folder = tmp_path_factory.mktemp("compile")
    (row,) = compile.compare("resnet50", compile.prepare("tiny", tiny(), folder), rounds=1, warm_up=0)
    assert row["ratio"] == pytest.approx(4 / 0.5)
    assert row["ours"]["imports"]["cpu_median_ms"] > 0


def test_calibration_is_a_share_of_the_plain_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "tiny", tiny)
    (row,) = calibrate.run("tiny", rounds=1, images=2)
    assert row["ratio"] == pytest.approx(row["peer"]["cpu_median_ms"] / row["ours"]["cpu_median_ms"], rel=0.05)


def test_help_imports_neither_numpy_nor_onnx() -> None:
    start.check_imports()


def test_the_least_cpu_of_help_is_held_to_the_budget() -> None:
    budget, bare = start.run(rounds=1)
    assert budget["ratio"] == pytest.approx(200 / budget["ours"]["cpu_min_ms"], rel=0.01)
    assert bare["target"] is None


def test_an_installed_vela_is_a_peer_where_it_has_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "vela"
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 5.2.0 || test -f "$1"\n')
    program.chmod(0o755)
    (tmp_path / "resnet50.tflite").touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(compile, "compile_once", lambda job: Finished(2.0, 2.0, ""))
    monkeypatch.setattr(compile, "import_once", lambda job: Finished(1.0, 1.0, ""))
    job = compile.Job(tmp_path / "a.onnx", tmp_path / "a.json", tmp_path / "a.axm")
    _, row = compile.compare("resnet50", job, rounds=1, vela=tmp_path)
    assert (row["peer"]["name"], row["peer"]["version"], row["target"]) == ("ethos-u-vela", "5.2.0", None)
