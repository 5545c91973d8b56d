"""openvino's functions that make graphs of other formats, or files of graphs.

They are here because programs import them, though they rarely call them. A call raises that it is not offered.
"""

from __future__ import annotations

from typing import Any, NoReturn

from inferwire.not_offered import refuse


def convert_model(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to convert a model of another framework, whose graph the server would have to build.

    Raises:
        RuntimeError: Always.
    """
    del args, kwargs
    refuse("openvino.convert_model()")


def save_model(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to write a model to a file: its graph is on the server.

    Raises:
        RuntimeError: Always.
    """
    del args, kwargs
    refuse("openvino.save_model()")


def serialize(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to write a model to a file: its graph is on the server.

    Raises:
        RuntimeError: Always.
    """
    del args, kwargs
    refuse("openvino.serialize()")
