"""Steps, strips and labels of any numbers, under the sanitizers: refused, or inside their buffers."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE, TESTS = ROOT / "axtool" / "native", ROOT / "tests" / "native"
CHECKED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# by the ending of a file's name, as CMakeLists.txt has them
FLAGS = {"avx2": ["-mavx2", "-mfma"], "avx512": [f"-mavx512{part}" for part in ("f", "bw", "vl", "dq", "vnni")]}


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow  # half a minute of compiling
def test_whatever_native_steps_are_told_they_stay_inside_their_buffers(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None or platform.machine() != "x86_64":
        pytest.skip("needs g++ for x86-64")
    common = [compiler, "-std=c++17", "-O1", "-g1", "-ffp-contract=off", *CHECKED, f"-I{NATIVE}"]
    kernels = sorted((NATIVE / "postamble").glob("*.cpp"))
    sources = [file for file in kernels if not file.stem.startswith("bind_") and not file.stem.endswith("_neon")]
    objects = []
    for source in [*sources, NATIVE / "threads.cpp", TESTS / "hostile_main.cpp"]:
        objects.append(str(tmp_path / f"{source.stem}.o"))
        run([*common, *FLAGS.get(source.stem.rpartition("_")[2], []), "-c", str(source), "-o", objects[-1]])
    run([*common, *objects, "-lpthread", "-o", str(tmp_path / "hostile")])
    assert "taken" in run([str(tmp_path / "hostile"), "3000"])
