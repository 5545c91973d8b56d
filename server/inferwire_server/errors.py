"""The server's one exception root: what a caller is told, by code and sentence; and whether files have run out."""

from __future__ import annotations

from collections.abc import Sequence
from errno import EMFILE, ENFILE
from traceback import clear_frames
from typing import TypeVar

from inferwire_proto.errors import Code

E = TypeVar("E", bound=BaseException)

_LONGEST_MESSAGE = 6000
"""The most characters of a message, which may quote what a caller sent, of any length."""

_LEFT_OUT = " ... "


class ServingError(Exception):
    """A call cannot be served. Code that can do something about it catches it; the transports make all others a status.

    It is never changed. Code that has more to say of it makes a copy.

    Attributes:
        message: The sentence. A very long one keeps its beginning and its end.
        is_of_job: Whether a job has ended in it, or was not admitted because of it.
        is_of_server: Whether the fault is the server's own, whatever the code says. Its log has more of it.
        status: The code under whose status it is told: its own, unless a protocol's clients expect another.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        retry_after_s: float | None = None,
        status: Code | None = None,
        is_of_job: bool = False,
        is_of_server: bool = False,
    ) -> None:
        if len(message) > _LONGEST_MESSAGE:
            message = _shortened(message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s
        self.status = status or code
        self.is_of_job = is_of_job
        self.is_of_server = is_of_server

    def copy(self, message: str | None = None, *, status: Code | None = None, is_of_job: bool = False) -> ServingError:
        """Copy it, to raise the copy: what is raised keeps its traceback, and so every value in those frames."""
        return ServingError(
            self.code,
            self.message if message is None else message,
            retry_after_s=self.retry_after_s,
            status=status or self.status,
            is_of_job=is_of_job or self.is_of_job,
            is_of_server=self.is_of_server,
        )

    def __repr__(self) -> str:
        return f"<ServingError {self.code.name}: {self.message}>"


class UnfitSetting(ServingError):
    """What the operator has set for a model does not fit it. Code that knows where it is set adds that.

    Attributes:
        setting: The names of the tables that it lies in, and its own.
        reason: Why it does not fit, and what was expected.
    """

    def __init__(self, setting: Sequence[str], reason: str) -> None:
        super().__init__(Code.MODEL_FAILED, f"{'.'.join(setting)}: {reason}")
        self.setting = tuple(setting)
        self.reason = reason


def _shortened(message: str) -> str:
    kept = (_LONGEST_MESSAGE - len(_LEFT_OUT)) // 2
    return f"{message[:kept]}{_LEFT_OUT}{message[-kept:]}"


def without_values(error: E) -> E:
    """Take the tracebacks from an error and what caused it: their frames hold a model, or a caller's inputs.

    These would be freed by whoever lets go of the error last, which is the event loop, or by the garbage collector
    where a frame holds an error that holds the frame.
    """
    for earlier in (error.__cause__, error.__context__):
        if earlier is not None:
            without_values(earlier)
    clear_frames(error.__traceback__)
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def invalid_input(message: str) -> ServingError:
    """Say what does not fit in a caller's input."""
    return ServingError(Code.INVALID_INPUT, message)


def shutting_down() -> ServingError:
    """Refuse a call because the server ends: another server, or this one when it is back, may take it."""
    return ServingError(Code.SHUTTING_DOWN, "the server is shutting down")


def is_lack_of_files(error: BaseException | None) -> bool:
    """Whether no more files can be opened, which says nothing about the file itself: trying again later helps."""
    return isinstance(error, OSError) and error.errno in (EMFILE, ENFILE)


def bug(message: str) -> AssertionError:
    """Make the error for a broken invariant. Nothing catches it: it must be seen."""
    return AssertionError(f"{message}; this is a bug in inferwire")
