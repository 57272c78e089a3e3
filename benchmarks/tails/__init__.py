"""Tails of well-known detectors, as ONNX graphs of our own writing, each beside the kernel that replaces it."""
