"""Limits on frames that bring no call further: each takes time, so a peer could keep this side busy with them."""

from __future__ import annotations

from inferwire_server.transport.http2.frames import ConnectionFailed, ErrorCode

_MOST_IDLE_FRAMES = 1000
"""How many frames may come that bring no call further, before data goes either way or some seconds have passed. Each
takes time, and some want an answer."""

_MOST_SETTINGS = 100
"""How many frames of settings may come before some seconds have passed, whatever else comes: each may change the window
of every stream."""


class FloodLimits:
    """How many such frames have come on one connection lately.

    Attributes:
        idle_frames: How many frames have come that bring no call further. The connection sets it to 0 when a frame
            comes that does.
    """

    __slots__ = ("_sent", "_settings", "idle_frames")

    def __init__(self) -> None:
        self.idle_frames = 0
        self._settings = 0
        self._sent = 0

    def __repr__(self) -> str:
        return f"<FloodLimits: {self.idle_frames} frames that bring nothing further, {self._settings} of settings>"

    def count_idle(self, sent: int) -> None:
        """Count a frame that brings no call further; `sent` is how many bytes of data have gone out until now.

        Raises:
            ConnectionFailed: ENHANCE_YOUR_CALM, if too many have come one after the other.
        """
        if sent != self._sent:
            self._sent = sent
            self.idle_frames = 0
        self.idle_frames += 1
        if self.idle_frames > _MOST_IDLE_FRAMES:
            sentence = f"{_MOST_IDLE_FRAMES} frames have come that bring no call further"
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, sentence)

    def count_settings(self) -> None:
        """Count a frame of settings.

        Raises:
            ConnectionFailed: ENHANCE_YOUR_CALM, if too many have come.
        """
        self._settings += 1
        if self._settings > _MOST_SETTINGS:
            sentence = f"{_MOST_SETTINGS} frames of settings have come within a few seconds"
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, sentence)

    def forget(self) -> None:
        """Begin to count anew, because some seconds have passed."""
        self.idle_frames = self._settings = 0
