"""What a server is asked to read in place: when, what becomes of its answer, and when it hears that it is over."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from tests.waiting import LIMIT_S, wait_until

from inferwire.transport.address import Address
from inferwire.transport.lending import LEAST_BYTES, Lending
from inferwire.transport.lent_memory import LentMemory
from inferwire.transport.releases import Released, Releases
from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1.tensors_pb2 import LendMemoryRequest, LendMemoryResponse

SIZE = LEAST_BYTES


@dataclass
class Server:
    """Answers calls as it is told to; `code` is what it refuses with, if it does."""

    code: str = ""
    status: grpc.StatusCode = grpc.StatusCode.PERMISSION_DENIED
    calls: SimpleQueue[LendMemoryRequest] = field(default_factory=SimpleQueue[LendMemoryRequest])

    def lend_memory(self, request: bytes, context: Any) -> bytes:
        self.calls.put(LendMemoryRequest.FromString(request))
        if self.code:
            context.set_trailing_metadata(((CODE_METADATA, self.code),))
            context.abort(self.status, "refused")
        return LendMemoryResponse().SerializeToString()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def channel(server: Server) -> Iterator[grpc.Channel]:
    rpc: Any = grpc
    running = rpc.server(ThreadPoolExecutor(2))
    method = rpc.unary_unary_rpc_method_handler(server.lend_memory)
    service = rpc.method_handlers_generic_handler("inferwire.v1.TensorService", {"LendMemory": method})
    running.add_generic_rpc_handlers((service,))
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    running.stop(None).wait()


@pytest.fixture
def released() -> SimpleQueue[Released]:
    return SimpleQueue()


@pytest.fixture
def lending(released: SimpleQueue[Released]) -> Iterator[Lending]:
    def send(each: list[Released]) -> bool:
        for one in each:
            released.put(one)
        return True

    releases = Releases(send)
    yield Lending(Address("127.0.0.1:1"), releases)
    releases.stop()


@pytest.fixture
def link(channel: grpc.Channel) -> Any:
    return link_of(channel, "one")


def link_of(channel: grpc.Channel, session_id: str, most_bytes: int = 1 << 30) -> Any:
    stream = SimpleNamespace(most_bytes=most_bytes)
    return SimpleNamespace(channel=channel, session_id=session_id, metadata=(), stream=stream)


def made(lending: Lending) -> LentMemory:
    memory = lending.memory(SIZE)
    assert memory is not None
    return memory


def lent(lending: Lending, link: Any, memory: LentMemory) -> None:
    """Use memory until the server reads it in place."""
    wait_until(lambda: lending.names_or_ask(link, [memory.wire_data(SIZE)]) is not None)


def refused(lending: Lending, link: Any, memory: LentMemory) -> None:
    """Use memory until the server has refused it."""

    def is_refused() -> bool:
        assert lending.names_or_ask(link, [memory.wire_data(SIZE)]) is None
        return lending.memory(SIZE) is None

    wait_until(is_refused)


def test_a_server_that_no_thread_is_there_to_ask_is_asked_later(lending: Lending, link: Any) -> None:
    memory = made(lending)
    assert lending.names_or_ask(link, [memory.wire_data(SIZE)]) is None
    usual = threading.stack_size(1 << 46)
    try:
        assert lending.names_or_ask(link, [memory.wire_data(SIZE)]) is None
    finally:
        threading.stack_size(usual)
    lent(lending, link, memory)


def test_bytes_are_sent_until_the_server_has_what_is_used_again(server: Server, lending: Lending, link: Any) -> None:
    memory = made(lending)
    other = bytes(SIZE)
    assert lending.names_or_ask(link, [memory.wire_data(SIZE)]) is None
    assert repr(lending) == "<Lending to 127.0.0.1:1: 0 of 1 granted>"
    assert server.calls.empty()
    lent(lending, link, memory)
    assert lending.names_or_ask(link, [other, memory.wire_data(SIZE), memory.wire_data(8)]) == (0, memory.id, memory.id)
    assert lending.names_or_ask(link, [other]) is None
    asked = server.calls.get(timeout=LIMIT_S)
    assert (asked.id, asked.pid, asked.descriptor) == (memory.id, memory.pid, memory.descriptor)
    assert (asked.byte_size, asked.nonce) == (memory.byte_size, memory.nonce)
    assert server.calls.empty()


def test_another_session_is_asked_again(server: Server, lending: Lending, link: Any) -> None:
    memory = made(lending)
    lent(lending, link, memory)
    again = link_of(link.channel, "two")
    assert lending.names_or_ask(again, [memory.wire_data(SIZE)]) is None
    lent(lending, again, memory)
    assert [server.calls.get(timeout=LIMIT_S).id for _ in range(2)] == [memory.id] * 2


@pytest.mark.parametrize("code", ["PERMISSION_DENIED", "INVALID_INPUT", "TOO_LARGE", "UNIMPLEMENTED"])
def test_a_server_that_refuses_is_sent_bytes_and_asked_no_more(
    server: Server, lending: Lending, link: Any, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.code = code
    memory, other = made(lending), made(lending)
    with caplog.at_level(logging.DEBUG, "inferwire.transport.lending"):
        refused(lending, link, memory)
    assert caplog.messages == ["the server at 127.0.0.1:1 is sent what it cannot read in place: refused"]
    assert lending.names_or_ask(link, [other.wire_data(SIZE)] * 3) is None
    server.calls.get(timeout=LIMIT_S)
    assert server.calls.empty()


def test_a_server_of_before_is_sent_bytes(lending: Lending, link: Any) -> None:
    rpc: Any = grpc
    old = rpc.server(ThreadPoolExecutor(1))
    port = old.add_insecure_port("127.0.0.1:0")
    old.start()
    memory = made(lending)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        refused(lending, link_of(channel, "old"), memory)
    old.stop(None).wait()
    lent(lending, link, memory)
    assert lending.memory(SIZE) is not None


def test_a_lost_connection_is_no_refusal(server: Server, lending: Lending, link: Any) -> None:
    server.code, server.status = "SESSION_EXPIRED", grpc.StatusCode.FAILED_PRECONDITION
    memory = made(lending)
    for _ in range(2):
        lending.names_or_ask(link, [memory.wire_data(SIZE)])
    server.calls.get(timeout=LIMIT_S)
    server.code = ""
    lent(lending, link, memory)


def test_a_closed_connection_is_no_refusal(lending: Lending, link: Any) -> None:
    closed = link_of(grpc.insecure_channel("127.0.0.1:1"), "closed")
    closed.channel.close()
    memory = made(lending)
    for _ in range(4):
        assert lending.names_or_ask(closed, [memory.wire_data(SIZE)]) is None
    lent(lending, link, memory)


def test_a_server_hears_of_what_nobody_uses_any_more(
    lending: Lending, link: Any, released: SimpleQueue[Released]
) -> None:
    used_once, memory = made(lending), made(lending)
    lending.names_or_ask(link, [used_once.wire_data(SIZE)])
    del used_once
    lent(lending, link, memory)
    name = memory.id
    del memory
    gc.collect()
    assert released.get(timeout=LIMIT_S) == Released(lent=name)
    assert released.empty()
    assert repr(lending) == "<Lending to 127.0.0.1:1: 0 of 0 granted>"


def test_what_a_server_does_not_take_is_not_offered(server: Server, lending: Lending, link: Any) -> None:
    memory = made(lending)
    small = link_of(link.channel, "one", most_bytes=SIZE)
    for _ in range(4):
        assert lending.names_or_ask(small, [memory.wire_data(SIZE)]) is None
    assert server.calls.empty()


@pytest.mark.parametrize(
    ("target", "byte_size"), [("127.0.0.1:1", SIZE - 1), ("10.0.0.1:1", SIZE), ("example.com:1", SIZE)]
)
def test_small_inputs_and_far_servers_have_ordinary_memory(target: str, byte_size: int) -> None:
    assert Lending(Address(target), Releases(bool)).memory(byte_size) is None


def test_memory_is_made_for_servers_at_unix_sockets() -> None:
    memory = Lending(Address("unix:/run/inferwire.sock"), Releases(bool)).memory(SIZE)
    assert memory is not None
    assert not memory.elements(np.dtype(np.uint8), SIZE).any()
