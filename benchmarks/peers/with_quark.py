"""AMD Quark's ONNX quantizer: u8 activations, s8 weights per channel. `plain`, or `cle` with equalization and bias
correction.
"""

from __future__ import annotations

import time

import quark
from onnxruntime.quantization import CalibrationDataReader
from quark.onnx import ModelQuantizer
from quark.onnx.quantization.config import QConfig
from quark.onnx.quantization.config.algorithm import BiasCorrectionConfig, CLEConfig
from quark.onnx.quantization.config.spec import CalibMethod, Int8Spec, QLayerConfig, QuantGranularity, UInt8Spec
from stream import Samples, arguments, done

imports = time.process_time()
CalibrationDataReader.register(Samples)
model, samples, out, (recipe,) = arguments()
weight = Int8Spec(quant_granularity=QuantGranularity.Channel, calibration_method=CalibMethod.MinMax)
activation = UInt8Spec(calibration_method=CalibMethod.MinMax)
passes = [CLEConfig(), BiasCorrectionConfig()] if recipe == "cle" else []
config = QConfig(QLayerConfig(activation=activation, weight=weight), algo_config=passes)
ModelQuantizer(config).quantize_model(model, out, samples)
done("amd-quark", quark.__version__, imports)
