"""Errors that programs import by openvino's names. Mirrors `openvino.exceptions`.

As in openvino, nothing of the runtime raises them: it raises Python's own.
"""

from __future__ import annotations


class OVError(Exception):
    """The root of the errors below."""


class UserInputError(OVError):
    """A user gave what was not expected."""


class OVTypeError(OVError, TypeError):
    """A value is of the wrong type."""
