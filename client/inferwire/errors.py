"""The errors of servers and of the network, as exceptions.

Owns the one exception root of the client and the class of each code. Mistakes in arguments are
no business of this module: they raise the builtins openvino raises, with its texts.
"""

from __future__ import annotations

from typing import TypeVar

from inferwire_proto.errors import Code

E = TypeVar("E", bound=BaseException)

WHERE_KEYS = "in INFERWIRE_API_KEY, or as api_key to Core()"
"""Where a program gives the key by which it calls a server."""


class InferwireError(RuntimeError):
    """What a server or the network says went wrong. A `RuntimeError`, as all of openvino's are.

    Attributes:
        code: What a program branches on; None if no server gave one.
        retry_after_s: When a retry makes sense, in seconds; None if that is not known.
    """

    code: Code | None = None

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ServerUnavailable(InferwireError):
    """No server answers at the address, or the connection to it was lost. The next call connects again."""


class AnswerLost(ServerUnavailable):
    """The connection was lost once a call had been sent, and the server may have done what it asks for.

    Programs are told of it as `SessionLost`, or as `ServerUnavailable` if the call changes nothing.
    """


class InvalidInput(InferwireError):
    """A name, element type, shape or value does not fit, and only the server could tell."""

    code = Code.INVALID_INPUT


class ModelNotFound(InferwireError):
    """The server has no such model or version, or it is not this session's."""

    code = Code.MODEL_NOT_FOUND


class JobNotFound(InferwireError):
    """The server has no such job."""

    code = Code.JOB_NOT_FOUND


class ModelNotReady(InferwireError):
    """The model is loading or unloading; the same call may succeed soon."""

    code = Code.MODEL_NOT_READY


class ModelFailed(InferwireError):
    """The model could not be read or compiled."""

    code = Code.MODEL_FAILED


class TooLarge(InferwireError):
    """A message or an upload is over one of the server's limits."""

    code = Code.TOO_LARGE


class Unimplemented(InferwireError):
    """The server does not offer the call."""

    code = Code.UNIMPLEMENTED


class UnsupportedEncoding(InferwireError):
    """The server does not read the encoding of the content."""

    code = Code.UNSUPPORTED_ENCODING


class SessionExpired(InferwireError):
    """The server that a call came to does not have this client's session; the next call opens a new one."""

    code = Code.SESSION_EXPIRED


class SessionLost(InferwireError):
    """What the server kept for this client is gone and cannot be made again here; the message says what to do."""

    code = Code.SEQUENCE_NOT_FOUND


class TensorLost(SessionLost):
    """A tensor that the server kept for this client is gone; make it anew, or run again what gave it."""

    code = Code.TENSOR_NOT_FOUND


class UnsupportedType(InferwireError, TypeError):
    """A property's value is of a type that Python lacks, or only a later client knows. A `TypeError`, as openvino's."""

    code = Code.UNSUPPORTED_TYPE


class QueueFull(InferwireError):
    """The device's queue is full; `retry_after_s` says when to try again, if the server knows."""

    code = Code.QUEUE_FULL


class DeadlineExceeded(InferwireError):
    """The time for the call was up before its answer."""

    code = Code.DEADLINE_EXCEEDED


class Cancelled(InferwireError):
    """The execution was cancelled, here or by the server."""

    code = Code.CANCELLED


class Unauthenticated(InferwireError):
    """The server wants a key and got none that it knows; `api_key` of `Core`, or INFERWIRE_API_KEY, gives one."""

    code = Code.UNAUTHENTICATED


class PermissionDenied(InferwireError):
    """The caller may not do this, or the server's operator has not allowed it."""

    code = Code.PERMISSION_DENIED


class InferenceFailed(InferwireError):
    """OpenVINO raised on the server; the message is its own."""

    code = Code.INFERENCE_FAILED


class ShuttingDown(InferwireError):
    """The server is draining; another replica, or the same later, may take the call."""

    code = Code.SHUTTING_DOWN


class InternalError(InferwireError):
    """A bug in the server; the message has an id that its log explains."""

    code = Code.INTERNAL


LOST = (ServerUnavailable, ShuttingDown, SessionExpired)
"""Errors after which a new connection, or a new session, may help."""

_BY_CODE: dict[Code, type[InferwireError]] = {
    kind.code: kind
    for kind in (*InferwireError.__subclasses__(), *SessionLost.__subclasses__())
    if kind.code is not None
}

if _BY_CODE.keys() != set(Code):
    raise ImportError(f"codes without an exception: {set(Code) - _BY_CODE.keys()}; this is a bug")


def anew(error: E) -> E:
    """Copy an exception without its traceback.

    An error that is kept is raised as a copy: its own traceback would keep alive the frames of each caller that it was
    raised to, with all that they refer to. `__init__` is not run for the copy, because that of a program's own error
    may take other arguments than those in `args`.
    """
    made = type(error).__new__(type(error), *error.args)
    made.__dict__.update(error.__dict__)
    made.__cause__, made.__suppress_context__ = error.__cause__, error.__suppress_context__
    return made


def error_of(code: Code | None, message: str, retry_after_s: float | None = None) -> InferwireError:
    """Make the exception of a code."""
    kind = InferwireError if code is None else _BY_CODE[code]
    return kind(message, retry_after_s)


def unauthenticated(message: str) -> Unauthenticated:
    """Make the error of a call without a valid key, and say how to give one if the server's message does not."""
    is_said = "INFERWIRE_API_KEY" in message or "api_key" in message
    return Unauthenticated(message if is_said else f"{message}; give one of the server's keys {WHERE_KEYS}")


def closed_here(address: str) -> Cancelled:
    """Make the error of what was under way as the program closed the connection."""
    return Cancelled(f"the connection to {address} was closed here")


def lost_under_way(error: ServerUnavailable) -> ServerUnavailable:
    """Make the error of an inference that was sent, and may or may not have run."""
    return ServerUnavailable(f"the connection was lost while the inference was under way, which may have run: {error}")


def tensor_lost(address: str, error: TensorLost) -> TensorLost:
    """Make the error for a tensor that a server no longer has, and say what to do."""
    return TensorLost(
        f"the server at {address} has lost a tensor that it kept for this client ({error}), as when it has restarted;"
        " make the remote tensor anew, or run the inference again whose output it was"
    )
