"""What a recipe of the zoo does when it is run: a picture through its pipeline, its agreement with float, its speed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from axtool.errors import AxError
from axtool.inputs.images import is_image_name
from axtool.runtime.boxes import matched
from axtool.runtime.frame import modelled_ms
from axtool.runtime.frame_times import spread_ms, time_frames
from axtool.runtime.image import Image
from axtool.runtime.op.combinators import Seq
from axtool.runtime.op.load import LoadedSeq

Build = Callable[[str], Seq]


def main(
    build_pipeline: Build,
    build_accuracy_pipeline: Build,
    build_float_pipeline: Build,
    labels: Sequence[str],
    model: Path,
    argv: Sequence[str] | None = None,
) -> int:
    """The command line of a recipe. 0 when done, 2 for a mistake of the caller, which is told in one line."""
    parser = argparse.ArgumentParser(description="Run, judge or time a model of the zoo.")
    parser.add_argument(
        "--model", default=str(model), metavar="FILE.axm", help=f"default: {model.name} beside the recipe"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--run", metavar="PICTURE", help="print what the model finds")
    what.add_argument("--eval", metavar="FOLDER", help="agreement with the float model on the pictures of a folder")
    what.add_argument("--benchmark", metavar="PICTURE", help="time the pipeline, operator by operator")
    parser.add_argument("--float", metavar="FILE.onnx", help="the source model, for --eval")
    parser.add_argument("--repeat", type=int, default=50, metavar="N", help="frames to time (50)")
    parser.add_argument(
        "--optimize", choices=("auto", "none"), default="auto", help="fuse operators where that is faster (auto)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args(argv)
    if options.eval and not options.float:
        parser.error("--eval compares with the float model: give it as --float FILE.onnx")
    if options.repeat < 1:
        parser.error("--repeat wants at least one frame")
    try:
        if options.run:
            image = Image.from_file(options.run)
            found = build_pipeline(options.model).optimized(options.optimize)(image)
            result: dict[str, Any] = _shown(found, labels, image)
        elif options.eval:
            pipelines = build_accuracy_pipeline(options.model), build_float_pipeline(options.float)
            result = agreement(*pipelines, _pictures(Path(options.eval)))
        else:
            pipeline = build_pipeline(options.model).optimized(options.optimize)
            result = timed(pipeline, Image.from_file(options.benchmark), options.repeat)
    except (AxError, OSError, ValueError, TypeError, ImportError, RuntimeError) as error:
        hint = getattr(error, "hint", "") or f"see `python {Path(sys.argv[0]).name} --help`"
        parser.exit(2, f"error: {' '.join(str(error).split())}\nhint: {hint}\n")
    print(json.dumps(result, indent=2) if options.json else _text(result))
    return 0


def _shown(found: Any, labels: Sequence[str], image: Image) -> dict[str, Any]:
    """What was found; of a model without a task the figures of its outputs."""
    if _has_classes(found):
        return {"found": [_plain(item, labels, image) for item in found]}
    arrays = [np.asarray(array) for array in (found if isinstance(found, tuple) else (found,))]
    return {
        "outputs": [
            {
                "shape": list(array.shape), "dtype": str(array.dtype), "min": float(array.min()),
                "mean": float(array.mean()), "max": float(array.max()),
            }
            for array in arrays
        ]
    }  # fmt: skip


def _has_classes(found: Any) -> bool:
    return isinstance(found, list) and all(hasattr(item, "class_id") for item in found)


def agreement(pipeline: Seq, reference: Seq, pictures: Sequence[Path]) -> dict[str, Any]:
    """How much of what the reference finds the pipeline finds too: same class, and for boxes an IoU of at least 0.5."""
    objects = same = invented = 0
    for path in pictures:
        image = Image.from_file(path)
        wanted, found = reference(image), pipeline(image)
        if not (_has_classes(wanted) and _has_classes(found)):
            raise ValueError("the config has no task: nothing says what the outputs mean, so nothing can agree")
        if wanted and not hasattr(wanted[0], "bbox"):
            objects += 1
            same += found[0].class_id == wanted[0].class_id
            continue
        for class_id in {item.class_id for item in (*wanted, *found)}:
            a, b = (_boxes(items, class_id, image) for items in (wanted, found))
            pairs = matched(a, b)
            objects, same, invented = objects + len(a), same + pairs, invented + len(b) - pairs
    share = same / objects if objects else 1.0
    return {"pictures": len(pictures), "objects": objects, "found": same, "invented": invented, "found_share": share}


def timed(pipeline: Seq, image: Image, repeat: int) -> dict[str, Any]:
    """Milliseconds of a frame and of each operator, measured here: the spread of the frame, and medians."""
    pipeline(image)  # whole, so that a kernel that fails is named with the model
    times = time_frames(pipeline, image, repeat)
    medians = 1e3 * np.median(times.seconds, 0)
    models = [step for step in pipeline.operators if isinstance(step, LoadedSeq)]
    return {
        "frames": repeat,
        "frame_ms": dict(spread_ms(times.frame_s)),
        "operators_ms": [
            {"operator": name, "where": "simulated device" if device else "host", "p50": float(ms)}
            for name, device, ms in zip(times.operators, times.on_device, medians, strict=True)
        ],
        "device_ms_modelled": sum(modelled_ms(model.artefact) for model in models) if models else None,
    }


def _pictures(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.iterdir() if is_image_name(path)) if folder.is_dir() else []
    if not paths:
        raise ValueError(f"{folder}: no pictures")
    return paths


def _boxes(items: Sequence[Any], class_id: Any, image: Image) -> Any:
    boxes = [item.bbox.scaled(image.width, image.height).xyxy() for item in items if item.class_id == class_id]
    return np.array(boxes, np.float64).reshape(-1, 4)


def _plain(item: Any, labels: Sequence[str], image: Image) -> dict[str, Any]:
    index = int(item.class_id)
    row: dict[str, Any] = {"label": labels[index] if index < len(labels) else str(index), "score": round(item.score, 4)}
    if hasattr(item, "bbox"):
        row["box"] = [round(value, 3) for value in item.bbox.scaled(image.width, image.height).xyxy()]
    return row


def _text(result: dict[str, Any]) -> str:
    if "outputs" in result:
        rows = [
            f"{'x'.join(map(str, row['shape'])) or 'scalar':<16} {row['dtype']:<8} "
            f"{row['min']:11.6g} {row['mean']:11.6g} {row['max']:11.6g}"
            for row in result["outputs"]
        ]
        return "\n".join([f"{'output':<16} {'type':<8} {'min':>11} {'mean':>11} {'max':>11}", *rows])
    if "found" in result and isinstance(result["found"], list):
        rows = [
            f"{row['label']:<16} {row['score']:.3f}  {', '.join(f'{v:.1f}' for v in row.get('box', ()))}".rstrip()
            for row in result["found"]
        ]
        boxes = "  box x1, y1, x2, y2 (pixels of the image)" if any("box" in row for row in result["found"]) else ""
        return "\n".join([f"{'found':<16} score{boxes}", *rows]) if rows else "nothing found"
    if "frame_ms" in result:
        spread = ", ".join(f"{key} {value:.3f}" for key, value in result["frame_ms"].items())
        rows = [f"  {row['operator']:<26} {row['where']:<16} {row['p50']:9.3f}" for row in result["operators_ms"]]
        head = f"measured here, {result['frames']} frames, ms a frame: {spread}"
        lines = [head, f"  {'operator':<26} {'where':<16} {'p50 ms':>9}", *rows]
        modelled = result["device_ms_modelled"]
        return "\n".join(lines if modelled is None else [*lines, f"device on the chip: {modelled:.3f} ms, modelled"])
    return (
        f"{result['found']} of {result['objects']} objects of the float model found again "
        f"({100 * result['found_share']:.1f} %), {result['invented']} invented, {result['pictures']} pictures"
    )
