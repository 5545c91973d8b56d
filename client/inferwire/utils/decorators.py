"""Where openvino has the decorator of preprocessing steps. Mirrors `openvino.utils.decorators`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def custom_preprocess_function(custom_function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a step that a program builds of a graph as it is: what takes such steps refuses them."""
    return custom_function
