"""Saved pipelines: what comes back is what was saved, and what is no pipeline is refused with the reason."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from axtool.errors import AxError
from axtool.runtime import Postamble, op
from tests.conftest import Tiny

USER = "tests.runtime.kernels_of_the_user"


class Twice(op.Operator):
    """An operator as a user writes it, at the top of a module."""

    factor: int = 1

    def __call__(self, x: int) -> int:
        return 2 * self.factor * x


def write(path: Path, toml: str, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pipeline.toml", toml)
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_saved_pipeline_gives_the_same_bits_and_prints_the_same(tiny_models: Tiny, tmp_path: Path) -> None:
    kernel = Postamble(kernel=f"{USER}:MapAndChances")
    pipeline = op.seq(op.load(tiny_models / "two.axm", using_postamble=kernel), op.unpack(), op.pack())
    pipeline.save_axe(tmp_path / "x.axe")
    loaded = op.load(tmp_path / "x.axe")
    image = np.random.default_rng(3).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    for got, wanted in zip(loaded(image), pipeline(image), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert [type(step) for step in loaded.operators] == [type(step) for step in pipeline.operators]
    assert loaded.operators[0].postamble == kernel


def test_fields_and_nested_operators_come_back(tmp_path: Path) -> None:
    pipeline = op.seq(
        op.letterbox(64, 32), op.par(op.to_tensor(name="a"), op.to_image_tensor(name="b")), op.for_each(op.top_k(3)),
        op.normalize(mean=[0.5, 0.25], std=[1.0, 2.0]),
    )  # fmt: skip
    pipeline.save_axe(tmp_path / "x.axe")
    op.load(tmp_path / "x.axe").save_axe(tmp_path / "again.axe")
    assert (tmp_path / "x.axe").read_bytes() == (tmp_path / "again.axe").read_bytes()
    assert op.load(tmp_path / "x.axe").operators[0].width == 64


def test_a_function_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Function\.function cannot be saved"):
        op.seq(lambda x: x).save_axe(tmp_path / "x.axe")


def test_a_module_that_cannot_be_imported_is_named_with_where_it_was_looked_for(
    tiny_models: Tiny, tmp_path: Path
) -> None:
    text = 'format = 1\npipeline = {operator = "load", model = "m.axm", postamble = {kernel = "no_such_module:K"}}'
    data = (tiny_models / "two.axm").read_bytes()
    with pytest.raises(ImportError, match=r"cannot import 'no_such_module'.*looked in"):
        op.load(write(tmp_path / "x.axe", text, **{"m.axm": data}))


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("format = ", "Invalid value"),
        ("format = 9", "format 9"),
        ("format = 1", "want a table"),
        ('format = 1\npipeline = {operator = "letterbx"}', "no operator 'letterbx'"),
        (
            'format = 1\npipeline = {operator = "onnx_model", fields = {path = "/etc/passwd"}}',
            "not one that a file",
        ),
        ('format = 1\npipeline = {operator = "load", model = "m.axm"}', "m.axm is missing"),
        ('format = 1\npipeline = {operator = "seq", steps = 3}', "want a list"),
        ('format = 1\npipeline = {operator = "pack"}', "no sequence"),
        ("#" * (1 << 21), "larger than"),
    ],
)
def test_a_description_that_is_no_pipeline_is_refused(tmp_path: Path, toml: str, reason: str) -> None:
    with pytest.raises(AxError, match=reason):
        op.load(write(tmp_path / "x.axe", toml))


@pytest.mark.parametrize("member", ["../m.axm", "/m.axm", "code.py"])
def test_members_with_other_names_are_refused(tmp_path: Path, member: str) -> None:
    with pytest.raises(AxError, match=r"only pipeline\.toml and NAME\.axm"):
        op.load(write(tmp_path / "x.axe", "format = 1", **{member: b""}))


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.axe").write_bytes(b"PK nothing")
    with pytest.raises(AxError, match="not a zip"):
        op.load(tmp_path / "x.axe")


def test_a_broken_member_and_wrong_fields_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.axe", "format = 1\n" + "# some text to squeeze\n" * 50)
    data = bytearray(path.read_bytes())
    data[45:60] = b"\xff" * 15
    path.write_bytes(data)
    with pytest.raises(AxError, match="not a pipeline that can be loaded"):
        op.load(path)
    with pytest.raises(AxError, match=r"letterbox: .*widht"):
        op.load(write(path, 'format = 1\npipeline = {operator = "letterbox", fields = {widht = 3}}'))


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ('operator = "load", model = "m.axm", core_alocation = 2', "load: .*core_alocation.*core_allocation"),
        ('operator = "par", step = []', "par: .*step.*steps"),
        ('operator = "letterbox", field = {}', "letterbox: .*field.*fields"),
    ],
)
def test_a_word_that_an_operator_does_not_have_is_refused_with_the_one_that_is_meant(
    tmp_path: Path, entry: str, hint: str
) -> None:
    with pytest.raises(AxError, match=hint):
        op.load(write(tmp_path / "x.axe", f'format = 1\npipeline = {{operator = "seq", steps = [{{{entry}}}]}}'))


def test_what_was_said_of_a_pipeline_comes_back(tmp_path: Path) -> None:
    said = {"name": "Nano", "description": 'finds "all"', "task": "pose"}
    op.seq(op.pack()).save_axe(tmp_path / "x.axe", **said)
    assert op.load(tmp_path / "x.axe").about == said
    op.seq(op.pack()).save_axe(tmp_path / "y.axe")
    assert op.load(tmp_path / "y.axe").about == {"task": "detection"}
    assert op.seq(op.pack()).about == {}


def test_another_suffix_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.zip: a saved pipeline is named \.axe"):
        op.seq(op.pack()).save_axe(tmp_path / "x.zip")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    op.seq(op.pack()).save_axe(tmp_path / "x.axe")
    with pytest.raises(AxError, match="already exists") as caught:
        op.seq(op.identity()).save_axe(tmp_path / "x.axe")
    assert caught.value.hint == "pass force=True to replace it"
    op.seq(op.identity()).save_axe(tmp_path / "x.axe", force=True)
    assert [type(step) for step in op.load(tmp_path / "x.axe").operators] == [op.Identity]


def test_a_file_cannot_say_where_to_write(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Dumper cannot be saved: it belongs to this machine"):
        op.seq(op.dumper(tmp_path)).save_axe(tmp_path / "x.axe")
    dumper = f'{{operator = "dumper", fields = {{folder = "{tmp_path}"}}}}'
    text = f'format = 1\npipeline = {{operator = "seq", steps = [{dumper}]}}'
    with pytest.raises(AxError, match="operator 'dumper' is not one that a file may bring"):
        op.load(write(tmp_path / "y.axe", text))


def test_a_model_that_is_none_is_refused_by_the_name_of_its_member(tiny_models: Tiny, tmp_path: Path) -> None:
    text = 'format = 1\npipeline = {operator = "seq", steps = [{operator = "load", model = "m.axm"}]}'
    whole = (tiny_models / "two.axm").read_bytes()
    for data in (b"", b"no model at all", whole[:200], whole[:-1], whole[:8] + b"}" + whole[9:]):
        with pytest.raises(AxError, match=r"x\.axe/m\.axm: not an \.axm file"):
            op.load(write(tmp_path / "x.axe", text, **{"m.axm": data}))


def test_models_are_read_without_a_temporary_file(
    tiny_models: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    op.seq(op.load(tiny_models / "two.axm"), op.pack()).save_axe(tmp_path / "x.axe")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert isinstance(op.load(tmp_path / "x.axe").operators[0], op.LoadedSeq)


def test_an_optimized_pipeline_is_saved_as_what_it_was_made_of(tiny_models: Tiny, tmp_path: Path) -> None:
    plain = op.seq(
        op.letterbox(8, 8), op.to_tensor(), op.load(tiny_models / "two.axm"), op.pack(),
        op.for_each(op.letterbox(4, 4), op.to_tensor()),
    )  # fmt: skip
    plain.save_axe(tmp_path / "plain.axe")
    plain.optimized().save_axe(tmp_path / "fast.axe")
    assert (tmp_path / "plain.axe").read_bytes() == (tmp_path / "fast.axe").read_bytes()


def test_an_operator_that_no_import_would_find_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    class Inside(op.Operator):
        def __call__(self, x: int) -> int:
            return x

    with pytest.raises(ValueError, match=r"Inside is defined inside test_an_operator.*move it to the top of a module"):
        op.seq(Inside()).save_axe(tmp_path / "x.axe")
    main = type("MainOperator", (op.Operator,), {"__module__": "__main__", "__qualname__": "MainOperator"})
    with pytest.raises(ValueError, match="MainOperator is defined in __main__"):
        op.seq(main()).save_axe(tmp_path / "x.axe")
    assert not list(tmp_path.iterdir())


def test_an_operator_of_ones_own_comes_back_where_its_module_is_imported(tmp_path: Path) -> None:
    op.seq(Twice(3)).save_axe(tmp_path / "x.axe")
    assert op.load(tmp_path / "x.axe")(2) == 12


def test_an_operator_of_a_module_that_is_not_imported_names_it(tmp_path: Path) -> None:
    text = 'format = 1\npipeline = {operator = "seq", steps = [{operator = "sharpen", module = "my_steps"}]}'
    with pytest.raises(AxError, match="operator 'sharpen' is of the module 'my_steps': import that first"):
        op.load(write(tmp_path / "x.axe", text))
