"""`--custom-ops`: the manual's example compiled and run by both engines, its cost on the clock, and files that fail."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from axtool.cli.main import app
from axtool.custom import load_custom_ops
from axtool.errors import UsageError
from axtool.graph.front import Reading, read_front
from axtool.ops import custom
from axtool.sim.custom_functions import FUNCTION, CustomFunctions
from axtool.target_file import load_target
from tests.graph.test_pass_match_custom import block, model

WHOLE = """
import numpy as np
from axtool.custom import CustomOp

def prepare(case):
    (x,), y = case.inputs, case.output
    return np.array([x.scale[0] / y.scale[0], y.zero_point[0]])

def reference(inputs, numbers):
    ratio, zero = numbers.view(np.float64)
    x = inputs[0].astype(np.float64)
    q = (x - x.max(axis=(0, 1))) * ratio + zero
    return np.clip(np.rint(q), -128, 127).astype(np.int8)

below_peak = CustomOp("BelowPeak (x) => (y) { m = GlobalMaxPool (x) y = Sub (x, m) }", reference, prepare,
                      reads="whole", cost=lambda h, w, c: 1000.0)
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    custom.forget()


def run(*words: object) -> str:
    """The output of a command that succeeds. What a file of ops made known is forgotten afterwards, as in a shell."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    custom.forget()
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def compiled(folder: Path, ops: str, body: str | None = None, *more: object) -> tuple[Path, Path]:
    """(the ops' file, the .axm) of the model with a custom op between two convolutions."""
    file, axm = folder / "my_ops.py", folder / "model.axm"
    file.write_text(ops)
    source = model(folder / "model.onnx", *([body] if body else []))
    run("compile", source, "--calib", "random:4", "--custom-ops", file, "-o", axm, "--check", "-q", *more)
    return file, axm


def outputs(axm: Path, file: Path, engine: str) -> np.ndarray:
    feed, out = axm.with_name("feed.npy"), axm.with_name(f"{engine}.npz")
    np.save(feed, np.random.default_rng(3).normal(size=(1, 3, 20, 36)).astype(np.float32))
    run("run", axm, feed, "--custom-ops", file, "--engine", engine, "--threads", 2, "-o", out, "--force", "-q")
    return np.load(out)["z"]


@pytest.mark.parametrize("ops", [block("python"), WHOLE], ids=["a pixel op", "an op of the whole tensor"])
def test_both_engines_give_the_same_bits_in_one_device_stage(tmp_path: Path, ops: str) -> None:
    body = "m = GlobalMaxPool (c) y = Sub (c, m)" if ops == WHOLE else None
    file, axm = compiled(tmp_path, ops, body)
    np.testing.assert_array_equal(outputs(axm, file, "native"), outputs(axm, file, "reference"))
    document = json.loads(run("info", axm, "--custom-ops", file, "--json"))
    assert [stage["kind"] for stage in document["stages"]] == ["device"]


def test_the_device_agrees_with_onnxruntime(tmp_path: Path) -> None:
    file, axm = compiled(tmp_path, block("python"))
    document = json.loads(
        run("verify", axm, "--against", tmp_path / "model.onnx", "--data", "random:2", "--custom-ops", file, "--json")
    )
    assert document["verdict"] == "passed"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_manuals_c_function_gives_the_references_bits(tmp_path: Path) -> None:
    (tmp_path / "snake.c").write_text(block("c"))
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "snake.c", "-o", "snake.so"], cwd=tmp_path, check=True)
    ops = block("python").replace(
        "    prepare=prepare,\n",
        '    prepare=prepare,\n    native=(Path(__file__).with_name("snake.so"), "snake"),\n',
    )
    file, axm = compiled(tmp_path, "from pathlib import Path\n" + ops)
    np.testing.assert_array_equal(outputs(axm, file, "native"), outputs(axm, file, "reference"))


def test_the_clock_charges_what_the_op_says_it_costs(tmp_path: Path) -> None:
    cycles = []
    for each in (1000.0, 5000.0):
        folder = tmp_path / str(each)
        folder.mkdir()
        file, axm = compiled(folder, block("python").replace("channels: 4.0 *", f"channels: {each} *"))
        cycles.append(json.loads(run("profile", axm, "--custom-ops", file, "--json"))["cycles"])
    fills = 1 * 2 * 7  # 20 x 36 pixels are two tiles of 32 x 32; 7 channels
    assert cycles[1] - cycles[0] == 4000 * fills


