"""NNCF's post-training quantization of an ONNX model, as its documentation calls it, with asymmetric activations."""

from __future__ import annotations

import time

import nncf
import onnx
from stream import arguments, done

imports = time.process_time()
model, samples, out, _ = arguments()
quantized = nncf.quantize(onnx.load(model), nncf.Dataset(samples), preset=nncf.QuantizationPreset.MIXED)
onnx.save(quantized, out)
done("nncf", nncf.__version__, imports)
