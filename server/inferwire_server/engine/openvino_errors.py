"""OpenVINO raises bare RuntimeErrors; here they become errors with a code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from inferwire_proto.errors import Code
from inferwire_server.engine.tokenizers import explained
from inferwire_server.errors import ServingError

T = TypeVar("T")


def translate(code: Code, call: Callable[[], T]) -> T:
    """Make OpenVINO's errors the server's."""
    try:
        return call()
    except (RuntimeError, ValueError, TypeError) as error:
        text = str(error).strip()
        if code is Code.INFERENCE_FAILED and "was canceled" in text:
            raise ServingError(Code.CANCELLED, "the inference was cancelled") from error
        raise ServingError(code, explained(text)) from error
