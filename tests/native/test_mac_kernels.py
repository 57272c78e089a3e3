"""The MAC kernels without Python: a C++ program holds each instruction set to the portable loops, in guarded memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ARM = "aarch64-linux-gnu-g++"

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def build(out: Path, *compiler: str, emulate: bool = False) -> Path:
    environment = os.environ | ({"EMULATE_AVX512": "1", "OPT": "-O1"} if emulate else {"OPT": "-O2"})
    subprocess.run(["sh", HERE / "build_mac.sh", "mac_test", out, *compiler], check=True, env=environment)
    return out


def kinds_tested(*command: str | Path) -> set[str]:
    """The instruction sets that a run of the program compared. It fails at the first byte that differs."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return set(run.stdout.split(":")[1].split())


def test_every_instruction_set_of_this_cpu_gives_the_portable_bytes(tmp_path: Path) -> None:
    assert "portable" in kinds_tested(build(tmp_path / "mac_test"), "400")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="emulates x86 on x86")
def test_vnni_kernels_give_the_portable_bytes_on_emulated_instructions(tmp_path: Path) -> None:
    program = build(tmp_path / "mac_test", "g++", emulate=True)
    assert {"avx512vnni", "avxvnni"} <= kinds_tested(program, "600", "5000")


@pytest.mark.skipif(not (shutil.which(ARM) and shutil.which("qemu-aarch64")), reason=f"needs {ARM} and qemu-aarch64")
def test_neon_kernels_give_the_portable_bytes_under_qemu(tmp_path: Path) -> None:
    program = build(tmp_path / "mac_test", ARM)
    assert "neon_dot" in kinds_tested("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", program, "60", "9000")
