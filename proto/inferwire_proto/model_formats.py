"""The names by which the files of models are told from others."""

from __future__ import annotations

from collections.abc import Mapping

MODEL_SUFFIXES = (".xml", ".onnx", ".tflite", ".pdmodel", ".pb", ".pbtxt")
"""The endings of model files: OpenVINO IR, ONNX, TensorFlow Lite, PaddlePaddle, TensorFlow."""

WEIGHTS_SUFFIXES: Mapping[str, str] = {".xml": ".bin", ".pdmodel": ".pdiparams"}
"""The formats that keep their weights in a second file, and that file's ending."""

SAVED_MODEL = "saved_model.pb"
"""The file that makes a folder a TensorFlow SavedModel."""
