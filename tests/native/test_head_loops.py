"""The loops of postamble heads for CPUs that this one may not be: AVX-512 lane by lane, Arm under qemu."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE, TESTS = ROOT / "axtool" / "native", ROOT / "tests" / "native"


def built(folder: Path, compiler: str, loops: str, *flags: str) -> Path:
    """The program that compares the loops of a file with the portable ones."""
    program = folder / loops
    common = ["-std=c++17", "-O2", "-ffp-contract=off", f"-I{NATIVE}", f"-DLOOPS=heads_{loops}"]
    objects = []
    for source, own in (
        (TESTS / "heads_main.cpp", ()),
        (NATIVE / "postamble" / "heads_portable.cpp", ()),
        (NATIVE / "postamble" / f"heads_{loops}.cpp", flags),
    ):
        objects.append(folder / f"{source.stem}.o")
        run([compiler, *common, *own, "-c", str(source), "-o", str(objects[-1])])
    run([compiler, "-static", *map(str, objects), "-o", str(program)])
    return program


def run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_avx512_gives_the_bits_of_the_portable_loops(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None or not subprocess.check_output([compiler, "-dumpmachine"], text=True).startswith("x86_64"):
        pytest.skip("needs g++ for x86-64")
    header = TESTS / "emulate_heads_avx512.h"
    assert run([str(built(tmp_path, compiler, "avx512", "-include", str(header)))]) == "avx512: the same bits\n"


def test_neon_gives_the_bits_of_the_portable_loops(tmp_path: Path) -> None:
    compiler, qemu = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or qemu is None:
        pytest.skip("needs g++-aarch64-linux-gnu and qemu-user")
    assert run([qemu, str(built(tmp_path, compiler, "neon"))]) == "neon: the same bits\n"
