"""How models are told from other files: by their names."""

from __future__ import annotations

MODEL_SUFFIXES = (".xml", ".onnx", ".tflite", ".pdmodel", ".pb", ".pbtxt")
"""The endings of model files: OpenVINO IR, ONNX, TensorFlow Lite, PaddlePaddle, TensorFlow."""

SAVED_MODEL = "saved_model.pb"
"""The file that makes a folder a TensorFlow SavedModel."""
