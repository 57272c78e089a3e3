"""The loops that a layer's time goes to, as the compiler wrote them: nothing in them goes through memory and back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MAC = Path(__file__).parents[2] / "axtool" / "native" / "mac"
FLAGS = ["-O3", "-fPIC", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"]
TILE = """
#include <immintrin.h>
#include "mac_avx512_conv.h"
auto *tile = &axtool::avx512_sums_of<10, 2>;
"""

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64" or shutil.which("g++") is None, reason="reads what g++ makes for x86-64"
)


def inner_loops(assembly: str) -> list[list[str]]:
    """The instructions from each label to a jump back to it, where no other label lies between."""
    lines, at, loops = assembly.splitlines(), dict[str, int](), list[list[str]]()
    for i, line in enumerate(lines):
        if label := re.match(r"(\.L\d+):", line):
            at[label[1]] = i
        if (jump := re.match(r"\tj\w+\t(\.L\d+)", line)) and jump[1] in at:
            body = lines[at[jump[1]] + 1 : i + 1]
            if not any(re.match(r"\.L\d+:", b) for b in body):
                loops.append(body)
    return loops


def test_the_loop_of_a_whole_avx512_tile_keeps_all_it_needs_in_registers() -> None:
    command = ["g++", "-std=c++17", *FLAGS, "-I", str(MAC), "-x", "c++", "-S", "-", "-o", "-"]
    compiled = subprocess.run(command, input=TILE, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    whole = [b for b in inner_loops(compiled.stdout) if sum("vpdpbusd" in line for line in b) == 20]
    assert len(whole) == 1
    assert [line for line in whole[0] if re.search(r"\(%r[sb]p[,)]", line)] == []
    assert len(whole[0]) <= 40
