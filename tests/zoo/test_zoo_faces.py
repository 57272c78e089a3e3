"""Two detectors of other families find the same faces in the same places: what agreement with one's own float model
cannot tell, such as the priors that a file was trained with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.inputs.images import read_image
from axtool.runtime import op
from axtool.runtime.boxes import iou
from axtool.zoo.catalogue import find
from axtool.zoo.pipeline import steps_of
from tests.shared_data import IMAGES, YOURS, needs_images, needs_models

PICTURES = ("faceapi_sample1.jpg", "faceapi_sample2.jpg", "faceapi_sample3.jpg", "faceapi_sample4.jpg")
SURE = 0.8
pytestmark = [pytest.mark.slow, needs_models, needs_images]


def faces(name: str, picture: str) -> list[Any]:
    """What is surely a face to the float model of an entry between its own steps."""
    pipeline = steps_of(find(name).config).pipeline(op.onnx_model(YOURS[name]))
    return [face for face in pipeline(read_image(IMAGES / picture)) if face.score > SURE]


def boxes(found: list[Any]) -> NDArray[np.float64]:
    """x1, y1, x2, y2 of faces (n, 4), as fractions of the picture."""
    corners = [(face.bbox.x0, face.bbox.y0, face.bbox.x1, face.bbox.y1) for face in found]
    return np.array(corners, np.float64).reshape(-1, 4)


@pytest.mark.parametrize("picture", PICTURES)
def test_retinaface_and_the_face_ssd_find_the_same_faces(picture: str) -> None:
    one, other = (boxes(faces(name, picture)) for name in ("retinaface-mnet025-640", "ssd-face-512"))
    assert len(other) >= 2
    assert iou(other, one).max(1).min() > 0.5, "every face of the SSD has its place in RetinaFace"


@pytest.mark.parametrize("picture", PICTURES)
def test_landmarks_lie_in_their_face_with_the_eyes_above_the_mouth(picture: str) -> None:
    for face in faces("retinaface-mnet025-640", picture):
        points = np.array([(point.x, point.y) for point in face.keypoints])
        (corners,) = boxes([face])
        assert ((points > corners[:2]) & (points < corners[2:])).all()
        assert points[:2, 1].mean() < points[2, 1] < points[3:, 1].mean(), "eyes, nose, mouth"
        assert np.ptp(points[:, 1]) > 0.25 * (corners[3] - corners[1]), "they are spread over the face"
