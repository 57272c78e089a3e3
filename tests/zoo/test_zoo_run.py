"""`axzoo run`: pictures through the config's steps and kernel, on a file that is built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from axtool.errors import UsageError
from axtool.report.schemas import check_document
from axtool.zoo.catalogue import find
from axtool.zoo.loaded import load_entry, pictures_in
from tests.conftest import Tiny
from tests.tiny import Ran, axtool, axzoo
from tests.zoo.test_zoo_build import CONFIG

KERNEL = "postamble: {{fused_kernel: ClassificationPostamble, num_classes: {classes}}}\n"


@pytest.fixture
def mine(tiny_models: Tiny, work: Path) -> Path:
    """A config of one's own for a tiny classifier."""
    path = work / "mine.yaml"
    path.write_text(CONFIG.format(folder=tiny_models.folder, minimum=20))
    return path


def run(tiny_models: Tiny, path: Path, *words: object) -> Ran:
    return axzoo("run", path, tiny_models / "picture.png", *words)


def test_a_model_is_built_the_first_time_and_then_taken_from_the_cache(tiny_models: Tiny, mine: Path) -> None:
    first = run(tiny_models, mine, "--json")
    assert first.code == 0, first.err
    check_document(first.document)
    axm = Path(first.document["axm"])
    built = axm.stat().st_mtime_ns
    assert run(tiny_models, mine, "--json").document["axm"] == str(axm)
    assert axm.stat().st_mtime_ns == built


@pytest.mark.parametrize("change", ["labels: [d, e, f]", "labels: [a, b, c], softmax: true"])
def test_another_config_is_built_anew(tiny_models: Tiny, mine: Path, change: str) -> None:
    before = run(tiny_models, mine, "--json").document["pictures"][0]["result"]
    mine.write_text(mine.read_text().replace("labels: [a, b, c]", change))
    assert run(tiny_models, mine, "--json").document["pictures"][0]["result"] != before


def test_what_is_found_is_what_axtool_run_finds_on_the_same_file(tiny_models: Tiny, mine: Path) -> None:
    document = run(tiny_models, mine, "--json").document
    same = axtool("run", document["axm"], tiny_models / "picture.png", "--json").document
    assert document["pictures"][0]["result"] == same["result"]


def test_the_kernel_of_the_config_runs_and_no_kernel_is_the_tail(digits_axm: Path) -> None:
    picture = find("digits-v8det").file("detection/digits/scene.png")
    words = ("run", "digits-v8det", picture, "--axm", digits_axm, "--json")
    with_kernel, without = axzoo(*words).document, axzoo(*words, "--no-kernel").document
    assert with_kernel["postamble"]["fused_kernel"] == "UltralyticsYoloPostamble"
    assert without["postamble"] is None
    labels = [[row["label"] for row in one["pictures"][0]["result"]["detections"]] for one in (with_kernel, without)]
    assert labels[0] == labels[1] != []


