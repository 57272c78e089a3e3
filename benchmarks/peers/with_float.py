"""No quantizer: one plain pass of the float model over the calibration samples, as a measure of the others' cost.

On one thread: with more, those that wait for work burn CPU too.
"""

from __future__ import annotations

import time

import onnxruntime
from stream import arguments, done

imports = time.process_time()
model, samples, _, _ = arguments()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
for feeds in samples:
    session.run(None, feeds)
done("onnxruntime float", onnxruntime.__version__, imports)
