"""axtool: compile ONNX vision models for edge NPUs, run them bit for bit, and account for every cycle."""

__version__ = "0.1.0"
