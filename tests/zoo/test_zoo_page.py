"""docs/zoo.md: its examples are configs, and its table has every field."""

from __future__ import annotations

import re
from pathlib import Path

import axtool
from axtool.zoo.config_file import read_config
from axtool.zoo.schema import Config
from tests.tiny import axzoo

PAGE = (Path(axtool.__file__).parents[1] / "docs" / "zoo.md").read_text(encoding="utf-8")


def example(language: str, opening: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    (text,) = (block for block in blocks if block.startswith(opening))
    return str(text)


def test_the_yaml_and_the_python_example_are_configs_of_the_same_model(tmp_path: Path) -> None:
    (tmp_path / "my-detector.yaml").write_text(example("yaml", "name: my-detector"))
    (tmp_path / "my-detector.py").write_text(example("python", "# my-detector.py"))
    first, second = (read_config(tmp_path / f"my-detector.{ending}") for ending in ("yaml", "py"))
    assert (first.title, first.preparation.size, first.task["labels"]) == (
        second.title, second.preparation.size, second.task["labels"],
    )  # fmt: skip
    assert second.kernel.params == {"num_classes": len(second.task["labels"])}


def test_the_table_has_every_field() -> None:
    table = PAGE[PAGE.index("| field |") : PAGE.index("`file` paths are")]
    assert [key for key in Config.model_fields if f"`{key}`" not in table] == []


def test_every_command_of_the_page_exists() -> None:
    commands = set(re.findall(r"^axzoo +([a-z-]+)", PAGE, flags=re.MULTILINE))
    assert len(commands) > 6
    for command in commands:
        assert axzoo(command, "--help").code == 0
