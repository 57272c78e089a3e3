"""onnxruntime's static quantization: QDQ, u8 activations, s8 weights per channel. METHOD is minmax or percentile P."""

from __future__ import annotations

import time

import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from stream import Samples, arguments, done

imports = time.process_time()
CalibrationDataReader.register(Samples)
model, samples, out, (method, *percentile) = arguments()
options = {"CalibPercentile": float(percentile[0])} if percentile else {}
quantize_static(
    model,
    out,
    samples,
    quant_format=QuantFormat.QDQ,
    per_channel=True,
    activation_type=QuantType.QUInt8,
    weight_type=QuantType.QInt8,
    calibrate_method={"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile}[method],
    extra_options=options,
)
done("onnxruntime", onnxruntime.__version__, imports)
