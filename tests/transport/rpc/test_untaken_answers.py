"""Inferences of a caller that does not take the answers: few of them run, however small what they were asked with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from tests.transport.rpc.raw_peer import RawPeer, framed
from tests.transport.session.driven import execution, row
from tests.waiting import until

from inferwire_proto import raw_fields
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.composition import Composition
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.device import Device
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip
from inferwire_server.service import Services
from inferwire_server.transport.http2 import outflow
from inferwire_server.transport.rpc import oip_stream
from inferwire_server.transport.rpc.offered_services import methods_by_path, offered
from inferwire_server.transport.session import outbox
from inferwire_server.transport.session.socket_sessions import SocketSessions

CALLS, SLOTS = 64, 2
LARGE = 1 << 18
MOST_WAITING = 4 * LARGE
INPUT = row(1.0)


@dataclass
class Wide:
    """What a model computes that answers a row with very many; it counts the answers."""

    answers: int = 0

    def __call__(self, _: Sequence[Tensor]) -> tuple[Tensor, ...]:
        self.answers += 1
        return (Tensor(BY_NAME["f32"], (LARGE // 16, 4), bytes(LARGE)),)


@pytest.fixture
def wide() -> Wide:
    return Wide()


@pytest.fixture
def models(wide: Wide) -> dict[str, FakeModel]:
    return {
        "wide": FakeModel(echo_spec("wide"), wide, optimal_slots=SLOTS),
        "echo": FakeModel(echo_spec("echo"), optimal_slots=SLOTS),
    }


@pytest.fixture(autouse=True)
def little_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outflow, "MOST_UNSENT_BYTES", MOST_WAITING)
    for module in (oip_stream, outbox):
        monkeypatch.setattr(module, "MOST_WAITING_BYTES", MOST_WAITING)


@pytest.fixture
def device(composition: Composition) -> Device:
    (device,) = composition.engine.devices
    return device


@pytest.fixture
def peer(services: Services, sockets: SocketSessions) -> RawPeer:
    methods = methods_by_path(offered(services, sockets, 1 << 28), None, None)
    peer = RawPeer(methods, most_message_bytes=1 << 28)
    peer.takes_data = False
    return peer


def oip_request(model: str) -> bytes:
    given = oip.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 4])
    return oip.ModelInferRequest(model_name=model, inputs=[given], raw_input_contents=[INPUT]).SerializeToString()


def by_unary_calls(peer: RawPeer) -> list[int]:
    path = {b":path": b"/inference.GRPCInferenceService/ModelInfer"}
    return [peer.begin(path, framed(oip_request("wide")), end=True) for _ in range(CALLS)]


def by_our_unary_calls(peer: RawPeer) -> list[int]:
    path = {b":path": b"/inferwire.v1.InferenceService/Infer"}
    request = pb.InferRequest(execution=execution(0, "wide"))
    request.execution.ClearField("ids")
    message = raw_fields.join(request.SerializeToString(), [INPUT])
    return [peer.begin(path, framed(message), end=True) for _ in range(CALLS)]


def by_an_oip_stream(peer: RawPeer) -> list[int]:
    number = peer.begin({b":path": b"/inference.GRPCInferenceService/ModelStreamInfer"})
    peer.send(number, framed(oip_request("wide")) * CALLS, end=True)
    return [number]


def by_a_session(peer: RawPeer) -> list[int]:
    executions = [execution(each, "wide") for each in range(1, CALLS + 1)]
    return on_a_session(peer, executions, [INPUT] * CALLS)


def by_a_stack(peer: RawPeer) -> list[int]:
    stack = execution(1, "wide")
    stack.ids.extend(range(2, CALLS + 1))
    return on_a_session(peer, [stack], [INPUT * CALLS])


def on_a_session(peer: RawPeer, executions: list[pb.Execution], raw: list[bytes]) -> list[int]:
    number = peer.begin({b":path": b"/inferwire.v1.InferenceService/Session"})
    hello = pb.SessionRequest(hello=pb.SessionHello(client="test"))
    peer.send(number, framed(hello.SerializeToString()))
    message = raw_fields.join(pb.SessionRequest(executions=executions).SerializeToString(), raw)
    peer.send(number, framed(message), end=True)
    return [number]


WAYS = pytest.mark.parametrize(
    "begin", [by_unary_calls, by_our_unary_calls, by_an_oip_stream, by_a_session, by_a_stack]
)
Begin = Callable[[RawPeer], list[int]]


async def held_back(device: Device) -> None:
    """Wait until no job runs though some wait."""
    await until(lambda: device.occupancy.running == 0 and device.occupancy.queued > 0)


@WAYS
async def test_a_caller_that_takes_no_answers_has_few_inferences_run(
    peer: RawPeer, wide: Wide, device: Device, begin: Begin
) -> None:
    begin(peer)
    await held_back(device)
    # More than what may wait by what runs at once, and by what is on its way out already.
    assert MOST_WAITING // LARGE <= wide.answers <= MOST_WAITING // LARGE + SLOTS + 5
    assert device.occupancy.queued == CALLS - wide.answers


@WAYS
async def test_the_others_run_as_it_takes_them(peer: RawPeer, wide: Wide, device: Device, begin: Begin) -> None:
    numbers = begin(peer)
    await held_back(device)
    for number in numbers:
        peer.take(number, 2 * LARGE * CALLS // len(numbers))
    for number in numbers:
        said = await peer.end_of(number)
        assert said.status == 0
        assert len(said.data) > LARGE * CALLS // len(numbers)
    assert wide.answers == CALLS
    assert device.occupancy.queued == 0


@WAYS
async def test_none_waits_for_one_that_has_left(peer: RawPeer, device: Device, begin: Begin) -> None:
    numbers = begin(peer)
    await held_back(device)
    for number in numbers:
        peer.reset(number)
    await until(lambda: device.occupancy.queued == 0)


async def test_another_caller_goes_on_meanwhile(
    peer: RawPeer, services: Services, sockets: SocketSessions, device: Device
) -> None:
    by_unary_calls(peer)
    await held_back(device)
    other = RawPeer(methods_by_path(offered(services, sockets, 1 << 28), None, None))
    path = {b":path": b"/inference.GRPCInferenceService/ModelInfer"}
    for model in ("echo", "wide"):
        assert (await other.answered(path, framed(oip_request(model)))).status == 0
