"""Zoo configs and words of `axzoo` that nobody means: refused in a few words, never a bug, never a hang."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from axtool.errors import UsageError
from axtool.zoo.config_file import read_config
from tests.tiny import axzoo

CONFIG: dict[str, Any] = {
    "name": "mine", "title": "a model", "licence": "Apache-2.0", "source": {"kind": "file", "path": "m.onnx"},
    "input": {"size": [8, 8], "resize": "letterbox", "color": "RGB", "scale": 1.0, "fill": [0]},
    "task": {"kind": "classification", "labels": ["a", "b"]},
    "postamble": {"fused_kernel": "ClassificationPostamble", "num_classes": 2},
    "calibration": [{"kind": "file", "path": "p.png"}],
}  # fmt: skip
DEEP: list[Any] = []
for _ in range(28):
    DEEP = [DEEP]
HOSTILE: dict[str, Any] = {
    "less than nothing": -1, "beyond every integer": 2**70, "infinity": float("inf"), "not a number": float("nan"),
    "a long text": "x" * 50_000, "a long list": [1] * 3_000, "a deep list": DEEP,
    "a text with an escape": "\x1b[31mred", "a list of lists": [[]], "a number for a text": 7,
}  # fmt: skip
PLACES = [(key,) for key in CONFIG] + [
    (key, inner) for key, value in CONFIG.items() if isinstance(value, dict) for inner in value
]


class Plain(yaml.SafeDumper):
    """Without anchors: what is written is what is meant."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def written(folder: Path, place: tuple[str, ...], value: Any, suffix: str) -> Path:
    config = {key: dict(inner) if isinstance(inner, dict) else inner for key, inner in CONFIG.items()}
    at: Any = config
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    path = folder / f"mine.{suffix}"
    if suffix == "yaml":
        path.write_text(yaml.dump(config, Dumper=Plain, allow_unicode=True))
    else:
        literal = repr(config).replace("inf", "1e999").replace("nan", "'nan'")
        path.write_text(f"config = {literal}\n")
    return path


@pytest.mark.parametrize("suffix", ["yaml", "py"])
@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_value_that_nobody_means_is_read_or_refused_in_few_words(
    tmp_path: Path, place: tuple[str, ...], suffix: str
) -> None:
    for what, value in HOSTILE.items():
        try:
            read_config(written(tmp_path, place, value, suffix))
        except UsageError as error:
            said = "\n".join((str(error), *error.details))
            assert "mine" in said, what
            assert len(said) < 30_000, what


@pytest.mark.parametrize("command", ["check", "info", "show-config"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_a_config_that_is_no_file_is_refused_at_once(work: Path, command: str, make: Any) -> None:
    for name in ("mine.yaml", "mine.py"):
        make(name)
        assert axzoo(command, name).code in (1, 2)


@pytest.mark.parametrize("out", [".", "", ".."])
def test_a_build_to_a_folder_is_an_error_of_use(work: Path, out: str) -> None:
    ran = axzoo("build", "digits-v8det", "-o", out)
    assert (ran.code, "is a folder; want a file name" in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("command", ["check", "info", "show-config", "build", "run", "eval", "benchmark", "new"])
@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000, "\x1b[31mred", "/dev/zero"])
def test_a_name_that_no_model_has_is_an_error_of_use(work: Path, command: str, name: str) -> None:
    picture = ["picture.png"] if command == "run" else []
    ran = axzoo(command, name, *picture)
    assert ran.code in (1, 2), ran.err
    assert "\x1b" not in ran.out + ran.err
