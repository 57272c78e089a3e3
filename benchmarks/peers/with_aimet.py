"""AIMET's quantization simulation, written as QDQ: u8 activations, s8 weights per channel."""

from __future__ import annotations

import time
from importlib.metadata import version

import onnx
from aimet_onnx import QuantizationSimModel
from stream import arguments, done

imports = time.process_time()
model, samples, out, _ = arguments()
sim = QuantizationSimModel(onnx.load(model), param_type="int8", activation_type="int8")
sim.compute_encodings(samples)
onnx.save(sim.to_onnx_qdq(), out)
done("aimet-onnx", version("aimet-onnx"), imports)
