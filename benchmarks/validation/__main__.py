"""Run the chips and write docs/validation.md.

    python -m benchmarks.validation                write the page
    python -m benchmarks.validation --check        exit 1 when the page is not what this run makes
    python -m benchmarks.validation --only dpu     print one chip's part; with --check compare just that
    python -m benchmarks.validation --only dpu --update    write just that part into the page
    python -m benchmarks.validation --json         print the figures as one document

Exit 1 also where a figure does not hold. CPU seconds are measured and go to stderr: the page has none.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.table import positive
from benchmarks.validation import page
from benchmarks.validation.chip import Section, chip_names, run_chip

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation.md"


def main(argv: Sequence[str] | None = None, where: Path = PAGE) -> int:
    """Run what is asked for, and return the exit code."""
    given = _parser().parse_args(argv)
    sections = _run_all(given.only or chip_names(), given.jobs)
    if given.json:
        print(json.dumps(page.document(sections), indent=2, allow_nan=False))
    elif given.check:
        stale = _stale(sections, where, whole=not given.only)
        for name in stale:
            _say(f"{where}: {name} is not what this run makes; run `make validation`")
        return 1 if stale else 0  # whether the figures hold is what a run without it says
    elif given.only and given.update:
        text = where.read_text(encoding="utf-8")
        for section in sections:
            text = page.updated(text, section)
        where.write_text(text, encoding="utf-8")
    elif given.only:
        print("\n".join(page.section_text(section) for section in sections))
    else:
        where.write_text(page.page(sections), encoding="utf-8")
        _say(f"wrote {where}")
    return 0 if all(section.holds for section in sections) else 1


def _run_all(names: Sequence[str], jobs: int) -> list[Section]:
    if jobs == 1:
        return [_run(name) for name in names]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(_run, names))


def _run(name: str) -> Section:
    _say(f"{name} ...")
    section = run_chip(name)
    failed = [row.name for row in section.rows if row.holds is False]
    failed += [f"{rule.set}: {rule.what}" for rule in section.rules if not rule.holds]
    failed += [] if section.sparing else [f"{len(section.fitted)} fitted constants for {section.matched} figures"]
    told = f"does not hold: {'; '.join(failed)}" if failed else "holds"
    _say(f"{name}: {len(section.rows)} figures, {told} ({section.seconds:.1f} s of CPU, measured)")
    return section


def _stale(sections: Sequence[Section], where: Path, *, whole: bool) -> list[str]:
    """The chips whose part of the page differs from this run; "the page" where the rest does."""
    text = where.read_text(encoding="utf-8") if where.exists() else ""
    differ = [section.name for section in sections if page.section_text(section) not in text]
    return differ or (["the page"] if whole and text != page.page(sections) else [])


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.validation", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--only", action="append", choices=chip_names(), metavar="CHIP", help=", ".join(chip_names()))
    made.add_argument("--check", action="store_true", help="compare the page with this run and write nothing")
    made.add_argument("--update", action="store_true", help="write the parts of --only into the page")
    made.add_argument("--jobs", type=positive, default=1, help="chips at a time (default %(default)s)")
    made.add_argument("--json", action="store_true", help="print one JSON document and write nothing")
    return made


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
