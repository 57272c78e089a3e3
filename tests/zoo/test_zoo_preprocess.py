"""`preprocess` of a config: operators that are read, never run, and mean a preparation of pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.inputs.prepare import Preparation
from axtool.runtime import ColorFormat, Image, op
from axtool.zoo.config_file import read_config
from axtool.zoo.pipeline import steps_of
from axtool.zoo.preprocess import calls_of, preparation_of
from axtool.zoo.recipe_text import recipe_text
from tests.tiny import axzoo

LETTERBOX = "op.seq(op.color_convert('RGB'), op.letterbox(160, 96), op.to_tensor())"
CONFIG = """from axtool.runtime import op

config = {{
    "name": "mine", "title": "a model", "licence": "Apache-2.0",
    "source": {{"kind": "file", "path": "model.onnx"}},
    "calibration": [{{"kind": "file", "path": "mine.py"}}],{more}
}}
preprocess = {preprocess}
raise SystemExit("this module was run")
"""

SAME = (
    LETTERBOX,
    "op.seq(op.letterbox(64, 64, fill_color=(0, 0, 0), anchor='top-left'), op.totensor())",
    "op.seq(op.color_convert('BGR'), op.letterbox(64, 48, (10, 20, 30)), op.to_image_tensor())",
    "op.seq(op.colorconvert('RGB', 'BGR'), op.resize(32, 24), op.to_tensor())",
    "op.seq(op.resize(32, 24, interpolation='nearest'), op.to_tensor())",
    "op.seq(op.resize(size=256), op.center_crop(224), op.to_tensor(), "
    "op.normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))",
    "op.seq(op.resize(32, 24), op.to_image_tensor(), op.normalize([123.7, 116.3, 103.5], [58.4, 57.1, 57.4]))",
    "op.seq(op.resize(32, 24), op.seq(op.to_image_tensor(), op.linear_scaling([127.5], [-1.0])))",
    "op.prepare(size=[48, 64], resize='letterbox', color='BGR', scale=1.0)",
)


@pytest.mark.parametrize("text", SAME)
@pytest.mark.parametrize("shape", [(300, 400, 3), (97, 61, 3), (20, 33, 3)])
def test_the_preparation_gives_what_the_operators_give(text: str, shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
    calls = calls_of(text)
    made = op.seq(*[call.built({}) for call in calls])(Image(pixels, ColorFormat.RGB))
    wanted = Preparation.from_dict(preparation_of(calls)).prepare(pixels)
    np.testing.assert_allclose(np.reshape(made, wanted.shape), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("letterbox", "is no call"),
        ("letterbox(1, 2)", "no call of op.NAME"),
        ("__import__('os').system('ls')", "no call of op.NAME"),
        ("op.letterbox(*sizes)", "not calls of operators with plain values"),
        ("op.letterbox(**sizes)", "named values"),
        ("op.seq(op.letterbox(open('x'), 2), op.to_tensor())", "no call of op.NAME"),
        ("op.letterbox(WIDTH, 2)", "not calls of operators with plain values"),
        ("op.seq(op.leterbox(1, 2))", "did you mean letterbox"),
        ("op.seq(op.__class__())", "has no place in front of a model"),
        ("op.seq(op.letterbox(0, 2), op.to_tensor())", "at least 1x1"),
        ("op.seq(op.letterbox(8, 8, colour=3), op.to_tensor())", "colour"),
        ("op.seq(op.letterbox(8, 8))", "op.to_tensor is missing"),
        ("op.seq(op.to_tensor(), op.letterbox(8, 8))", "its place is in front of to_tensor"),
        ("op.seq(op.normalize([0.5], [0.5]), op.to_tensor())", "its place is behind to_tensor"),
        ("op.seq(op.letterbox(8, 8), op.resize(8, 8), op.to_tensor())", "said already"),
        ("op.seq(op.resize(size=9), op.to_tensor())", "wants op.center_crop behind it"),
        ("op.seq(op.center_crop(9), op.to_tensor())", "wants op.resize(size=N) in front"),
        ("op.seq(op.nms(), op.to_tensor())", "has no place in front of a model"),
        ("op.seq(op.load('x.axe'))", "has no place in front of a model"),
        ("op.onnx_model('/etc/passwd')", "has no place in front of a model"),
        ("op.letterbox(op.load('x.axe'), 8)", "has no place in front of a model"),
        ("op.seq(op.letterbox(8.5, 8), op.to_tensor())", "want whole numbers"),
        ("op.seq(op.to_tensor(), op.normalize(['a'], [1]))", "could not convert"),
        ("op.seq(op.to_tensor(), op.linear_scaling([1, 2, 3], [1, 2]))", "linear_scaling"),
        ("op.seq(op.resize(8, 8, interpolation='lanczos'), op.to_tensor())", "lanczos"),
        ("op.seq(op.color_convert('RGBA'), op.to_tensor())", "RGB, BGR or GRAY"),
        ("op.seq(op.to_tensor(), op.prepare(scale=1.0))", "its place is"),
        ("op.seq(op.letterbox(8, 8, (1, 2, 3)), op.to_tensor())", "color_convert in front"),
        ("op.seq(3)", "takes operators"),
        ("(", "not calls of operators"),
    ],
)
def test_what_is_no_preprocess_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        preparation_of(calls_of(text))
    assert said in str(caught.value)


def write(folder: Path, preprocess: str, more: str = "") -> Path:
    path = folder / "mine.py"
    path.write_text(CONFIG.format(preprocess=preprocess, more=more))
    return path


def test_a_python_config_says_preprocess_beside_it_and_is_not_run(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, LETTERBOX))
    assert config.preparation == Preparation(size=(96, 160), resize="letterbox", color="RGB", scale=1 / 255)
    assert [call.name for call in steps_of(config).preprocess] == ["color_convert", "letterbox", "to_tensor"]


def test_a_recipe_has_the_operators_of_the_config(tmp_path: Path) -> None:
    text = recipe_text(read_config(write(tmp_path, LETTERBOX)), "m.axm", "m.py")
    steps = ("color_convert('RGB')", "letterbox(160, 96)", "to_tensor()")
    assert "\n".join(["preprocess = op.seq(", *(f"    op.{step}," for step in steps), ")"]) in text


def test_a_yaml_config_may_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ntitle: a model\nlicence: Apache-2.0\nsource: {kind: file, path: model.onnx}\n"
        f"calibration: [{{kind: file, path: mine.yaml}}]\npreprocess: {LETTERBOX}\n"
    )
    assert read_config(path).preparation == read_config(write(tmp_path, LETTERBOX)).preparation


@pytest.mark.parametrize(
    ("preprocess", "more", "said"),
    [
        ("op.seq(op.letterbox(8, SIZE), op.to_tensor())", "", "preprocess: not calls of operators with plain values"),
        (LETTERBOX, ' "input": {},', "preprocess: says what 'input' says"),
        (LETTERBOX, ' "preprocess": "op.to_tensor()",', "'preprocess' is both in config and beside it"),
    ],
)
def test_a_fault_of_preprocess_is_told_with_its_line(tmp_path: Path, preprocess: str, more: str, said: str) -> None:
    path = write(tmp_path, preprocess, more)
    ran = axzoo("check", path)
    assert ran.code == 1
    assert ran.out.startswith(f"{path}:8: {said}")
