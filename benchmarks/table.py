"""Rows of comparisons  ->  one JSON document or one table. Each row has a `ratio`, higher is better, and a `target`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from axtool import __version__
from benchmarks.measure import Timing

Row = dict[str, Any]
SCHEMA = "axtool.benchmarks/1"


def side(name: str, version: str, timing: Timing, **more: object) -> dict[str, Any]:
    """One side of a comparison: who, which version, and its times."""
    return {"name": name, "version": version, **timing.to_dict(), **more}


def row(
    name: str, measured: str, ratio: float, target: float | None, *, ours: object, peer: object, **more: object
) -> Row:
    """A comparison. `measured` says what is timed; `target` is None for a row that is only information."""
    met = None if target is None else bool(ratio >= target)
    rounded = {"ratio": round(ratio, 4), "target": target, "met": met}
    return {"name": name, "measured": measured, **rounded, "ours": ours, "peer": peer, **more}


def document(benchmark: str, rows: Sequence[Row]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "axtool", "version": __version__},
        "command": f"benchmarks.{benchmark}" if benchmark else "benchmarks",
        "status": "done",
        "machine": machine(),
        "rows": list(rows),
    }


def machine() -> dict[str, Any]:
    """Where the figures were taken. `load_1min` above the number of busy threads says that it was not quiet."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's own name, or its architecture where the system does not tell."""
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def text(rows: Sequence[Row]) -> str:
    """The table that a person reads."""
    head = ("network", "measured", "threads", "ours ms", "peer ms", "CPU ms", "peer CPU", "ratio", "target", "")
    cells = [head, *(_cells(r) for r in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    left = (0, 1)
    lines = [
        "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def _cells(r: Row) -> tuple[str, ...]:
    mark = {True: "ok", False: "MISSED", None: ""}[r["met"]]
    target = "" if r["target"] is None else f"{r['target']:.2f}"
    sides = [s if isinstance(s, dict) else {} for s in (r["ours"], r["peer"])]
    times = [f"{s[key]:.2f}" if key in s else "" for key in ("median_ms", "cpu_median_ms") for s in sides]
    return (r["name"], r["measured"], str(r.get("threads", "")), *times, f"{r['ratio']:.2f}", target, mark)


def parser(benchmark: str, description: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    program = f"python -m benchmarks.{benchmark}".rstrip(".")
    made = argparse.ArgumentParser(prog=program, description=description)
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--rounds", type=positive, default=rounds, help="timed runs of each case (default %(default)s)")
    return made


def add_names(parser: argparse.ArgumentParser, known: Iterable[str]) -> None:
    """A list of networks, each of the `known`; none given stands for all."""
    parser.add_argument("names", nargs="*", type=_one_of(tuple(known)), metavar="NETWORK", help=", ".join(known))


def _one_of(known: tuple[str, ...]) -> Callable[[str], str]:
    def network(word: str) -> str:
        if word not in known:
            raise argparse.ArgumentTypeError(f"no '{word}'; there are {', '.join(known)}")
        return word

    return network


def positive(word: str) -> int:
    """A whole number from 1."""
    number = int(word)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return number


def show(benchmark: str, rows: Sequence[Row], *, as_json: bool) -> None:
    """Print the result on stdout."""
    made = document(benchmark, rows)
    print(json.dumps(made, indent=2, allow_nan=False) if as_json else text(rows))


def say(line: str) -> None:
    """Progress, on stderr."""
    print(line, file=sys.stderr, flush=True)
