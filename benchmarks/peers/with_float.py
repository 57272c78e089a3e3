"""No quantizer: one plain pass of the float model over the calibration samples, as a measure of the others' cost."""

from __future__ import annotations

import time

import onnxruntime
from stream import arguments, done

imports = time.process_time()
model, samples, _, _ = arguments()
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
for feeds in samples:
    session.run(None, feeds)
done("onnxruntime float", onnxruntime.__version__, imports)
