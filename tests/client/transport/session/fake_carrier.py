"""A carrier whose messages are a test's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from queue import SimpleQueue

from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.executions import WireBytes
from inferwire.transport.session.carriers import Pieces
from inferwire.transport.session.session_stream import SessionStream
from inferwire_proto.inferwire.v1.inference_pb2 import SessionResponse, SessionWelcome

WELCOME = SessionResponse(welcome=SessionWelcome(session_id="s")).SerializeToString()


class FakeCarrier:
    """Carries nothing to nobody. What is put in `incoming` has come, or is raised."""

    has_come: Callable[[], object] | None = None

    def __init__(self, send: Callable[[Pieces, list[int]], None] | None = None) -> None:
        self.send = send
        self.incoming: SimpleQueue[WireBytes | BaseException] = SimpleQueue()
        self.incoming.put(WELCOME)
        self.is_cancelled = False
        self.messages: Iterator[Pieces] = iter(())

    def start(self, messages: Iterator[Pieces], wake: Callable[[], None]) -> None:
        """Leave what is to be sent."""
        del wake
        self.messages = messages

    def receive(self) -> Generator[WireBytes]:
        """Give what has come until something is raised."""
        while True:
            came = self.incoming.get()
            if isinstance(came, BaseException):
                raise came
            yield came

    def cancel(self) -> None:
        """Note it, and end."""
        self.is_cancelled = True
        self.incoming.put(ov.Cancelled("the stream was cancelled"))


def holds_up_nobody(stream: SessionStream) -> bool:
    """Whether who waits for what was cancelled goes on."""
    waiting = threading.Thread(target=stream.await_cancelled, daemon=True)
    waiting.start()
    waiting.join(LIMIT_S)
    return not waiting.is_alive()
