"""The decorator of custom preprocessing steps, where openvino has it. Mirrors `openvino.utils.decorators`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def custom_preprocess_function(custom_function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the function back as it is: the `custom` methods of preprocessing, which take such steps, refuse it."""
    return custom_function
