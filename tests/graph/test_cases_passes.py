"""The case models and real trained models, where they are at hand: cleaned and split they give the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.errors import AxError
from axtool.graph.float_run import FloatModel
from axtool.graph.load import load_model
from axtool.graph.passes import clean
from axtool.graph.passes.checking import Checker, random_feeds
from axtool.graph.split import split
from axtool.target_file import load_target
from tests.shared_data import ATOL, CASES, RTOL, arrays, case_name, cases, models

MODEL_RTOL = 1e-4  # of the largest value of an output: sums are reordered by folding


def _staged(path: Path, shapes: dict[str, tuple[int, ...]]) -> FloatModel:
    loaded = load_model(path, input_shapes=shapes)
    result = clean(loaded.model, check=Checker())
    return FloatModel(split(result.model, load_target("qc-u-1d7-16mb"), given=result.given).stages)


@pytest.mark.parametrize("case", cases("valid"), ids=case_name)
def test_a_case_gives_its_values_through_passes_and_stages(case: dict[str, Any]) -> None:
    for name in case["npz"]:
        feeds = arrays(CASES / name, "input")
        plain = load_model(CASES / case["file"], input_shapes={}) if "override" in name else None
        shapes = {key: array.shape for key, array in feeds.items() if plain is None or key not in plain.overridable}
        found = _staged(CASES / case["file"], shapes).run(feeds)
        for key, expected in arrays(CASES / name, "output").items():
            rtol, atol = case.get("rtol", RTOL), case.get("atol", ATOL)
            np.testing.assert_allclose(found[key], expected, rtol=rtol, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("path", models(), ids=lambda path: path.stem)
def test_a_trained_model_gives_its_values_through_passes_and_stages(path: Path) -> None:
    try:
        loaded = load_model(path)
    except AxError as error:
        pytest.skip(str(error))
    feeds = random_feeds(loaded.model)
    expected = FloatModel(loaded.model, optimize="disabled").run(feeds)
    result = clean(loaded.model, check=Checker())
    stages = split(result.model, load_target("qc-u-1d7-16mb"), given=result.given).stages
    found = FloatModel(stages, optimize="disabled").run(feeds)
    for name, array in expected.items():
        scale = float(np.abs(array.astype(np.float64)).max(initial=1e-6))
        np.testing.assert_allclose(found[name].astype(np.float64), array.astype(np.float64), atol=MODEL_RTOL * scale)
