"""Errors as gRPC says them: a status, a sentence, and the code in the trailing metadata."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn, TypeAlias

import grpc

from inferwire_proto.errors import CODE_METADATA, RETRY_AFTER_METADATA, Code
from inferwire_server.errors import ServingError

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

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
