"""What a peer wants of this side: how much it takes at a time, and what is remembered of headers."""

from __future__ import annotations

from collections.abc import Iterable

from inferwire_server.transport.http2 import frames
from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode
from inferwire_server.transport.http2.header_blocks import REMEMBERED_BYTES
from inferwire_server.transport.http2.outflow import Outflow
from inferwire_server.transport.http2.stream import Stream

MOST_SENT_FRAME_BYTES = 1 << 20
"""How many bytes of data go in a frame at the most. gRPC's clients take 16 MiB, and nothing else goes before the end of
a frame: neither a small answer, nor that to a ping, for which a client does not wait long."""


def apply_settings(content: bytes, outflow: Outflow, streams: Iterable[Stream]) -> None:
    """Do as a frame of settings says, also with the streams that are open.

    Raises:
        ConnectionFailed: A setting is none that may be.
    """
    if len(content) % frames.SETTING.size:
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "settings are cut short")
    # Of several values of one, the last counts: each of the window's takes a look at every stream.
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
    """Give streams a window of this size, those that are open too: what they have used of the one before counts.

    Only those wait for their turn that have room now: a peer may say this often, and have thousands that have none.
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
