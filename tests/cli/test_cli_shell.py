"""The programs as a shell sees them: help, version, completion, start-up, pipes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer.main

import axtool
from axtool.cli import main, zoo
from tests.conftest import Tiny
from tests.tiny import axtool as run_axtool
from tests.tiny import axzoo as run_axzoo

ROOT = Path(axtool.__file__).resolve().parent.parent
COMMANDS = [("axtool", name) for name in typer.main.get_command(main.app).commands] + [  # type: ignore[attr-defined]
    ("axzoo", name)
    for name in typer.main.get_command(zoo.app).commands  # type: ignore[attr-defined]
]
MAIN = "from axtool.cli.main import main; main()"
RUN = {"axtool": run_axtool, "axzoo": run_axzoo}


def shell(*words: object, code: str = MAIN, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh process."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False, timeout=120)


def test_there_is_a_command_for_every_part_of_the_job() -> None:
    names = {name for program, name in COMMANDS if program == "axtool"}
    assert {"compile", "run", "info", "profile", "verify"} <= names


@pytest.mark.parametrize(("program", "command"), COMMANDS)
def test_help_has_a_description_options_and_examples(program: str, command: str) -> None:
    ran = RUN[program](command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "Usage:" in ran.out
    assert f"    {program} {command}" in ran.out
    for option in ("--json", "--quiet", "--verbose", "--help"):
        assert option in ran.out


@pytest.mark.parametrize("program", ["axtool", "axzoo"])
def test_the_programs_help_has_examples_too(program: str) -> None:
    ran = RUN[program]("-h")
    assert (ran.code, ran.err) == (0, "")
    assert "Examples:" in ran.out


@pytest.mark.parametrize("program", ["axtool", "axzoo"])
def test_no_command_shows_the_help_as_a_usage_error(program: str) -> None:
    ran = RUN[program]()
    assert (ran.code, ran.out) == (2, "")
    assert "Usage:" in ran.err
    assert RUN[program]("--json").document["error"]["code"] == "usage"


@pytest.mark.parametrize("program", ["axtool", "axzoo"])
def test_the_version_is_a_line_or_a_document(program: str) -> None:
    assert RUN[program]("--version").out == f"axtool {axtool.__version__}\n"
    for words in (("--version", "--json"), ("--json", "--version")):
        document = RUN[program](*words).document
        assert document["tool"]["version"] == axtool.__version__
        assert document["packages"]["numpy"]


HEAVY = ["numpy", "onnx", "onnx_ir", "onnxruntime", "onnxsim", "cv2", "av", "yaml", "safetensors"]


@pytest.mark.parametrize("module", ["axtool.cli.main", "axtool.cli.zoo"])
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("info", "--help"), ("nonsense",)])
def test_help_imports_nothing_heavy(module: str, words: tuple[str, ...]) -> None:
    code = (
        "import sys, atexit\n"
        f"heavy = {HEAVY!r}\n"
        "atexit.register(lambda: print('loaded', [n for n in heavy if n in sys.modules], file=sys.stderr))\n"
        f"from {module} import main; main()"
    )
    assert "loaded []" in shell(*words, code=code).stderr


def test_a_model_without_formulas_for_dimensions_loads_no_sympy(tiny_models: Tiny, tmp_path: Path) -> None:
    code = (
        "import sys, atexit\n"
        "names = ['onnx_ir', 'sympy.core']\n"
        "atexit.register(lambda: print('loaded', [n for n in names if n in sys.modules], file=sys.stderr))\n"
        "from axtool.cli.main import main; main()"
    )
    model, ranges = tiny_models / "cls.onnx", tiny_models / "ranges.json"
    ran = shell("compile", model, "--ranges", ranges, "-o", tmp_path / "m.axm", code=code)
    assert "loaded ['onnx_ir']" in ran.stderr


def test_a_dimension_that_is_a_formula_is_read_by_sympy_when_it_is_asked_for() -> None:
    code = (
        "from axtool.cli.late import load_late; load_late()\n"
        "import onnx_ir, sys\n"
        "assert 'sympy.core' not in sys.modules\n"
        "print((onnx_ir.SymbolicDim('n') * 3 + 1).evaluate({'n': 5}))"
    )
    assert shell(code=code).stdout.strip() == "16"


def test_completion_imports_nothing_heavy_and_completes_commands() -> None:
    code = (
        "import sys, atexit\n"
        f"heavy = {HEAVY!r}\n"
        "atexit.register(lambda: print('loaded', [n for n in heavy if n in sys.modules], file=sys.stderr))\n"
        "from axtool.cli.main import main; main()"
    )
    ran = shell(code=code, _AXTOOL_COMPLETE="complete_bash", COMP_WORDS="axtool comp", COMP_CWORD="1")
    assert (ran.returncode, ran.stdout.strip()) == (0, "compile")
    assert "loaded []" in ran.stderr


def test_completion_completes_options() -> None:
    ran = shell(_AXTOOL_COMPLETE="complete_bash", COMP_WORDS="axtool profile --max", COMP_CWORD="2")
    assert ran.stdout.split() == ["--max-latency", "--max-cycles", "--max-external-bytes"]


def test_completion_of_axzoo_is_its_own() -> None:
    ran = shell(
        code="from axtool.cli.zoo import main; main()", _AXZOO_COMPLETE="complete_bash", COMP_WORDS="axzoo bu",
        COMP_CWORD="1",
    )  # fmt: skip
    assert ran.stdout.strip() == "build"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_completion_script_is_shown_for_the_shell(name: str) -> None:
    # Which shell runs the tests must not matter: with detection off the shell is named.
    ran = shell("--show-completion", name, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert ran.returncode == 0
    assert "_AXTOOL_COMPLETE" in ran.stdout


@pytest.mark.parametrize("words", [("--layers",), ("--json",), ("--tensors", "--memory")])
def test_a_reader_that_leaves_is_no_error(tiny_models: Tiny, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", MAIN, "info", str(tiny_models / "cls.axm"), *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), said) == (0, b"")


@pytest.mark.parametrize("words", [(), ("--json",)])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_result_that_does_not_fit_its_disk_is_exit_4(tiny_models: Tiny, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", MAIN, "info", str(tiny_models / "cls.axm"), *words]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )  # fmt: skip
    assert ran.returncode == 4
    assert ran.stderr.startswith("error: No space left on device")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("closed", ["1>&-", "2>&-"])
def test_a_closed_stream_is_no_bug(tiny_models: Tiny, closed: str) -> None:
    command = f'"$0" -c "{MAIN}" info "$1" {closed}'
    ran = subprocess.run(
        ["sh", "-c", command, sys.executable, str(tiny_models / "cls.axm")], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")


def test_ctrl_c_ends_the_work_with_130_and_leaves_nothing(tiny_models: Tiny, work: Path) -> None:
    # A shell that runs the tests in the background makes its children deaf to Ctrl-C; this one listens.
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}"
    command = [sys.executable, "-c", code, "compile", str(tiny_models / "cls.onnx"), "--calib", "random:1000"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True
    )
    assert process.stderr is not None
    with process.stderr as stderr:
        assert any("calibrating" in line for line in iter(stderr.readline, ""))
        process.send_signal(signal.SIGINT)
        said = stderr.read()
    assert (process.wait(60), "error: interrupted" in said, "Traceback" in said) == (130, True, False)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("command", ["axtool", "axzoo"])
def test_ctrl_c_while_the_program_loads_ends_it_without_a_word(tmp_path: Path, command: str) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    ran = subprocess.run(
        [sys.executable, "-c", f"{heard}; from axtool.cli.start import {command}; {command}()", "--help"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="wants /proc")
@pytest.mark.parametrize(
    ("number", "group", "code", "word"),
    [
        (signal.SIGTERM, False, 143, "terminated"),
        (signal.SIGTERM, True, 143, "terminated"),
        (signal.SIGHUP, True, 143, "terminated"),
        (signal.SIGINT, True, 130, "interrupted"),
    ],
)
def test_a_signal_ends_the_work_of_several_processes_and_leaves_nothing(
    tiny_models: Tiny, work: Path, tmp_path: Path, number: int, group: bool, code: int, word: str
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    heard = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}"
    words = ["compile", str(tiny_models / "cls.onnx"), "--calib", "random:4000", "-j", "2", "-o", str(work / "o.axm")]
    process = subprocess.Popen(
        [sys.executable, "-c", heard, *words], stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert process.stderr is not None
    with process.stderr as stderr:
        while len(session(process.pid)) < 3:  # the command, and processes that import or work
            time.sleep(0.05)
        time.sleep(0.2)
        (os.killpg if group else os.kill)(process.pid, number)
        said = stderr.read()  # ends when no process holds it any more
    assert (process.wait(60), f"error: {word}" in said, "Traceback" in said) == (code, True, False), said
    deadline = time.monotonic() + 10
    while session(process.pid) and time.monotonic() < deadline:  # a process closes its streams before it is gone
        time.sleep(0.05)
    assert session(process.pid) == []
    assert list(temporary.iterdir()) == []
    assert [path for path in work.iterdir() if path != temporary] == []


def session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def test_a_fresh_process_runs_a_model(tiny_models: Tiny) -> None:
    ran = shell("run", tiny_models / "cls.axm", tiny_models / "x.npy", "--engine", "reference")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "scores" in ran.stdout


def test_a_fresh_process_ends_with_the_exit_code_of_the_failure() -> None:
    ran = shell("info", "nothing.onnx")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: nothing.onnx")
