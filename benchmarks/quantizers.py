"""int8 accuracy and its cost: axtool's default compile against the quantizers of onnxruntime, NNCF, Quark and AIMET.

All are given the same model file and the same 32 calibration samples, one after the other in one run, each in a process
of its own; all are judged on the same other samples against the float model. CPU seconds and peak memory are those of
the whole process. Peers that are not installed are named as absent: `make bench-quantizers-peers` installs them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import onnx

from axtool import __version__
from axtool.errors import AxError
from benchmarks import quantizer_rows, table
from benchmarks.metered import Metered, metered
from benchmarks.quantizer_cases import CALIBRATION, CASES, JUDGED, NotAtHand, build, save_samples
from benchmarks.quantizer_peers import PLAIN, QUANTIZERS, ROOT, Quantizer
from benchmarks.quantizer_rows import Result

QUICK = 8  # samples, to calibrate with and to judge on


@dataclass(frozen=True)
class Files:
    """One case on disk."""

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model.onnx"

    @property
    def calibration(self) -> Path:
        return self.folder / "calibration.npz"

    @property
    def judged(self) -> Path:
        return self.folder / "judged.npz"

    @property
    def task(self) -> Path:
        return self.folder / "task.json"


def write_case(name: str, files: Files, *, calibration: int, judged: int) -> None:
    """The case of a name. Raises NotAtHand."""
    try:
        case = build(name, calibration=calibration, judged=judged)
    except AxError as error:
        raise NotAtHand(str(error)) from error
    onnx.save(case.model, files.model)
    save_samples(case.calibration, files.calibration)
    save_samples(case.judged, files.judged)
    files.task.write_text(json.dumps(case.task), encoding="utf-8")


def measure(model: str, quantizer: Quantizer, files: Files, prefix: Sequence[str] = ()) -> Result:
    """One quantizer on one model: absent, failed, or with its figures."""
    reason = quantizer.absence()
    if reason is not None:
        return Result(model, quantizer.name, absent=reason)
    out = files.folder / f"quantized{quantizer.suffix}"
    out.unlink(missing_ok=True)
    command = quantizer.command(files.model, files.calibration, out)
    run = metered([*prefix, *command], cwd=quantizer.place())
    told = told_by(run)
    cost = {key: round(getattr(run, key), 3) for key in ("wall_s", "cpu_s", "peak_mb")}
    cost |= {"imports_cpu_s": told["imports_cpu_s"]} if "imports_cpu_s" in told else {}
    version = told.get("version", "") if quantizer.script else __version__
    if run.code or (quantizer is not PLAIN and not out.is_file()):
        return Result(model, quantizer.name, version=version, cost=cost, failed=last_line(run))
    if quantizer is PLAIN:
        return Result(model, quantizer.name, version=version, cost=cost)
    files_given = [str(path) for path in (files.model, out, files.judged, files.task)]
    judged = metered([*prefix, sys.executable, "-m", "benchmarks.quantizer_score", *files_given], cwd=ROOT)
    if judged.code:
        return Result(model, quantizer.name, version=version, cost=cost, failed=f"judging: {last_line(judged)}")
    return Result(model, quantizer.name, version=version, cost=cost, figures=json.loads(judged.stdout))


def told_by(run: Metered) -> dict[str, Any]:
    """The JSON line of a peer's script; quantizers print other things before it."""
    for line in reversed(run.stdout.splitlines()):
        if line.startswith("{"):
            values = json.loads(line)
            assert isinstance(values, dict)
            return values
    return {}


def last_line(run: Metered) -> str:
    """What a process that failed said last."""
    lines = [line.strip() for line in (run.stderr or run.stdout).splitlines() if line.strip()]
    return (lines[-1] if lines else f"ended with {run.code}")[:300]


@dataclass
class Done:
    """What a run of the benchmark found."""

    results: list[Result] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The document of `--json`: rows as every benchmark has them, and every figure that they come from."""
        made = table.document("quantizers", quantizer_rows.rows(self.results))
        return made | {"results": [asdict(result) for result in self.results], "skipped": self.skipped}


def run(
    models: Sequence[str],
    quantizers: Sequence[Quantizer],
    *,
    calibration: int = CALIBRATION,
    judged: int = JUDGED,
    prefix: Sequence[str] = (),
) -> Done:
    """Every quantizer on every model."""
    done = Done()
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            files = Files(Path(folder))
            table.say(f"{model}: preparing")
            try:
                write_case(model, files, calibration=calibration, judged=judged)
            except NotAtHand as reason:
                done.skipped[model] = str(reason)
                continue
            for quantizer in (PLAIN, *quantizers):
                table.say(f"{model}: {quantizer.name}")
                done.results.append(measure(model, quantizer, files, prefix))
    return done


def main() -> None:
    """`python -m benchmarks.quantizers`."""
    given = _parser().parse_args()
    amount = {"calibration": QUICK, "judged": QUICK} if given.quick else {}
    done = run(given.models, given.quantizers, prefix=shlex.split(given.prefix), **amount)
    print(json.dumps(done.to_dict(), indent=2, allow_nan=False) if given.json else quantizer_rows.text(done.results))
    for model, reason in done.skipped.items():
        table.say(f"{model}: skipped: {reason}")


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.quantizers", description=__doc__)
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--models", type=_models, default=list(CASES), metavar="A,B", help=", ".join(CASES))
    names = ", ".join(quantizer.name for quantizer in QUANTIZERS)
    made.add_argument("--quantizers", type=_quantizers, default=QUANTIZERS, metavar="A,B", help=f"as {names} begin")
    made.add_argument("--quick", action="store_true", help=f"{QUICK} samples: does it run, not how good is it")
    made.add_argument("--prefix", default="", metavar="WORDS", help="before each command that is measured: 'nice -n 5'")
    return made


def _models(words: str) -> list[str]:
    for word in words.split(","):
        if word not in CASES:
            raise argparse.ArgumentTypeError(f"no '{word}'; there are {', '.join(CASES)}")
    return words.split(",")


def _quantizers(words: str) -> tuple[Quantizer, ...]:
    wanted: set[str] = set()
    for word in words.lower().split(","):
        names = [q.name for q in QUANTIZERS if q.name.lower() == word] or [
            q.name for q in QUANTIZERS if q.name.lower().startswith(word)
        ]
        if not names:
            raise argparse.ArgumentTypeError(f"no '{word}'")
        wanted.update(names)
    return tuple(q for q in QUANTIZERS if q.name in wanted)


if __name__ == "__main__":
    main()
