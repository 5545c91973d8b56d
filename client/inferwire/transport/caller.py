"""Calls beside the session's stream, on whichever link is open.

Owns what becomes of a call that fails: an exception of the client's, or one more attempt on a new link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from inferwire.errors import LOST
from inferwire.transport import rpc
from inferwire.transport.connection import Connection
from inferwire.transport.link import Link

T = TypeVar("T")


class Caller:
    """Makes calls to one server."""

    def __init__(self, connection: Connection, address: str) -> None:
        self.connection = connection
        self.address = address

    def __repr__(self) -> str:
        return f"<Caller over {self.connection!r}>"

    def call(self, method: str, request: Message, response_type: type[rpc.R]) -> rpc.R:
        """Make a call that may be made twice; if its link is lost, once more on a new one."""
        return self.repeat_if_lost(lambda link: self.call_on(link, method, request, response_type))

    def repeat_if_lost(self, action: Callable[[Link], T]) -> T:
        """Do something that may be done twice; if its link is lost, once more on a new one."""
        link = self.connection.open_for_calls()
        try:
            return action(link)
        except LOST:
            return action(self.connection.replace(link))

    def call_on(self, link: Link, method: str, request: Message, response_type: type[rpc.R]) -> rpc.R:
        """Make a call on one link."""
        with rpc.as_own_errors(self.address):
            return rpc.call(link.channel, method, request, response_type, link.metadata)

    def stream_on(
        self, link: Link, method: str, request: Message, response_type: type[rpc.R], take: Callable[[rpc.R], object]
    ) -> None:
        """Make a call on one link that is answered with many messages, each of which is taken as it comes."""
        with rpc.as_own_errors(self.address):
            rpc.call_for_stream(link.channel, method, request, response_type, link.metadata, take)

    def call_raw(self, link: Link, method: str, request: bytes) -> bytes:
        """Make a call on one link whose request and answer are serialised messages."""
        with rpc.as_own_errors(self.address):
            return rpc.call_raw(link.channel, method, request, link.metadata)
