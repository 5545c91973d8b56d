"""Calls that fetch what is kept, of a caller that does not take the answers: few of these are in memory at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.transport.rpc.raw_peer import PATH, RawPeer, framed
from tests.transport.served_methods import served_methods
from tests.waiting import LIMIT_S, a_turn, until

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.inferwire.v1 import inference_pb2, models_pb2, tensors_pb2, types_pb2
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.service import Services
from inferwire_server.service.values import Inference, ServedModel, StoredTensor, Wanted
from inferwire_server.settings import Settings
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.fetching import MOST_UNTAKEN_BYTES, FetchTurns
from inferwire_server.transport.rpc.methods import Method
from inferwire_server.transport.rpc.offered_services import methods_by_path, offered
from inferwire_server.transport.session.socket_sessions import SocketSessions

CALLS = 12
LARGE = MOST_UNTAKEN_BYTES // 4
OTHER = "/tests.Calls/Other"
F32 = BY_NAME["f32"]

RequestOf = Callable[[Services], tuple[str, bytes, str]]


class Kept:
    """What calls fetch here, which takes a turn of the loop as what a thread does: it counts how many do."""

    def __init__(self) -> None:
        self.at_once = self.fetched = 0

    async def __call__(self, message: bytes, _: Context) -> bytes:
        self.at_once += 1
        assert self.at_once == 1
        await a_turn()
        self.at_once -= 1
        self.fetched += 1
        return bytes(LARGE)


@dataclass
class Exported(FakeModel):
    """A model whose blob is large, and which counts how often that was made."""

    exports: int = 0

    def export(self) -> bytes:
        self.exports += 1
        return bytes(LARGE)


@pytest.fixture
def exported() -> Exported:
    return Exported(echo_spec("exported"))


@pytest.fixture
def models(exported: Exported) -> dict[str, FakeModel]:
    return {"echo": FakeModel(echo_spec("echo")), "exported": exported}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(model_repository=tmp_path / "models", allow_exports=True)


async def other(message: bytes, _: Context) -> bytes:
    """Answer at once."""
    return message


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
async def peer(kept: Kept) -> RawPeer:
    peer = RawPeer({PATH: Method(kept, is_fetching=True), OTHER: Method(other)})
    peer.takes_data = False
    return peer


async def begin_all(peer: RawPeer, kept: Kept) -> list[int]:
    """Begin calls until further ones wait for their peer, and let each do what it may do before that."""
    numbers = [peer.begin(data=framed(b""), end=True) for _ in range(CALLS)]
    await until(lambda: peer.connection.outflow.unsent > MOST_UNTAKEN_BYTES)
    for _ in range(3 * CALLS):
        await a_turn()
    return numbers


async def test_a_caller_that_takes_no_answers_has_few_of_them_made(peer: RawPeer, kept: Kept) -> None:
    await begin_all(peer, kept)
    assert kept.fetched == 5
    number = peer.begin({b":path": OTHER.encode()}, framed(b"other"), end=True)
    assert not peer.told[number].headers
    await until(lambda: peer.told[number].headers)


async def test_the_others_are_made_as_it_takes_them(peer: RawPeer, kept: Kept) -> None:
    numbers = await begin_all(peer, kept)
    for number in numbers:
        peer.take(number, 2 * LARGE)
        assert len((await peer.end_of(number)).data) == len(framed(bytes(LARGE)))
    assert (kept.fetched, peer.connection.outflow.unsent) == (CALLS, 0)


async def test_the_others_are_made_as_it_gives_the_first_up(peer: RawPeer, kept: Kept) -> None:
    for number in (await begin_all(peer, kept))[:3]:
        peer.reset(number)
    await until(lambda: kept.fetched == 7)


async def test_who_waits_for_its_turn_may_give_up(peer: RawPeer, kept: Kept) -> None:
    for number in await begin_all(peer, kept):
        peer.reset(number)
    await until(lambda: "0 calls" in peer.running)
    assert (kept.fetched, peer.connection.outflow.unsent, peer.connection.outflow.on_fewer) == (5, 0, None)
    number = peer.begin(data=framed(b""), end=True)
    peer.take(number, 2 * LARGE)
    assert (await peer.end_of(number)).data == framed(bytes(LARGE))


def stored_request(services: Services) -> tuple[str, bytes, str]:
    """Keep a tensor, and give the call that reads it: its path, its message and its session."""
    session = services.sessions.attach("", "test")
    services.tensors.create(StoredTensor(session, 1), F32, (LARGE // 4,))
    request = tensors_pb2.GetTensorRequest(tensor=types_pb2.StoredTensor(id=1))
    return "/inferwire.v1.TensorService/GetTensor", request.SerializeToString(), session.id


def result_request(services: Services) -> tuple[str, bytes, str]:
    """Start a job, and give the call that collects its result: its path, its message and a session."""
    given = Tensor(F32, (LARGE // 16, 4), bytes(LARGE))
    job_id = services.jobs.start(Inference(Wanted(ServedModel("echo")), (("x", given),)))
    request = inference_pb2.GetResultRequest(job_id=job_id)
    return "/inferwire.v1.InferenceService/GetResult", request.SerializeToString(), ""


@pytest.mark.parametrize("request_of", [stored_request, result_request])
async def test_kept_tensors_and_results_are_fetched_in_turns(
    services: Services, sockets: SocketSessions, request_of: RequestOf
) -> None:
    peer = RawPeer(methods_by_path(offered(services, sockets, 8 * LARGE), None, None), most_message_bytes=8 * LARGE)
    peer.takes_data = False
    path, message, session_id = request_of(services)
    await until(lambda: services.jobs.kept.jobs or session_id)
    headers = {b":path": path.encode(), b"inferwire-session": session_id.encode()}
    for _ in range(CALLS):
        peer.begin(headers, framed(message), end=True)
    await until(lambda: peer.connection.outflow.unsent > MOST_UNTAKEN_BYTES)
    for _ in range(3 * CALLS):
        await a_turn()
    assert peer.connection.outflow.unsent < 2 * MOST_UNTAKEN_BYTES


async def test_a_model_is_exported_when_the_one_before_it_is_taken(
    services: Services, sockets: SocketSessions, exported: Exported
) -> None:
    peer = RawPeer(methods_by_path(offered(services, sockets, 8 * LARGE), None, None))
    peer.takes_data = False
    request = models_pb2.ExportRequest(target=inference_pb2.Target(served="exported"))
    path = {b":path": b"/inferwire.v1.ModelService/Export"}
    numbers = [peer.begin(path, framed(request.SerializeToString()), end=True) for _ in range(CALLS)]
    for index, number in enumerate(numbers):
        peer.take(number, 2 * LARGE)
        assert len((await peer.end_of(number)).data) > LARGE
        assert exported.exports <= index + 2


async def test_a_worker_that_hands_on_calls_has_given_them_their_turns(tmp_path: Path) -> None:
    """Otherwise a caller that takes nothing would keep all others of that worker waiting."""

    async def endless(_: bytes, context: Context) -> None:
        while True:
            await context.write(bytes(LARGE))

    methods = {PATH: Method(endless, is_fetching=True), OTHER: Method(other, is_fetching=True)}
    async with (
        served_methods(methods, at=tmp_path / "socket"),
        grpc.aio.insecure_channel(f"unix:{tmp_path / 'socket'}", [("grpc.max_receive_message_length", -1)]) as channel,
    ):
        begin: Any = channel.unary_stream(PATH)
        call = begin(b"")
        assert await call.read() == bytes(LARGE)
        ask: Any = channel.unary_unary(OTHER)
        assert await ask(b"other", timeout=LIMIT_S) == b"other"
        call.cancel()


async def test_turns_say_whether_one_is_taken(peer: RawPeer) -> None:
    turns = FetchTurns()
    assert repr(turns) == "<FetchTurns: free>"
    async with turns.turn(peer.connection.outflow):
        assert repr(turns) == "<FetchTurns: taken>"
