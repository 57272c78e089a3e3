"""Every document of every command is one that its schema describes, and the schemas in docs/ are those of the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from axtool.report.schemas import SCHEMAS, check_document
from docs import generate
from tests.conftest import Tiny
from tests.tiny import Ran, axtool, axzoo

KERNEL = "tests.runtime.kernels_of_the_user:MapAndChances"
DOCS = Path(generate.__file__).parent
PAGES = generate.pages()


def documents(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Command lines by what they try; all with --json."""
    cls, two, source = folder / "cls.axm", folder / "two.axm", folder / "cls.onnx"
    against = ("--against", source, "--data", folder / "data.npz", "--limit", "2")
    return {
        "compile": (axtool, "compile", source, "--calib", "random:2"),
        "compile from ranges": (axtool, "compile", source, "--ranges", folder / "ranges.json", "-o", "r.axm"),
        "compile nothing": (axtool, "compile", "nothing.onnx"),
        "run": (axtool, "run", cls, folder / "x.npy"),
        "run two stages": (axtool, "run", two, folder / "picture.png"),
        "run float": (axtool, "run", source, folder / "x.npy", "--engine", "float"),
        "run with a kernel": (axtool, "run", two, folder / "picture.png", "--postamble", KERNEL),
        "run with a kernel that is none": (axtool, "run", two, folder / "picture.png", "--postamble", "Yolo"),
        "run a stream": (axtool, "run", cls, folder / "picture.png", "--show-stats"),
        "run a stream of no kind": (axtool, "run", cls, folder / "x.npy", "--show-stats"),
        "run a stream of nothing": (axtool, "run", cls, "nothing.mp4"),
        "run nothing": (axtool, "run", cls),
        "info axm": (axtool, "info", cls),
        "info two stages": (axtool, "info", two),
        "info onnx": (axtool, "info", source),
        "info nothing": (axtool, "info", "nothing.onnx"),
        "profile axm": (axtool, "profile", two),
        "profile onnx": (axtool, "profile", source),
        "profile over a limit": (axtool, "profile", cls, "--max-cycles", "1"),
        "profile beside another": (axtool, "profile", cls, "--compare", two),
        "profile on two chips": (axtool, "profile", source, "--compare-target", "qc-u-1d5-8mb", "--max-cycles", "1"),
        "profile sweep": (
            axtool,
            "profile",
            cls,
            "--sweep",
            "memory.ocm_bytes=64,4MiB",
            "--sweep",
            "clock_hz=1GHz,2GHz",
        ),
        "profile sweep over a limit": (axtool, "profile", cls, "--sweep", "clock_hz=1GHz", "--max-cycles", "1"),
        "profile sweep too small": (axtool, "profile", cls, "--sweep", "memory.ocm_bytes=64"),
        "profile sweep unknown": (axtool, "profile", cls, "--sweep", "memory=64"),
        "profile too small": (axtool, "profile", cls, "--set", "memory.ocm_bytes=64"),
        "verify": (axtool, "verify", cls, *against),
        "verify layers": (axtool, "verify", cls, *against, "--layers"),
        "verify over a limit": (axtool, "verify", cls, *against, "--min-sqnr", "99"),
        "verify a kernel": (axtool, "verify", two, "--data", "random:2", "--postamble", KERNEL),
        "verify a wrong kernel": (axtool, "verify", two, "--data", "random:1", "--postamble", f"{KERNEL},fault=type"),
        "verify not a number": (
            axtool,
            "verify",
            two,
            "--data",
            "random:1",
            "--postamble",
            f"{KERNEL},fault=not a number",
        ),
        "verify a kernel too": (axtool, "verify", cls, *against, "--postamble", "none"),
        "verify nothing": (axtool, "verify", "nothing.axm", *against),
        "targets": (axtool, "targets", "list"),
        "targets show": (axtool, "targets", "show", "qc-u-1d7-16mb"),
        "targets show lists": (axtool, "targets", "show", "metis"),
        "targets check": (axtool, "targets", "check", "dpu-b4096"),
        "devices": (axtool, "devices"),
        "devices of several boards": (axtool, "devices", "list", "--boards", "metis-pcie*2,qc-u", "--devices", "2,0"),
        "devices boards": (axtool, "devices", "boards"),
        "devices show": (axtool, "devices", "show", "metis-m2"),
        "devices check": (axtool, "devices", "check", "qc-u"),
        "devices unknown": (axtool, "devices", "--devices", "metis-0:9:0"),
        "targets unknown": (axtool, "targets", "show", "qc"),
        "version": (axtool, "--version"),
        "no command": (axtool,),
        "unknown option": (axtool, "info", "--nonsense"),
        "axzoo list": (axzoo, "list"),
        "axzoo info": (axzoo, "info", "digits-v8det"),
        "axzoo info unknown": (axzoo, "info", "digits"),
        "axzoo build unknown": (axzoo, "build", "digits"),
        "axzoo version": (axzoo, "--version"),
    }


@pytest.mark.parametrize("name", documents(Path()))
def test_a_document_is_what_its_schema_says(tiny_models: Tiny, work: Path, name: str) -> None:
    run, *words = documents(tiny_models.folder)[name]
    ran: Ran = run(*words, "--json")
    document = ran.document
    check_document(document)
    assert document["tool"]["name"] == "axtool"
    assert (document["status"] == "ok") == (ran.code == 0)


def test_a_document_with_another_key_is_not_one() -> None:
    document = axtool("targets", "--json").document
    with pytest.raises(ValidationError):
        check_document({**document, "more": 1})


def test_every_command_has_a_schema() -> None:
    import typer.main

    from axtool.cli import main, zoo

    names = [*typer.main.get_command(main.app).commands]  # type: ignore[attr-defined]
    names += [f"axzoo.{name}" for name in typer.main.get_command(zoo.app).commands]  # type: ignore[attr-defined]
    more = {"version", "error", "profile.compare", "profile.sweep", "run.stream"}
    assert set(names) | more == set(SCHEMAS)


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_that_repeat_the_code_do_not_drift(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name], "run `python docs/generate.py`"


def test_docs_hold_no_schema_of_a_command_that_is_gone() -> None:
    assert {path.stem for path in (DOCS / "schemas").glob("*.json")} == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_names_itself(name: str) -> None:
    schema = json.loads((DOCS / "schemas" / f"{name}.json").read_text())
    assert schema["$id"] == f"axtool.{name}/1"
