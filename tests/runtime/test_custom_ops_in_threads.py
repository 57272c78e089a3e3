"""Custom ops on several cores at once: a reference that fills memory of its own, and the manual's C function."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from axtool.cli.main import app
from axtool.custom import load_custom_ops
from axtool.ops import custom
from axtool.runtime import op
from tests.graph.test_pass_match_custom import block, model
from tests.runtime.many_threads import assert_same_in_threads

REFERENCE = "def reference(inputs: list[np.ndarray], numbers: np.ndarray) -> np.ndarray:\n"
WITH_SCRATCH = f"""
import time
_scratch = {{}}

def kept(shape):
    return _scratch.setdefault(shape, np.empty(shape, np.int8))

def slowly(reference):
    def same(inputs, numbers):
        memory = kept(inputs[0].shape)
        memory[...] = inputs[0]
        time.sleep(1e-4)  # other threads run
        made = _scratch.setdefault(("made", memory.shape), np.empty(memory.shape, np.int8))
        made[...] = reference([memory], numbers)
        time.sleep(1e-4)
        return made
    return same

@slowly
{REFERENCE}"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    custom.forget()


def loaded(folder: Path, ops: str) -> op.LoadedSeq:
    """A model with a custom op between two convolutions, and the op known to this process."""
    file, axm = folder / "my_ops.py", folder / "model.axm"
    file.write_text(ops)
    words = ["compile", model(folder / "model.onnx"), "--calib", "random:4", "--custom-ops", file, "-o", axm, "-q"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    custom.forget()
    load_custom_ops(file)
    found = op.load(axm)
    assert isinstance(found, op.LoadedSeq)
    return found


def frames() -> list[tuple[np.ndarray]]:
    return [(np.random.default_rng(seed).normal(size=(1, 3, 20, 36)).astype(np.float32),) for seed in range(4)]


def test_a_reference_is_called_for_one_frame_at_a_time(tmp_path: Path) -> None:
    ops = block("python")
    assert REFERENCE in ops
    assert_same_in_threads(loaded(tmp_path, ops.replace(REFERENCE, WITH_SCRATCH)), frames())


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_c_function_gives_each_thread_the_bits_of_one(tmp_path: Path) -> None:
    (tmp_path / "snake.c").write_text(block("c"))
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "snake.c", "-o", "snake.so"], cwd=tmp_path, check=True)
    ops = block("python").replace(
        "    prepare=prepare,\n",
        '    prepare=prepare,\n    native=(Path(__file__).with_name("snake.so"), "snake"),\n',
    )
    assert_same_in_threads(loaded(tmp_path, "from pathlib import Path\n" + ops), frames())
