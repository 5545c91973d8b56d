"""OpenVINO raises bare RuntimeErrors; here they become errors with a code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.tokenizers import explained

T = TypeVar("T")

OPENVINO_ERRORS = (RuntimeError, ValueError, TypeError)
"""What OpenVINO raises."""

_NO_PYTHON_TYPE = "Unable to convert function return value to a Python type"


def translate(code: Code, call: Callable[[], T]) -> T:
    """Make a call, and turn OpenVINO's errors into the server's."""
    try:
        return call()
    except OPENVINO_ERRORS as error:
        raise translated(code, error) from error


def translated(code: Code, error: Exception) -> ServingError:
    """Turn one of OpenVINO's errors into one of the server's."""
    text = str(error).strip()
    if code is Code.INFERENCE_FAILED and "was canceled" in text:
        return ServingError(Code.CANCELLED, "the inference was cancelled")
    if isinstance(error, TypeError) and text.startswith(_NO_PYTHON_TYPE):
        return ServingError(Code.UNSUPPORTED_TYPE, text)
    return ServingError(code, explained(text))
