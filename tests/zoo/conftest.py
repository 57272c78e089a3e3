"""The bundled detector, compiled once a session, in a hurry: few samples, one recipe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from axtool.cli.console import Progress
from axtool.compiler import compile_file
from axtool.options import options_of
from axtool.zoo.catalogue import find
from axtool.zoo.recipe import recipe_of


@pytest.fixture(scope="session")
def digits_axm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .axm of digits-v8det."""
    path = tmp_path_factory.mktemp("digits") / "digits-v8det.axm"
    recipe = recipe_of(find("digits-v8det"))
    options = replace(options_of(recipe), limit=12, method="minmax", optimize=0, layer_check=False)
    compile_file(recipe.model, path, options, Progress(quiet=True))
    return path


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where compiled files are kept: not in the user's cache, which holds what was fetched."""
    folder = tmp_path / "kept"
    monkeypatch.setattr("axtool.zoo.built.cache_dir", lambda: folder)
    return folder