def test_several_pictures_are_drawn_into_a_folder(tiny_models: Tiny, mine: Path, work: Path) -> None:
    (work / "in").mkdir()
    for name in ("one.png", "two.png"):
        (work / "in" / name).write_bytes((tiny_models / "picture.png").read_bytes())
    ran = axzoo("run", mine, work / "in", "--out", work / "found")
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in (work / "found").iterdir()) == ["one.png", "two.png"]
    assert ran.out.count("measured here") == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--out", "found.gif"), "bad-option", "want .png"),
        (("--out", "there.png"), "output-exists", "--force"),
        (("--axm", "gone.axm"), "file-not-found", "gone.axm"),
        (("--target", "qc-u-1d7"), "unknown-target", "qc-u-1d7-16mb"),
        (("--axm", "x.axm", "--target", "qc-u-1d7-16mb"), "bad-option", "leave out --target"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_built(
    tiny_models: Tiny, mine: Path, work: Path, kept: Path, words: tuple[str, ...], code: str, said: str
) -> None:
    (work / "there.png").write_bytes(b"mine")
    ran = run(tiny_models, mine, *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code)
    assert said in ran.err
    assert not kept.exists()


def test_what_is_no_picture_is_refused_with_the_way_to_run_it(tiny_models: Tiny, mine: Path) -> None:
    ran = axzoo("run", mine, tiny_models / "x.npy", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "not-an-image")
    assert "axtool run MODEL.axm" in ran.err


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no pictures"):
        pictures_in([tmp_path])


def test_a_kernel_that_does_not_fit_is_told_with_the_config_and_the_way_round(tiny_models: Tiny, mine: Path) -> None:
    mine.write_text(mine.read_text() + KERNEL.format(classes=99))
    built = ("--axm", tiny_models / "cls.axm")
    ran = run(tiny_models, mine, *built, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-kernel")
    assert "mine.yaml" in ran.err
    assert "--no-kernel" in ran.err
    assert run(tiny_models, mine, *built, "--no-kernel").code == 0


OWN = """from axtool.runtime import op


class {name}(op.Operator):
    def __init__(self, infos, width, height, *, name=""):
        super().__init__(name=name)

    def __call__(self, scores):
        {body}
"""


def test_a_kernel_beside_the_config_is_imported_when_it_is_run(tiny_models: Tiny, mine: Path, work: Path) -> None:
    (work / "beside_kernels.py").write_text(OWN.format(name="BesideTail", body="return scores"))
    mine.write_text(mine.read_text() + "postamble: {kernel: 'beside_kernels:BesideTail'}\n")
    ran = run(tiny_models, mine, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["pictures"][0]["result"]["kind"] == "classification"


def test_a_kernel_that_raises_is_named_with_the_model(tiny_models: Tiny, mine: Path, work: Path) -> None:
    (work / "broken_kernels.py").write_text(OWN.format(name="BrokenTail", body="raise KeyError('no such thing')"))
    mine.write_text(mine.read_text() + "postamble: {kernel: 'broken_kernels:BrokenTail'}\n")
    for command in ("run", "benchmark"):
        ran = axzoo(command, mine, tiny_models / "picture.png", "--json")
        assert (ran.code, ran.document["error"]["code"]) == (2, "bad-kernel")
        assert "kernel BrokenTail failed" in ran.err


def test_an_entry_without_a_kernel_runs_the_tail(tiny_models: Tiny, mine: Path) -> None:
    assert load_entry(find(str(mine)), tiny_models / "cls.axm").model.kernel is None


def test_what_was_built_into_a_file_is_not_built_again(tiny_models: Tiny, mine: Path, work: Path, kept: Path) -> None:
    assert axzoo("build", mine).code == 0
    (axm,) = kept.rglob("*.axm")
    assert axm.read_bytes() == (work / "mine.axm").read_bytes()
    written = axm.stat().st_mtime_ns
    assert run(tiny_models, mine).code == 0
    assert axm.stat().st_mtime_ns == written


def test_a_cache_that_cannot_be_written_is_no_fault_of_a_build(mine: Path, kept: Path) -> None:
    kept.write_text("a file where a folder should be")
    assert axzoo("build", mine).code == 0


@pytest.mark.parametrize(("line", "said"), [("input: {size: [32, 32]}", "32x32"), ("input: {color: GRAY}", "channel")])
def test_an_input_that_is_not_the_models_is_told_as_the_configs_fault(
    tiny_models: Tiny, mine: Path, line: str, said: str
) -> None:
    mine.write_text(f"{mine.read_text()}{line}\n")
    for command in ("run", "benchmark"):
        ran = axzoo(command, mine, tiny_models / "picture.png", "--axm", tiny_models / "cls.axm", "--json")
        assert ran.code == 2
        assert ran.document["error"]["where"] == str(mine)
        assert said in ran.err
        assert "Postamble" not in ran.err


def test_nothing_is_opened_or_imported_by_reading_preprocess(mine: Path, work: Path) -> None:
    (work / "side.py").write_text("import pathlib\npathlib.Path('mark').touch()\n")
    mine.write_text(f"{mine.read_text()}preprocess: op.seq(op.load('side.axe'), op.to_tensor())\n")
    assert axzoo("info", mine).code == 2
    assert not (work / "mark").exists()
