"""The calibration of `axtool compile` and nothing else of it: one pass that sees all tensors, a quarter of the samples
apart, and keeps the float outputs of these. Runs in the environment of the benchmark.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from stream import done

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def main(model: str, calibration: str, out: str) -> None:
    from axtool.cli.late import load_late

    load_late()
    from axtool import __version__
    from axtool.compiler import open_calibration
    from axtool.graph.front import Reading, read_front
    from axtool.options import Options
    from axtool.quant.calibrate import gather
    from axtool.quant.ranges import write_ranges
    from axtool.target_file import load_target

    options = Options(calib=(calibration,))
    front = read_front(Path(model), load_target(options.target), Reading())
    samples = open_calibration(front, options)
    assert samples is not None
    before = time.process_time()
    statistics = gather(front.parts.stages, samples, outputs=[spec.name for spec in front.outputs])
    write_ranges(Path(out), statistics.together().ranges("percentile", 99.999))
    done("axtool calibration", __version__, before)


main(*sys.argv[1:])