@pytest.mark.parametrize(
    ("was", "line", "said"),
    [
        ('    return "" if', "    1 / 0", "limit of custom op 'Snake' fails: ZeroDivisionError"),
        ('    return "" if', "    return None", "limit of custom op 'Snake' returns None"),
        ("    (x,), y = case", "    raise SystemExit(0)", "prepare of custom op 'Snake' at 'y' fails: SystemExit: 0"),
        ("    (x,), y = case", "    return 'numbers'", "prepare of custom op 'Snake' returns <U7"),
    ],
)
def test_what_a_users_functions_do_at_compile_time_is_told(tmp_path: Path, was: str, line: str, said: str) -> None:
    ops = block("python")
    assert was in ops
    file = tmp_path / "my_ops.py"
    file.write_text(ops.replace(was, f"{line}\n{was}", 1))
    source, axm = model(tmp_path / "model.onnx"), tmp_path / "model.axm"
    done = CliRunner().invoke(
        app, ["compile", str(source), "--calib", "random:2", "-O", "0", "--custom-ops", str(file), "-o", str(axm)]
    )
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)
    assert not axm.exists()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_c_function_that_fails_is_told_with_its_number_and_the_ops_name(tmp_path: Path) -> None:
    (tmp_path / "snake.c").write_text("int snake(void) { return 5; }")
    subprocess.run(["cc", "-shared", "-fPIC", "snake.c", "-o", "snake.so"], cwd=tmp_path, check=True)
    native = f"    native=({str(tmp_path / 'snake.so')!r}, 'snake'),\n"
    file, axm = compiled(tmp_path, block("python"), None, "--no-layer-check", "-O", "0")
    file.write_text(block("python").replace("    prepare=prepare,\n", "    prepare=prepare,\n" + native))
    np.save(tmp_path / "feed.npy", np.zeros((1, 3, 20, 36), np.float32))
    done = CliRunner().invoke(app, ["run", str(axm), str(tmp_path / "feed.npy"), "--custom-ops", str(file)])
    assert isinstance(done.exception, UsageError)
    assert re.search("custom op returned 5; .*Snake", str(done.exception))


def test_ctrl_c_within_a_reference_is_not_lost_in_c() -> None:
    def interrupted(inputs, numbers):  # type: ignore[no-untyped-def]
        raise KeyboardInterrupt

    op = custom.CustomOp("Nap (x) => (y) { y = Sin (x) }", interrupted)
    custom.add(op)
    functions = CustomFunctions([op.id])
    dims, pixel = (ctypes.c_int64 * 6)(1, 1, 1, 1, 1, 1), (ctypes.c_int8 * 1)()
    inputs = (ctypes.POINTER(ctypes.c_int8) * 1)(ctypes.cast(pixel, ctypes.POINTER(ctypes.c_int8)))
    call = ctypes.cast(functions.addresses[op.id], FUNCTION)
    assert call(inputs, 1, dims, (ctypes.c_uint8 * 1)(), 1, pixel) != 0
    assert isinstance(functions.take_failure(), KeyboardInterrupt)


def test_an_op_that_stands_nowhere_in_the_model_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "ops.py"
    file.write_text(
        "from axtool.custom import CustomOp\n"
        "a = CustomOp('Nowhere (x) => (y) { y = Acosh (x) }', lambda inputs, numbers: inputs[0])\n"
    )
    load_custom_ops(file)
    read_front(model(tmp_path / "model.onnx"), load_target("qc-u-1d7-16mb"), Reading())
    assert "as the pattern says of custom op 'Nowhere'" in caplog.text


def test_a_file_without_its_ops_is_refused_by_name(tmp_path: Path) -> None:
    _, axm = compiled(tmp_path, block("python"))
    done = CliRunner().invoke(app, ["profile", str(axm)])
    assert isinstance(done.exception, UsageError)
    assert "--custom-ops" in done.exception.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("x = (", "SyntaxError"),
        ("x = 1", "defines no custom op"),
        (
            "from axtool.custom import CustomOp\na = CustomOp('A (x) => (y) { y = Sin(x) ', lambda i, n: i[0])",
            "does not parse",
        ),
        (
            "from axtool.custom import CustomOp\n"
            "a = CustomOp('A (x) => (y) { s = Sin(x) y = Add(s, z) }', lambda i, n: i[0])",
            "makes 'z'",
        ),
        (
            "from axtool.custom import CustomOp\na = CustomOp('Conv (x) => (y) { y = Sin(x) }', lambda i, n: i[0])",
            "already",
        ),
        (
            "from axtool.custom import CustomOp\n"
            "a = CustomOp('A (x) => (y) { y = Sin(x) }', lambda i, n: i[0], native=('no.so', 'f'))",
            "is not there",
        ),
    ],
)
def test_a_bad_file_is_told_in_words(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "ops.py"
    file.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        load_custom_ops(file)
    assert caught.value.hint


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise KeyError('lost')", "KeyError: 'lost'"),
        ("return inputs[0][:1]", r"want int8\[20, 3[26], 7\]"),
        ("return inputs[0].astype(np.float32)", "float32"),
        ("raise SystemExit(0)", "fails: SystemExit: 0"),
    ],
)
def test_a_reference_that_fails_is_told_with_the_ops_name(tmp_path: Path, engine: str, line: str, said: str) -> None:
    good = "    return numbers.view(np.int8)[inputs[0].astype(np.int64) + 128]"
    file, axm = compiled(tmp_path, block("python"), None, "--no-layer-check", "-O", "0")
    file.write_text(block("python").replace(good, f"    {line}"))
    np.save(tmp_path / "feed.npy", np.zeros((1, 3, 20, 36), np.float32))
    done = CliRunner().invoke(
        app, ["run", str(axm), str(tmp_path / "feed.npy"), "--custom-ops", str(file), "--engine", engine]
    )
    assert isinstance(done.exception, UsageError)
    assert re.search(f"custom op 'Snake' .*{said}", str(done.exception))
