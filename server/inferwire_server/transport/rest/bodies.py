"""Reading request bodies: never more than the limit, however they are framed or compressed."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any, cast

import orjson
from starlette.requests import ClientDisconnect, Request

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.transport.rest.exchange import exchange_of
from inferwire_server.transport.rest.request_headers import header

_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


async def read_body(request: Request, limit: int) -> bytes:
    """Read a body to its end, decompressed.

    Raises:
        ServingError: TOO_LARGE as soon as it is, UNSUPPORTED_ENCODING, or INVALID_INPUT.
        ClientDisconnect: If the caller goes before the end.
    """
    encoding = (header(request, b"content-encoding") or "").strip().lower()
    if encoding not in _WINDOW_BITS and encoding not in ("", "identity"):
        raise ServingError(
            Code.UNSUPPORTED_ENCODING,
            f"the body has Content-Encoding '{encoding}', expected gzip, deflate or identity",
        )
    body = await read_undecoded(request, limit)
    if encoding in _WINDOW_BITS:
        return await asyncio.to_thread(decompress, body, encoding, limit)
    return body


async def read_undecoded(request: Request, limit: int) -> bytes:
    """Read a body to its end, as it was sent.

    Raises:
        ServingError: TOO_LARGE as soon as it is.
        ClientDisconnect: If the caller goes before the end.
    """
    stated = header(request, b"content-length")
    if stated is not None and stated.isdigit() and int(stated) > limit:
        raise _too_large(f"the body has {stated} bytes", limit)
    whole = exchange_of(request.scope).take_body()
    if whole is not None:
        if len(whole) > limit:
            raise _too_large(f"the body has more than {limit} bytes", limit)
        return bytes(whole)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(f"the body has more than {limit} bytes", limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """Decompress a body, and stop where it grows over the limit.

    Raises:
        ServingError: TOO_LARGE, or INVALID_INPUT if it is not what its encoding says.
    """
    stream = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        content = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise invalid_input(f"the body is no {encoding} stream: {error}") from error
    if len(content) > limit:
        raise _too_large(f"the body has more than {limit} bytes when decompressed", limit)
    if not stream.eof:
        raise invalid_input(f"the body ends inside its {encoding} stream, expected all of it")
    if stream.unused_data:
        raise invalid_input(f"{len(stream.unused_data)} bytes follow the {encoding} stream of the body, expected none")
    return content


async def read_object(request: Request, limit: int) -> dict[str, Any]:
    """Read a body that is a JSON object; one that is empty is one without entries.

    Raises:
        ServingError: INVALID_INPUT for any other, and what reading a body raises.
    """
    body = await read_body(request, limit)
    try:
        parsed: object = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise invalid_input(f"the body is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise invalid_input("the body is no JSON object, expected one or nothing")
    return cast("dict[str, Any]", parsed)


def _too_large(what: str, limit: int) -> ServingError:
    return ServingError(
        Code.TOO_LARGE,
        f"{what}, expected at most {limit}; send less, or start the server with a larger --max-http-body-mb",
    )
