"""Errors as gRPC says them: a status, a sentence, and the code in the trailing metadata."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Any, NoReturn, TypeAlias

import grpc
import structlog
from google.protobuf.message import DecodeError

from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_proto.framing import MalformedMessage
from inferwire_server.errors import ServingError, invalid_input

log = structlog.stdlib.get_logger()

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

RETRY_AFTER_METADATA = "retry-after"
"""The trailing metadata entry that says when a retry makes sense, in seconds."""

_MOST_DETAILS_BYTES = 6000
"""What a sentence may take in a header, where bytes beyond ASCII take three each; peers begin to refuse
headers of more than 8 KiB in all."""

_MOST_BYTES_PER_CHARACTER = 12


def status_of(code: Code) -> grpc.StatusCode:
    """Look up the status of a code."""
    return grpc.StatusCode[code.grpc]


def trailers_of(error: ServingError) -> tuple[tuple[str, str], ...]:
    """Say what the status alone does not."""
    trailers = ((CODE_METADATA, error.code.name),)
    if error.retry_after_s is None:
        return trailers
    return (*trailers, (RETRY_AFTER_METADATA, f"{error.retry_after_s:g}"))


def as_serving_error(error: Exception) -> ServingError:
    """Turn whatever a call raised into what its caller is told; a bug into an id that the log explains."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, MalformedMessage | DecodeError):
        return invalid_input(str(error))
    bug_id = token_hex(4)
    log.error("bug in a gRPC call", id=bug_id, exc_info=error)
    return ServingError(Code.INTERNAL, f"a bug in the server; its log has more under id {bug_id}")


def too_large(byte_size: int, limit: int) -> ServingError:
    """Refuse an answer that is no message any more."""
    return ServingError(
        Code.TOO_LARGE,
        f"the answer has {byte_size} bytes, at most {limit} fit in a message; ask for fewer outputs, "
        "or start the server with a larger --max-grpc-message-mb",
    )


async def abort(context: Context, error: ServingError) -> NoReturn:
    """End a call with an error."""
    await context.abort(status_of(error.code), clipped(error.message), trailers_of(error))
    raise asyncio.CancelledError  # a call that the peer has already left does not raise by itself


def clipped(message: str) -> str:
    """Keep the beginning of a sentence that is too long for a header."""
    room = _MOST_DETAILS_BYTES
    if len(message) * _MOST_BYTES_PER_CHARACTER <= room:
        return message
    for index, character in enumerate(message):
        is_plain = " " <= character <= "~" and character != "%"
        room -= 1 if is_plain else 3 * len(character.encode("utf-8", "surrogatepass"))
        if room < 0:
            return message[:index] + "..."
    return message
