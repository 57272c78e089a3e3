"""`axtool compile --directives`: what a file of directives changes, what the .axm keeps of it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from axtool.artefact import axm
from tests import tiny
from tests.tiny import Ran, axtool

NET = """(float[1,4,16,16] x) => (float[1,4,16,16] y) {
  a = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, w1)
  r = Relu(a)
  y = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (r, w2)
}"""


@pytest.fixture
def net(work: Path) -> Path:
    np.savez(work / "d.npz", x=np.random.default_rng(3).normal(0, 1, (4, 4, 16, 16)).astype(np.float32))
    return tiny.save(work / "net.onnx", NET, {"w1": (32, 4, 3, 3), "w2": (4, 32, 3, 3)})


def told(work: Path, *entries: dict[str, object]) -> Path:
    path = work / "d.yaml"
    path.write_text(yaml.safe_dump({"schema": "axtool.directives/1", "directives": list(entries)}))
    return path


def compiled(net: Path, *words: object) -> Ran:
    return axtool("compile", net, "--calib", "d.npz", "-O", "0", "-o", "m.axm", "--force", *words)


def names(net: Path) -> list[str]:
    assert compiled(net).code == 0
    return [layer.name for layer in axm.read(Path("m.axm")).device_stages[0].plan.program.layers]


def test_a_directive_reaches_the_plan_and_the_file_says_so(net: Path, work: Path):
    first = names(net)[0]
    path = told(work, {"layers": first, "residency": "ext", "tile": {"rows": 4}})
    assert compiled(net, "--directives", path).code == 0
    artefact = axm.read(Path("m.axm"))
    plan = artefact.device_stages[0].plan
    assert {c.tile.h for c in plan.commands if c.kind == "compute" and c.layer == 0} == {4}
    stored = artefact.provenance["directives"]["directives"]
    assert stored == [{"layers": [first], "residency": "ext", "tile": {"rows": 4}}]
    assert f"1 directive: {first} (residency, tile)" in axtool("info", "m.axm").out


def test_a_file_without_directives_says_nothing_of_them(net: Path):
    names(net)
    assert "directives" not in axm.read(Path("m.axm")).provenance


def test_a_pattern_that_matches_nothing_ends_with_the_nearest_names(net: Path, work: Path):
    first = names(net)[0]
    ran = compiled(net, "--directives", told(work, {"layers": f"{first}x", "prefetch": False}))
    assert ran.code == 2
    assert "matches no layer" in ran.err
    assert f"did you mean {first}" in ran.err


def test_every_fault_of_the_file_is_told_before_anything_is_calibrated(net: Path, work: Path):
    ran = compiled(net, "--directives", told(work, {"layers": "*", "tile": {"rows": 0}, "resident": "ocm"}))
    assert ran.code == 2
    assert "directives[0].tile.rows" in ran.err
    assert "directives[0].resident: unknown key; did you mean residency" in ran.err


def test_a_tile_that_does_not_fit_ends_with_exit_6(net: Path, work: Path):
    (work / "chip.yaml").write_text(yaml.safe_dump(small_chip()))
    path = told(work, {"layers": "*", "residency": "ext", "tile": {"rows": 16}})
    ran = compiled(net, "--directives", path, "--target", "chip.yaml")
    assert ran.code == 6, ran.err


def test_the_file_of_directives_is_never_written_over(net: Path, work: Path):
    path = told(work, {"layers": "*", "prefetch": False}).rename(work / "d.axm")
    ran = axtool("compile", net, "--calib", "d.npz", "-o", path, "--force", "--directives", path)
    assert ran.code == 2
    assert "is an input of this command" in ran.err


def small_chip() -> dict[str, object]:
    from axtool.target_file import load_target, set_values, target_to_dict

    values = target_to_dict(set_values(load_target("qc-u-1d5-8mb"), {"memory.ocm_bytes": 8192}))
    return {**values, "name": "small"}
