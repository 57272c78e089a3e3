"""`op.load` of a name: whoever offers models in this environment is asked."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from axtool.errors import UsageError
from axtool.runtime import op


class Offer:
    """An entry point of the group."""

    def __init__(self, name: str, function: Callable[[str], Path | None]) -> None:
        self.name, self.function = name, function

    def load(self) -> Any:
        return self.function


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def put(**functions: Callable[[str], Path | None]) -> None:
        offers = [Offer(name, function) for name, function in functions.items()]
        monkeypatch.setattr(metadata, "entry_points", lambda group: offers if group == "axtool.models" else [])

    return put


def test_a_name_is_loaded_from_the_file_that_is_offered_for_it(offer: Callable[..., None], digits: Path) -> None:
    offer(other=lambda name: None, zoo=lambda name: digits if name == "digits" else None)
    assert op.load("digits").path == digits


def test_a_file_of_that_name_comes_first(
    offer: Callable[..., None], digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(zoo=lambda name: pytest.fail("a file is there"))
    (tmp_path / "digits").write_bytes(digits.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert op.load("digits").path == Path("digits")


def test_a_name_that_nobody_knows_says_who_was_asked(offer: Callable[..., None]) -> None:
    offer(zoo=lambda name: None, mine=lambda name: None)
    with pytest.raises(UsageError, match=r"no model of this name \(asked: mine, zoo\)"):
        op.load("nothing-like-it")


def test_a_name_that_nobody_knows_comes_with_the_nearest_one(offer: Callable[..., None]) -> None:
    from axtool.cli.zoo_built import offered

    offer(zoo=offered, mine=lambda name: None)
    with pytest.raises(UsageError) as caught:
        op.load("digits-v9det")
    assert "did you mean digits-v8det" in caught.value.hint


def test_without_offers_the_message_says_so(offer: Callable[..., None]) -> None:
    offer()
    with pytest.raises(UsageError, match="nobody offers models by name here"):
        op.load("nothing-like-it")


def test_a_missing_axm_is_a_missing_file_and_no_name(offer: Callable[..., None]) -> None:
    offer(zoo=lambda name: pytest.fail("a path with a suffix is no name"))
    with pytest.raises(UsageError, match="no such file"):
        op.load("missing.axm")


def test_the_zoo_offers_its_models_by_name_and_by_task_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from axtool.cli import zoo_built

    monkeypatch.setattr(zoo_built, "built", lambda name: Path(f"{name}.axm"))
    for name in ("digits-v8det", "detection/digits-v8det"):
        assert zoo_built.offered(name) == Path("digits-v8det.axm")


@pytest.mark.parametrize("name", ["nothing-like-it", "text/digits-v8det", "", "../digits-v8det", "a/b/digits-v8det"])
def test_the_zoo_knows_no_other_names(name: str) -> None:
    from axtool.cli.zoo_built import offered

    assert offered(name) is None


@pytest.mark.skipif("axtool" not in {one.metadata["Name"] for one in metadata.distributions()}, reason="not installed")
def test_the_installed_package_registers_the_zoo() -> None:
    assert "axtool.cli.zoo_built:offered" in [offer.value for offer in metadata.entry_points(group="axtool.models")]
