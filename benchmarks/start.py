"""CPU of `axtool --help` in fresh processes, against a budget and an interpreter that does nothing.

Fails when the command imports numpy or onnx, whatever its speed.
"""

from __future__ import annotations

import platform
from functools import partial

from axtool import __version__
from benchmarks import table
from benchmarks.measure import Finished, interleave_processes, run_python
from benchmarks.table import Row

BUDGET_S = 0.2
FORBIDDEN = ("numpy", "onnx", "onnx_ir", "onnxruntime")
HELP = "from axtool.cli.main import main; main(['--help'])"
MODULES = f"import sys\ntry:\n    {HELP}\nexcept SystemExit:\n    print(*sys.modules)"


def imported() -> set[str]:
    """The top-level names of everything that `axtool --help` imports."""
    return {name.partition(".")[0] for name in run_python(MODULES).stdout.splitlines()[-1].split()}


def check_imports() -> None:
    """Raises SystemExit naming what --help should not import."""
    heavy = sorted(imported() & set(FORBIDDEN))
    if heavy:
        raise SystemExit(f"axtool --help imports {', '.join(heavy)}")


def run(*, rounds: int) -> list[Row]:
    """Two rows: the budget over ours, from the least of the runs, and the bare interpreter over ours."""
    check_imports()
    cases: dict[str, partial[Finished]] = {"help": partial(run_python, HELP), "bare": partial(run_python, "pass")}
    times = interleave_processes(cases, rounds=rounds)
    ours = table.side("axtool --help", __version__, times["help"])
    budget = {"name": "budget", "version": "", "cpu_min_ms": 1e3 * BUDGET_S}
    bare = table.side("python -c pass", platform.python_version(), times["bare"])
    ratio = 1e3 * BUDGET_S / times["help"].cpu_min_ms
    over_bare = times["bare"].cpu_min_ms / times["help"].cpu_min_ms
    return [
        table.row("axtool --help", "start, CPU", ratio, 1.0, ours=ours, peer=budget),
        table.row("axtool --help", "start, CPU", over_bare, None, ours=ours, peer=bare),
    ]


def main() -> None:
    """`python -m benchmarks.start`."""
    given = table.parser("start", __doc__, rounds=20).parse_args()
    table.show("start", run(rounds=given.rounds), as_json=given.json)


if __name__ == "__main__":
    main()
