"""What the headers of a gRPC call say, read once for all calls with the same headers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from inferwire_server.transport.http2.connection import Refused, Trailers
from inferwire_server.transport.http2.header_blocks import Field, list_size
from inferwire_server.transport.request_ids import id_in

Metadata: TypeAlias = tuple[tuple[str, str], ...]
"""The entries of a call's metadata, without binary ones, which nothing here reads."""

_CONTENT_TYPE = b"application/grpc"

_REQUIRED = (b":method", b":scheme", b":path")
_PSEUDO = frozenset((*_REQUIRED, b":authority"))

_NOT_METADATA = frozenset(
    (b"content-type", b"content-length", b"te", b"grpc-timeout", b"grpc-encoding", b"grpc-accept-encoding")
)
"""The headers that are HTTP's and gRPC's own."""

_OF_BYTES = b"-bin"
"""How the names of binary metadata end."""

_OF_HTTP_1 = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))

_NAME = re.compile(rb":?[!#$%&'*+\-.^_`|~0-9a-z]+")
"""What a header may be called (RFC 9113, 8.2)."""

_NO_VALUE = re.compile(rb"[\0\r\n]")
"""What no header's value may have: another protocol would make two headers of it (RFC 9113, 8.2.1)."""

_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class CallHead(NamedTuple):
    """A call's headers.

    Attributes:
        path: Which call it is: `/package.Service/Method`.
        metadata: What its caller sends besides its messages.
        timeout_s: How long it may take; None for any time.
        encoding: How its compressed messages are compressed.
        is_grpc: Whether it is a call of gRPC at all.
        byte_size: How long all headers are together.
        content_length: How many bytes of data its caller means to send, if it has said so.
        unknown_timeout: The caller's `grpc-timeout`, if that is no time; None if it is one, or there is none.
    """

    path: str
    metadata: Metadata
    timeout_s: float | None
    encoding: str
    is_grpc: bool
    byte_size: int
    content_length: int | None = None
    unknown_timeout: bytes | None = None

    @property
    def where(self) -> dict[str, str]:
        """Say in a log which call is meant: its path, and its caller's own id for it."""
        request_id = id_in(self.metadata)
        return {"path": self.path, "request_id": request_id} if request_id else {"path": self.path}


def read_head(fields: Sequence[Field]) -> CallHead | Refused:
    """Read a call's headers; refuse headers that make no request of HTTP/2.

    A header that is repeated is checked and kept once: HTTP/2 lets a caller repeat a long header in a byte each time.
    """
    headers: dict[bytes, bytes] = {}
    entries: dict[Field, Metadata] = {}
    metadata: list[tuple[str, str]] = []
    is_pseudo = True
    try:
        for field in fields:
            if field in entries:
                metadata.extend(entries[field])
                continue
            name, value = field
            may_be_pseudo, is_pseudo = is_pseudo and name not in headers, name.startswith(b":")
            if name in _OF_HTTP_1 or not _NAME.fullmatch(name) or (is_pseudo and not may_be_pseudo):
                return Refused(name)
            if _NO_VALUE.search(value):
                return Refused(name, value)
            headers[name] = value
            if not is_pseudo:
                entries[field] = _entries(name, value)
                metadata.extend(entries[field])
        return _head(headers, tuple(metadata), fields)
    except ValueError as error:
        return Refused(str(error))


def _head(headers: Mapping[bytes, bytes], metadata: Metadata, fields: Sequence[Field]) -> CallHead | Refused:
    pseudo = [name for name in headers if name.startswith(b":")]
    if not pseudo:
        return Trailers()
    missing = [name for name in _REQUIRED if not headers.get(name)]
    unknown = [name for name in pseudo if name not in _PSEUDO]
    if missing or unknown:
        return Refused(missing, unknown)
    timeout = headers.get(b"grpc-timeout")
    timeout_s = None if timeout is None else _timeout_s(timeout)
    kind = headers.get(b"content-type", b"")
    is_grpc = kind.startswith(_CONTENT_TYPE) and kind[len(_CONTENT_TYPE) :][:1] in (b"", b"+", b";")
    return CallHead(
        headers[b":path"].decode(),
        metadata,
        timeout_s,
        headers.get(b"grpc-encoding", b"identity").decode(),
        is_grpc and headers[b":method"] == b"POST",
        list_size(fields),
        _content_length(fields) if b"content-length" in headers else None,
        timeout if timeout_s is None else None,
    )


def _entries(name: bytes, value: bytes) -> Metadata:
    """Give what a header is as metadata, which may be nothing."""
    if name in _NOT_METADATA or name.endswith(_OF_BYTES):
        return ()
    return ((name.decode("ascii"), value.decode("latin-1")),)


def _timeout_s(value: bytes) -> float | None:
    found = _TIMEOUT.fullmatch(value)
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def _content_length(fields: Sequence[Field]) -> int:
    length, *others = {value for name, value in fields if name == b"content-length"}
    if others or not length.isdigit():
        raise ValueError(f"the header content-length is {[length, *others]}")
    return int(length)
