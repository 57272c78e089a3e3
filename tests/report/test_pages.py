"""The pages that are written by hand: their examples are read by the code that they speak of."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from axtool.quant.recipe_file import list_recipes, recipe_from_dict
from axtool.report.profile_text import DROPPED
from axtool.runtime.detect import DECODERS
from axtool.zoo.schema import Config
from tests.tiny import axtool

ROOT = Path(__file__).parent.parent.parent
ZOO_PAGE = (ROOT / "docs" / "zoo.md").read_text(encoding="utf-8")


def test_the_example_of_a_zoo_config_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", ZOO_PAGE, re.DOTALL)
    assert Config.model_validate(yaml.safe_load(text)).name == "my-detector"


def test_every_field_of_a_zoo_config_is_explained() -> None:
    table = "\n".join(line for line in ZOO_PAGE.splitlines() if line.startswith("|"))
    assert [name for name in Config.model_fields if f"`{name}`" not in table] == []


def test_every_decoder_is_named() -> None:
    assert [name for name in DECODERS if f"`{name}`" not in ZOO_PAGE] == []


def test_a_picture_is_saved_of_a_model_that_knows_its_task() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index("--task detection:yolo") < text.index("--save annotated.png")


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_demo_installs_no_tools_of_developers(tmp_path: Path) -> None:
    dry = {
        goal: subprocess.run(
            ["make", "-n", f"VENV={tmp_path / 'venv'}", goal], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for goal in ("demo", "test")
    }
    assert "--group dev" not in dry["demo"]
    assert all("--editable ." in text for text in dry.values())
    assert "--group dev" in dry["test"]


QUANT_PAGE = (ROOT / "docs" / "quantization.md").read_text(encoding="utf-8")


def test_the_examples_of_recipe_files_are_some() -> None:
    texts = re.findall(r"```yaml\n(.*?)```", QUANT_PAGE, re.DOTALL)
    assert [len(recipe_from_dict(yaml.safe_load(text)).layers) for text in texts] == [3, 5]


def test_every_recipe_of_the_package_is_explained() -> None:
    assert [name for name in list_recipes() if f"`{name}`" not in QUANT_PAGE] == []


PROFILE_PAGE = (ROOT / "docs" / "profile.md").read_text(encoding="utf-8")


def test_every_column_of_a_profile_is_explained() -> None:
    columns = ("MACs", "cycles", "share", "MAC use", "in mac", "read", "written", *DROPPED)
    table = "\n".join(line for line in PROFILE_PAGE.splitlines() if line.startswith("|"))
    assert [name for name in columns if name not in table] == []


@pytest.mark.parametrize("page", ["README.md", "docs/profile.md"])
def test_the_options_that_a_page_gives_to_profile_are_options(page: str) -> None:
    known = set(re.findall(r"--[a-z-]+", axtool("profile", "--help").out + axtool("targets", "--help").out))
    lines = [line for line in (ROOT / page).read_text().splitlines() if re.match(r"axtool (profile|targets)", line)]
    assert lines
    assert [word for line in lines for word in re.findall(r"--[a-z-]+", line.split("#")[0]) if word not in known] == []
