"""int8 accuracy and its cost: axtool's default compile against the quantizers of onnxruntime, NNCF, Quark and AIMET.

All are given the same model file and the same calibration samples, one after the other in one run, each in a process
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
from benchmarks import quantizer_text, table
from benchmarks.metered import Metered, metered
from benchmarks.quantizer_cases import AMOUNTS, CASES, Amount, NotAtHand, build, save_samples
from benchmarks.quantizer_peers import COSTS_ONLY, QUANTIZERS, ROOT, Quantizer
from benchmarks.quantizer_rows import Result, rows

QUICK = 8  # samples, to calibrate with and to judge on
AGAIN, SHORT_S = 2, 20.0  # a pass that only costs runs again where it is short: the least CPU counts, noise only adds


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


def write_case(name: str, files: Files, amount: Amount) -> None:
    """The case of a name. Raises NotAtHand."""
    try:
        case = build(name, calibration=amount.calibration, judged=amount.judged)
    except AxError as error:
        raise NotAtHand(str(error)) from error
    onnx.save(case.model, files.model)
    save_samples(case.calibration, files.calibration)
    if amount.judged:
        save_samples(case.judged, files.judged)
    files.task.write_text(json.dumps(case.task), encoding="utf-8")


def measure(model: str, quantizer: Quantizer, files: Files, prefix: Sequence[str] = ()) -> Result:
    """One quantizer on one model: absent, failed, or with its figures."""
    reason = quantizer.absence()
    if reason is not None:
        return Result(model, quantizer.name, absent=reason)
    out = files.folder / f"quantized{quantizer.suffix}"
    run = once(quantizer, files, out, prefix)
    for _ in range(AGAIN if not quantizer.gives_model and run.wall_s < SHORT_S else 0):
        run = min(run, once(quantizer, files, out, prefix), key=lambda run: run.cpu_s)
    told = told_by(run)
    cost = {key: round(getattr(run, key), 3) for key in ("wall_s", "cpu_s", "peak_mb")}
    cost |= {"imports_cpu_s": told["imports_cpu_s"]} if "imports_cpu_s" in told else {}
    version = told.get("version", "") if quantizer.script else __version__
    if run.code or (quantizer.gives_model and not out.is_file()):
        return Result(model, quantizer.name, version=version, cost=cost, failed=last_line(run))
    if not (quantizer.gives_model and files.judged.is_file()):
        return Result(model, quantizer.name, version=version, cost=cost)
    files_given = [str(path) for path in (files.model, out, files.judged, files.task)]
    judged = metered([*prefix, sys.executable, "-m", "benchmarks.quantizer_score", *files_given], cwd=ROOT)
    if judged.code:
        return Result(model, quantizer.name, version=version, cost=cost, failed=f"judging: {last_line(judged)}")
    return Result(model, quantizer.name, version=version, cost=cost, figures=json.loads(judged.stdout))


def once(quantizer: Quantizer, files: Files, out: Path, prefix: Sequence[str]) -> Metered:
    """One run of a quantizer."""
    out.unlink(missing_ok=True)
    command = quantizer.command(files.model, files.calibration, out)
    return metered([*prefix, *command], cwd=quantizer.place())


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
        made = table.document("quantizers", rows(self.results))
        return made | {"results": [asdict(result) for result in self.results], "skipped": self.skipped}

    def add(self, result: Result) -> None:
        """In the order of the models and of the quantizers."""
        order = {name: at for at, name in enumerate([*CASES, *(quantizer.name for quantizer in QUANTIZERS)])}
        self.results.append(result)
        self.results.sort(key=lambda r: (order.get(r.model, -1), order.get(r.quantizer, -1)))

    def save(self, path: Path) -> None:
        """What `saved` reads."""
        path.write_text(json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def saved(path: Path) -> Done:
    """What an earlier run found, with the same file; nothing where there is none."""
    if not path.is_file():
        return Done()
    values = json.loads(path.read_text(encoding="utf-8"))
    return Done([Result(**result) for result in values["results"]])


def run(
    models: Sequence[str],
    quantizers: Sequence[Quantizer] | None = None,
    *,
    quick: bool = False,
    prefix: Sequence[str] = (),
    keep: Path | None = None,
) -> Done:
    """Every quantizer on every model, `quantizers` None those that are meant for each. What the file `keep` has of both
    is taken from there; it is written after each.
    """
    done = saved(keep) if keep is not None else Done()
    for model in models:
        wanted = amount_of(model, quick)
        known = {result.quantizer for result in done.results if result.model == model}
        left = [q for q in quantizers or meant_for(model, wanted) if q.name not in known]
        if not left:
            continue
        with tempfile.TemporaryDirectory() as folder:
            files = Files(Path(folder))
            table.say(f"{model}: preparing")
            try:
                write_case(model, files, wanted)
            except NotAtHand as reason:
                done.skipped[model] = str(reason)
                continue
            for quantizer in left:
                table.say(f"{model}: {quantizer.name}")
                done.add(measure(model, quantizer, files, prefix))
                if keep is not None:
                    done.save(keep)
    return done


def amount_of(model: str, quick: bool) -> Amount:
    """How many samples; `quick` makes few of many."""
    usual = AMOUNTS.get(model, Amount())
    return Amount(min(usual.calibration, QUICK), min(usual.judged, QUICK)) if quick else usual


def meant_for(model: str, amount: Amount) -> list[Quantizer]:
    """The quantizers that are run on a model where nobody says which."""
    every = QUANTIZERS if amount.judged else COSTS_ONLY
    return [quantizer for quantizer in every if quantizer.models is None or model in quantizer.models]


def main() -> None:
    """`python -m benchmarks.quantizers`."""
    given = _parser().parse_args()
    prefix = shlex.split(given.prefix)
    done = run(given.models, given.quantizers, quick=given.quick, prefix=prefix, keep=given.keep)
    print(json.dumps(done.to_dict(), indent=2, allow_nan=False) if given.json else quantizer_text.text(done.results))
    for model, reason in done.skipped.items():
        table.say(f"{model}: skipped: {reason}")


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.quantizers", description=__doc__)
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--models", type=_models, default=list(CASES), metavar="A,B", help=", ".join(CASES))
    names = ", ".join(quantizer.name for quantizer in QUANTIZERS)
    made.add_argument("--quantizers", type=_quantizers, metavar="A,B", help=f"as {names} begin")
    made.add_argument("--quick", action="store_true", help=f"{QUICK} samples: does it run, not how good is it")
    made.add_argument("--keep", type=Path, metavar="FILE.json", help="results; what is in it is not run again")
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
