"""AIMET's quantization simulation, written as QDQ: u8 activations, s8 weights per channel. `cle` equalizes across
layers first.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path

import aimet_onnx
import onnx
from aimet_onnx import QuantizationSimModel
from aimet_onnx.cross_layer_equalization import equalize_model
from stream import arguments, done

imports = time.process_time()
path, samples, out, rest = arguments()
model = onnx.load(path)
if "cle" in rest:
    equalize_model(model)
configs = Path(aimet_onnx.__file__).parent / "common" / "quantsim_config"
per_channel = str(configs / "default_config_per_channel.json")
sim = QuantizationSimModel(model, param_type="int8", activation_type="int8", config_file=per_channel)
sim.compute_encodings(samples)
onnx.save(sim.to_onnx_qdq(), out)
done("aimet-onnx", version("aimet-onnx"), imports)
