"""The loops of postamble kernels for CPUs that this one may not be: AVX-512 lane by lane, Arm under qemu."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from axtool.runtime.mega.byte_functions import native_module

ROOT = Path(__file__).resolve().parents[2]
PREFIX = {"heads": "heads", "labels": "labels", "bytes": "loops"}  # of the name of the loops in a file
NATIVE, TESTS = ROOT / "axtool" / "native", ROOT / "tests" / "native"


def built(folder: Path, compiler: str, family: str, loops: str, *flags: str) -> Path:
    """The program that compares the loops of a file with the portable ones."""
    program = folder / loops
    common = ["-std=c++17", "-O2", "-ffp-contract=off", f"-I{NATIVE}", f"-DLOOPS={PREFIX[family]}_{loops}"]
    objects = []
    for source, own in (
        (TESTS / f"{family}_main.cpp", ()),
        (NATIVE / "postamble" / f"{family}_portable.cpp", ()),
        (NATIVE / "postamble" / f"{family}_{loops}.cpp", flags),
    ):
        objects.append(folder / f"{source.stem}.o")
        run([compiler, *common, *own, "-c", str(source), "-o", str(objects[-1])])
    run([compiler, "-static", *map(str, objects), "-o", str(program)])
    return program


def run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def x86_compiler() -> str:
    compiler = shutil.which("g++")
    if compiler is None or not subprocess.check_output([compiler, "-dumpmachine"], text=True).startswith("x86_64"):
        pytest.skip("needs g++ for x86-64")
    return compiler


def test_avx512_gives_the_bits_of_the_portable_heads(tmp_path: Path) -> None:
    header = TESTS / "emulate_heads_avx512.h"
    program = built(tmp_path, x86_compiler(), "heads", "avx512", "-include", str(header))
    assert run([str(program)]) == "avx512: the same bits\n"


@pytest.mark.parametrize("family", ["bytes", "labels"])
def test_avx512_gives_the_bits_of_the_portable_loops(family: str, tmp_path: Path) -> None:
    native = native_module()
    if native is None or "avx2" not in native.postamble_backends():
        pytest.skip("needs a CPU with AVX2")
    flags = ("-mavx2", "-Wno-psabi", "-include", str(TESTS / "as_avx512.h"))
    assert run([str(built(tmp_path, x86_compiler(), family, "avx512", *flags))]) == "avx512: the same bits\n"


@pytest.mark.parametrize("family", sorted(PREFIX))
def test_neon_gives_the_bits_of_the_portable_loops(family: str, tmp_path: Path) -> None:
    compiler, qemu = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or qemu is None:
        pytest.skip("needs g++-aarch64-linux-gnu and qemu-user")
    assert run([qemu, str(built(tmp_path, compiler, family, "neon"))]) == "neon: the same bits\n"
