"""The quantizers that are compared  ->  the command of each, or why it cannot be run here.

`python -m benchmarks.quantizer_peers` makes an environment for each peer that needs one, in build/peers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

from benchmarks import table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "peers"
SCRIPTS = Path(__file__).resolve().parent / "peers"
NEEDS = {
    "nncf": ("nncf", "onnx", "onnxruntime"),
    "quark": ("amd-quark", "onnxruntime<=1.28.0", "torch"),
    "aimet": ("aimet-onnx", "onnxruntime", "torch"),
}
COMPILE = """
import sys
from axtool.cli.main import main
model, calibration, out, *options = sys.argv[1:]
main(["compile", model, "--calib", calibration, "-o", out, "-q", "--force", *options])
"""


@dataclass(frozen=True)
class Quantizer:
    """One way to quantize: a script and what follows its files; `environment` None is that of the benchmark.

    `models` are those that it is run on where nobody asks for it by name; None stands for all. One that gives no model
    only costs.
    """

    name: str
    script: str = ""
    options: tuple[str, ...] = ()
    environment: str | None = None
    models: tuple[str, ...] | None = None
    gives_model: bool = True

    @property
    def suffix(self) -> str:
        return ".onnx" if self.script else ".axm"

    def command(self, model: Path, calibration: Path, out: Path, folder: Path = FOLDER) -> list[str]:
        """What to run."""
        files = [str(path) for path in (model, calibration, out)]
        if not self.script:
            return [sys.executable, "-c", COMPILE, *files, *self.options]
        python = sys.executable if self.environment is None else str(folder / self.environment / "bin" / "python")
        return [python, str(SCRIPTS / self.script), *files, *self.options]

    def place(self, folder: Path = FOLDER) -> Path:
        """Where to run it: always the same folder, as Quark compiles its ops anew in each, and leaves files there."""
        return ROOT if self.environment is None else folder / self.environment

    def absence(self, folder: Path = FOLDER) -> str | None:
        """Why it cannot be run, or None."""
        if self.environment is None or (folder / self.environment / "bin" / "python").exists():
            return None
        told = folder / f"{self.environment}.absent"
        if told.is_file():
            return told.read_text(encoding="utf-8").strip()
        return "not installed: make bench-quantizers-peers"


AXTOOL = Quantizer("axtool")
CALIBRATION = Quantizer("axtool calibration", "with_calibration.py", gives_model=False)
MAC_ONLY = Quantizer("axtool mac-only", options=("--recipe", "mac-only"), models=("ppocr-rec",))
ROUNDED = Quantizer("axtool -O2", options=("-O2",), models=("efficientnet-lite0",))
PLAIN = Quantizer("plain float pass", "with_float.py", gives_model=False)
PERCENTILE = Quantizer("onnxruntime percentile", "with_onnxruntime.py", ("percentile", "99.999"))
PEERS = (
    Quantizer("onnxruntime minmax", "with_onnxruntime.py", ("minmax",)),
    PERCENTILE,
    Quantizer("NNCF", "with_nncf.py", (), "nncf"),
    Quantizer("Quark", "with_quark.py", ("plain",), "quark"),
    Quantizer("Quark equalized", "with_quark.py", ("cle",), "quark"),
    Quantizer("AIMET", "with_aimet.py", (), "aimet"),
)
OURS = (CALIBRATION, AXTOOL, MAC_ONLY, ROUNDED)
QUANTIZERS = (PLAIN, *OURS, *PEERS)
COSTS_ONLY = (PLAIN, CALIBRATION)  # for a model that nothing is judged on


def install(name: str, torch: str, folder: Path = FOLDER) -> str | None:
    """Make the environment of a peer; why it could not be made, or None. An environment that is there is kept."""
    home, told = folder / name, folder / f"{name}.absent"
    python = home / "bin" / "python"
    if python.exists():
        return None
    needs = [torch if need == "torch" else need for need in NEEDS[name]]
    folder.mkdir(parents=True, exist_ok=True)
    venv.create(home, with_pip=True)
    try:
        reason = _fill(name, python, needs, folder)
    except BaseException:  # Ctrl-C
        python.unlink()
        raise
    if reason is None:
        told.unlink(missing_ok=True)
        return None
    told.write_text(reason + "\n", encoding="utf-8")
    python.unlink()  # what is half there is not there
    return reason


def _fill(name: str, python: Path, needs: list[str], folder: Path) -> str | None:
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    return try_out(name, folder) if done.returncode == 0 else _last_error("pip", done.stderr)


def try_out(name: str, folder: Path = FOLDER) -> str | None:
    """Quantize a network of two layers: what some build at their first use is no cost of a later one. None is well."""
    import numpy as np
    import onnx

    from benchmarks.networks import Net
    from benchmarks.peer import random_samples

    net = Net("tiny", (1, 3, 16, 16))
    model = net.model([net.conv(net.conv("images", 16, 3, 2, act="relu"), 8)])
    samples = np.concatenate([feeds["images"] for feeds in random_samples((1, 3, 16, 16), 4)])
    with tempfile.TemporaryDirectory() as scratch:
        path, calibration, out = (Path(scratch) / file for file in ("model.onnx", "calibration.npz", "out.onnx"))
        onnx.save(model, path)
        np.savez(calibration, images=samples)
        for quantizer in (quantizer for quantizer in PEERS if quantizer.environment == name):
            command = quantizer.command(path, calibration, out, folder)
            place = quantizer.place(folder)
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
            if done.returncode:
                return _last_error(quantizer.name, done.stderr)
    return None


def _last_error(who: str, stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")] or lines
    return f"{who}: {errors[-1] if errors else 'failed'}"


def main() -> None:
    """`python -m benchmarks.quantizer_peers`: make the environments, and say which cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantizer_peers", description=__doc__)
    parser.add_argument("--torch", default="torch", help="the build to install, e.g. torch==2.13.0+cpu")
    given = parser.parse_args()
    for name in NEEDS:
        table.say(f"{name}: installing")
        reason = install(name, given.torch)
        table.say(f"{name}: {'ready' if reason is None else reason}")


if __name__ == "__main__":
    main()
