"""Reading request bodies: never more than the limit, however they are framed or compressed."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any, cast

import orjson
from starlette.requests import ClientDisconnect, Request

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.gil_thread import GilThread
from inferwire_server.transport.compression import WINDOW_BITS, inflate
from inferwire_server.transport.http.exchange import Body, exchange_of
from inferwire_server.transport.http.request_headers import stated_length

_WINDOW_BITS = WINDOW_BITS | {"x-gzip": WINDOW_BITS["gzip"]}
_GZIP = b"\x1f\x8b"
"""What a member of a gzip stream begins with; there may be several."""
_STEP = 1024
"""How many bytes are decompressed at once of the members behind the first: there may be many members."""

LONG_JSON = 64 * 1024
"""From this many bytes on, JSON is read and written on a thread."""

_MOST_VALUES = 65536
"""About how many values such an object may have: it has settings, which are few. Each value may take a hundred times
its bytes in memory."""


async def read_body(request: Request, limit: int) -> Body:
    """Read a body to its end, decompressed.

    Raises:
        ServingError: TOO_LARGE as soon as it is, UNSUPPORTED_ENCODING, or INVALID_INPUT.
        ClientDisconnect: If the caller goes before the end.
    """
    encoding = _encoding(request)
    if encoding not in _WINDOW_BITS and encoding != "":
        raise ServingError(
            Code.UNSUPPORTED_ENCODING,
            f"the body has Content-Encoding '{encoding}', expected gzip, deflate or identity",
        )
    body = await read_undecoded(request, limit)
    if encoding in _WINDOW_BITS:
        return await asyncio.to_thread(decompress, body, encoding, limit)
    return body


async def read_undecoded(request: Request, limit: int) -> Body:
    """Read a body to its end, as it was sent.

    Raises:
        ServingError: TOO_LARGE as soon as it is.
        ClientDisconnect: If the caller goes before the end.
    """
    stated = stated_length(request.scope)
    if stated > limit:
        raise _too_large(f"the body has {stated} bytes", limit)
    exchange = exchange_of(request.scope)
    if stated:
        await exchange.wait_for_body()
    whole = exchange.take_body()
    if whole is not None:
        if len(whole) > limit:
            raise _too_large(f"the body has more than {limit} bytes", limit)
        return whole
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


def decompress(body: Body, encoding: str, limit: int) -> bytes:
    """Decompress a body, and stop where it grows over the limit.

    Raises:
        ServingError: TOO_LARGE, or INVALID_INPUT if it is not what its encoding says.
    """
    members: list[bytes] = []
    size, rest = 0, memoryview(body)
    while True:
        try:
            inflated = inflate(rest, _WINDOW_BITS[encoding], limit - size, _STEP if members else None)
        except zlib.error as error:
            raise invalid_input(f"the body is no {encoding} stream: {error}") from error
        members.append(inflated.content)
        size += len(inflated.content)
        if size > limit:
            raise _too_large(f"the body has more than {limit} bytes when decompressed", limit)
        if not inflated.is_whole:
            raise invalid_input(f"the body ends inside its {encoding} stream, expected all of it")
        rest = rest[inflated.taken :]
        if not rest:
            return b"".join(members)
        if encoding == "deflate" or bytes(rest[:2]) != _GZIP:
            raise invalid_input(f"{len(rest)} bytes follow the {encoding} stream of the body, expected none")


async def read_object(request: Request, limit: int, gil_thread: GilThread) -> dict[str, Any]:
    """Read a body that is a JSON object. An empty body is an object without entries, and entries of null are left out.

    Raises:
        ServingError: INVALID_INPUT for any other, and what reading a body raises.
    """
    body = bytes(await read_body(request, limit))
    return await gil_thread.run(_object, body) if len(body) > LONG_JSON else _object(body)


def _object(body: bytes) -> dict[str, Any]:
    # Each value but the first stands behind one of these. Texts may have them, too; files in base64 have none.
    if sum(map(body.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise invalid_input(f"the body has more than {_MOST_VALUES} values, expected fewer")
    try:
        parsed: object = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise invalid_input(f"the body is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise invalid_input("the body is no JSON object, expected one or nothing")
    return present(cast("dict[str, Any]", parsed))


def present(members: dict[str, Any]) -> dict[str, Any]:
    """Give an object's members without those that are null: many programs write null for what is not there."""
    if None not in members.values():
        return members
    return {name: value for name, value in members.items() if value is not None}


def _too_large(what: str, limit: int) -> ServingError:
    return ServingError(
        Code.TOO_LARGE,
        f"{what}, expected at most {limit}; send less, or start the server with a larger --max-http-body-mb",
    )


def _encoding(request: Request) -> str:
    """Say how a body is encoded, empty if it is not: by all headers of that name, of which there may be several."""
    stated = [value for name, value in request.scope["headers"] if name == b"content-encoding"]
    if not stated:
        return ""
    encodings = [encoding.strip().lower() for encoding in b",".join(stated).decode("latin-1").split(",")]
    return ", ".join(encoding for encoding in encodings if encoding not in ("", "identity"))
