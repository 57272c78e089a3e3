import os
import pickle

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.inputs.preprocess import load_preprocess
from axtool.inputs.samples import InputSpec, open_samples

X = InputSpec("x", (1, 3, 8, 8))

GOOD = """
import numpy as np

def half(image):
    assert image.dtype == np.uint8 and image.shape[2] == 3
    return image[:8, :8].transpose(2, 0, 1).astype(np.float32) / 2

def pixels(image):
    return image.transpose(2, 0, 1)

def nothing(image):
    return None

def fails(image):
    return image[0][
        "key"
    ]

def small(image):
    return np.zeros((3, 4, 4), np.float32)

def broken(image):
    return np.full((3, 8, 8), np.nan, np.float32)

def large(image):
    return np.zeros((3, 8, 8))
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "prep.py").write_text(GOOD)
    np.save(tmp_path / "x.npy", np.full((2, 3, 8, 8), 100, np.uint8))
    return tmp_path / "prep.py"


def feeds(file, name):
    return list(open_samples(file.parent / "x.npy", [X], preprocess=f"{file}:{name}"))


def refusal(file, name):
    with pytest.raises(UsageError) as caught:
        feeds(file, name)
    return str(caught.value)


def test_the_function_gets_rgb_pixels_and_may_leave_out_the_batch_axis(file):
    first, second = feeds(file, "half")
    assert first["x"].shape == second["x"].shape == (1, 3, 8, 8)
    assert first["x"].max() == 50


def test_a_fault_inside_is_told_with_file_and_line(file):
    line = GOOD[: GOOD.index("return image[0]")].count("\n") + 1
    assert refusal(file, "fails").startswith(f"{file}:{line}: IndexError: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing", "returned NoneType, want an array"),
        ("small", "expected 8x8 got 4x4"),
        ("broken", "192 NaN of 192 values"),
        ("pixels", "uint8 values for a float input"),
    ],
)
def test_a_result_that_cannot_be_fed_is_refused(file, name, text):
    assert text in refusal(file, name)


def test_float64_results_are_cast(file):
    assert feeds(file, "large")[0]["x"].dtype == np.float32


def test_an_unknown_function_is_refused_with_the_nearest(file):
    with pytest.raises(UsageError, match="no function 'harf'") as caught:
        load_preprocess(f"{file}:harf")
    assert "half" in caught.value.hint


@pytest.mark.parametrize("text", ["prep.py", "prep.py:", "prep.py:a b", "none.py:half"])
def test_what_names_no_function_is_refused(text):
    with pytest.raises(UsageError):
        load_preprocess(text)


@pytest.mark.parametrize(
    ("source", "text"),
    [("x = 1\ny = (", r"p\.py:2: SyntaxError"), ("\nimport nowhere", r"p\.py:2: ModuleNotFound"), ("exit()", "p.py:1")],
)
def test_a_file_that_cannot_be_loaded_is_told_with_its_line(tmp_path, source, text):
    (tmp_path / "p.py").write_text(source)
    with pytest.raises(UsageError, match=text):
        load_preprocess(f"{tmp_path / 'p.py'}:f")


def test_it_travels_to_another_process_by_name(file):
    function = load_preprocess(f"{file}:half")
    assert pickle.loads(pickle.dumps(function)) == function


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("sys.exit(0)", "it ended the program, SystemExit(0)"),
        ("sys.exit()", "it ended the program, SystemExit"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise BaseException('own')", "BaseException: own"),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_what_would_end_the_program_is_a_fault_with_file_and_line(tmp_path, statement, text, inside):
    np.save(tmp_path / "x.npy", np.full((2, 3, 8, 8), 100, np.uint8))
    path = tmp_path / "prep.py"
    body = f"    {statement}\n" if inside else f"    return image\n{statement}\n"
    path.write_text(f"import sys\ndef f(image):\n{body}")
    assert refusal(path, "f").startswith(f"{path}:{3 if inside else 4}: {text}")


def test_an_interrupt_inside_is_no_fault(tmp_path):
    np.save(tmp_path / "x.npy", np.full((2, 3, 8, 8), 100, np.uint8))
    (tmp_path / "prep.py").write_text("def f(image):\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        feeds(tmp_path / "prep.py", "f")


def test_a_pipe_is_no_python_file(tmp_path):
    os.mkfifo(tmp_path / "prep.py")
    with pytest.raises(UsageError, match="is a pipe"):
        load_preprocess(f"{tmp_path / 'prep.py'}:f")


def test_a_file_that_is_gone_or_another_one_is_not_remembered(tmp_path, monkeypatch):
    made = {}
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "p.py").write_text(f"def f(image):\n    return image + {number}\n")
        monkeypatch.chdir(folder)
        made[number] = load_preprocess("p.py:f")(np.zeros((1, 1, 3), np.uint8)).max()
    assert made == {1: 1, 2: 2}
    (tmp_path / "2" / "p.py").unlink()
    with pytest.raises(UsageError, match="cannot read"):
        load_preprocess("p.py:f")
