"""A config  ->  the text of a recipe: a Python file that runs, judges and times its model with axtool.runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axtool.zoo.calls import Call, listing
from axtool.zoo.pipeline import steps_of
from axtool.zoo.schema import Config


def recipe_text(config: Config, model: str, script: str, size: tuple[int, int] | None = None) -> str:
    """The recipe of a config whose compiled file is named `model`, for a file named `script` beside it.

    `size` is the (height, width) of the model's input, for a config that leaves it to the model.
    """
    steps = steps_of(config, size)
    size = config.preparation.size or size or (0, 0)
    kernel = _wrapped("POSTAMBLE = Postamble(", _keywords(config.kernel.to_dict(), "="), ")")
    labels = _wrapped("LABELS = [", [repr(label) for label in config.task.get("labels", ())], "]")
    sources = _wrapped('SOURCES = {"onnx": {', _keywords(config.source.model_dump(mode="json"), ": "), "}}")
    title, name, licence, file = (_in_docstring(text) for text in (config.title, config.name, config.licence, script))
    return f'''"""{title}

Made by `axzoo build {name}`. Licence of the model: {licence}.

    python {file} --run PICTURE
    python {file} --eval FOLDER --float MODEL.onnx
    python {file} --benchmark PICTURE
"""

from pathlib import Path

from axtool.runtime import Postamble, op
from axtool.runtime.recipe import main

MODEL_NAME = {config.name!r}
INPUT_SIZE = {tuple(size)}  # height, width
{labels}
{sources}
{kernel}
THRESHOLD = {steps.threshold}

preprocess = {_preprocess(steps.preprocess)}


def postprocess(threshold):
    """What the model's outputs mean."""
    return op.seq(
{listing(steps.postprocess, " " * 8)}
    )


def build_pipeline(axm_path):
    """From a picture to what is in it."""
    return op.seq(preprocess, op.load(axm_path, using_postamble=POSTAMBLE), postprocess(THRESHOLD))


def build_accuracy_pipeline(axm_path):
    """The same for figures: what `--eval` holds against the float model, with the same threshold for both."""
    return op.seq(preprocess, op.load(axm_path, using_postamble=POSTAMBLE), postprocess(THRESHOLD))


def build_float_pipeline(onnx_path):
    """The source model in onnxruntime, between the same steps."""
    return op.seq(preprocess, op.onnx_model(onnx_path), postprocess(THRESHOLD))


if __name__ == "__main__":
    model = Path(__file__).with_name({model!r})
    raise SystemExit(main(build_pipeline, build_accuracy_pipeline, build_float_pipeline, LABELS, model))
'''


def _preprocess(calls: Sequence[Call]) -> str:
    return repr(calls[0]) if len(calls) == 1 else f"op.seq(\n{listing(calls)}\n)"


def _in_docstring(text: str) -> str:
    """A text of the config inside three quotes: it cannot end them, so that nothing of it is ever run."""
    return text.replace("\\", "\\\\").replace('"', '\\"') if '"' in text or "\\" in text else text


def _wrapped(opening: str, items: Sequence[str], closing: str) -> str:
    """A literal on lines of a readable length, which break between its items."""
    whole = f"{opening}{', '.join(items)}{closing}"
    if len(whole) < 90:
        return whole
    lines, line = [], opening
    for item in items:
        if len(line) + len(item) > 95:
            lines.append(line.rstrip())
            line = "    "
        line += f"{item}, "
    return "\n".join([*lines, line.removesuffix(", ") + closing])


def _keywords(values: Mapping[str, Any], sign: str) -> list[str]:
    return [f"{key if sign == '=' else repr(key)}{sign}{value!r}" for key, value in values.items()]
