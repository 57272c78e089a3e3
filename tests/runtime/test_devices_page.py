"""docs/devices.md: its snippets run as they stand, and its tables say what the code has."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.runtime.devices import machine
from axtool.runtime.devices.boards import _BoardFile, _LinkSection, list_boards

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")


def test_the_snippets_run_in_their_order(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(digits, tmp_path / "model.axm")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names: dict[str, Any] = {"frames": [rng.random((1, 3, 160, 160), np.float32) for _ in range(20)]}
    with machine.simulated():
        for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(block, names)
    assert "DeviceInfo(name='metis-0:1:0', board_model='110m'" in capsys.readouterr().out
    assert len(names["results"]) == 20
    assert (tmp_path / "outputs.npz").stat().st_size > 0
    assert any(array.any() for array in names["outputs"])


def test_every_board_is_in_the_table() -> None:
    assert [name for name in list_boards() if f"| `{name}` |" not in PAGE] == []


def test_every_key_of_a_board_file_is_in_the_table() -> None:
    table = PAGE[PAGE.index("| key |") :]
    keys = [*_BoardFile.model_fields, *(f".{name}" for name in _LinkSection.model_fields)]
    assert [key for key in keys if key != "link" and f"{key}`" not in table] == []
