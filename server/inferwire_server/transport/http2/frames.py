"""The frames of HTTP/2: the numbers that they are made of, and how this side writes its own."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client says first."""

HEAD: Final = Struct(">BHBBL")
"""A frame's head: the length of what follows (its high byte, its low two), its kind, its flags, its stream."""

HEAD_BYTES: Final = 9

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

DEFAULT_WINDOW: Final = 65_535
LARGEST_WINDOW: Final = 2**31 - 1
SMALLEST_MAX_FRAME: Final = 16_384
LARGEST_MAX_FRAME: Final = 2**24 - 1
LARGEST_STREAM: Final = 2**31 - 1

UINT32: Final = Struct(">L")
SETTING: Final = Struct(">HL")


class ErrorCode(IntEnum):
    """Why a stream or a connection is given up."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class ConnectionFailed(Exception):
    """The peer has broken the protocol, so that nothing that it says next can be understood."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(f"{code.name}: {why}")
        self.code = code
        self.why = why


def head(kind: int, flags: int, stream_id: int, length: int) -> bytes:
    """Write the head of a frame of so many bytes."""
    return HEAD.pack(length >> 16, length & 0xFFFF, kind, flags, stream_id)


def frame(kind: int, flags: int = 0, stream_id: int = 0, content: bytes = b"") -> bytes:
    """Write a frame."""
    return head(kind, flags, stream_id, len(content)) + content


def settings(values: dict[int, int]) -> bytes:
    """Write a frame of settings."""
    return frame(SETTINGS, content=b"".join([SETTING.pack(*setting) for setting in values.items()]))


def window_update(stream_id: int, size: int) -> bytes:
    """Write that the peer may send so many bytes more, on a stream or (0) on all together."""
    return frame(WINDOW_UPDATE, 0, stream_id, UINT32.pack(size))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """Write that a stream is given up."""
    return frame(RST_STREAM, 0, stream_id, UINT32.pack(code))


def goaway(last_stream: int, code: ErrorCode, why: str = "") -> bytes:
    """Write that streams after the last are ignored, and why."""
    return frame(GOAWAY, content=UINT32.pack(last_stream) + UINT32.pack(code) + why.encode())
