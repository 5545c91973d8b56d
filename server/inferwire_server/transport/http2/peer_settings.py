"""A peer's settings: how much it takes at a time, and how much of the headers it remembers."""

from __future__ import annotations

from collections.abc import Iterable

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode
from inferwire_server.transport.http2.header_blocks import REMEMBERED_BYTES
from inferwire_server.transport.http2.outflow import Outflow
from inferwire_server.transport.http2.stream import Stream

MOST_SENT_FRAME_BYTES = 1 << 20
"""The most bytes of data that go in one frame. gRPC's clients take 16 MiB, but nothing else can be sent before the end
of a frame: neither a small answer, nor the answer to a ping, for which a client does not wait long."""


def apply_settings(content: bytes, outflow: Outflow, streams: Iterable[Stream]) -> None:
    """Apply a frame of settings, also to the streams that are open.

    Raises:
        ConnectionFailed: A setting has a value that it may not have.
    """
    if len(content) % frames.SETTING.size:
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "settings are cut short")
    # If a setting comes several times, only the last counts: each change of the window takes a look at every stream.
    for setting, value in dict(frames.SETTING.iter_unpack(content)).items():
        if setting == frames.INITIAL_WINDOW_SIZE:
            _set_window(value, outflow, streams)
        elif setting == frames.MAX_FRAME_SIZE:
            if not frames.SMALLEST_MAX_FRAME <= value <= frames.LARGEST_MAX_FRAME:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"the longest frame cannot have {value} bytes")
            outflow.most_frame_bytes = min(value, MOST_SENT_FRAME_BYTES)
        elif setting == frames.HEADER_TABLE_SIZE:
            outflow.owes_size_update |= value < REMEMBERED_BYTES
        elif setting == frames.ENABLE_PUSH and value not in (0, 1):
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"push is {value}, expected 0 or 1")


def _set_window(size: int, outflow: Outflow, streams: Iterable[Stream]) -> None:
    """Give streams a window of this size. Of open ones, what they have used of the old window is taken off.

    Only streams that have room now wait for their turn: a peer may send this often, and have thousands without room.
    """
    if size > frames.LARGEST_WINDOW:
        raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, f"a window cannot have {size} bytes")
    more, outflow.initial_window = size - outflow.initial_window, size
    for stream in streams:
        stream.window += more
        if stream.window > frames.LARGEST_WINDOW:
            raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, f"a window cannot grow by {more} bytes")
        if stream.unsent and stream.window > 0:
            outflow.wait(stream)
