"""Memory that a client lends, as the wire says it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
import pytest_asyncio
from google.protobuf.descriptor import MethodDescriptor
from tests.transport.conftest import sessions_of
from tests.transport.open_session import OpenSession
from tests.waiting import until

from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_proto.inferwire.v1 import inference_pb2, models_pb2, tensors_pb2, types_pb2
from inferwire_proto.lent_memory import NAME, NONCE_BYTES, SEALS
from inferwire_server.errors import ServingError
from inferwire_server.service import Services
from inferwire_server.transport.rpc.caller import require_same_host
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.grpc_server import GrpcOptions, GrpcServer
from inferwire_server.transport.rpc.methods import RawCall, methods_of
from inferwire_server.transport.rpc.offered_services import offered

ARRAY = np.arange(8, dtype=np.float32).reshape(2, 4)
NONCE = bytes(range(NONCE_BYTES))
BYTE_SIZE = ARRAY.nbytes + NONCE_BYTES
INFERENCES = inference_pb2.DESCRIPTOR.services_by_name["InferenceService"]
TENSORS = tensors_pb2.DESCRIPTOR.services_by_name["TensorService"]
MODELS = models_pb2.DESCRIPTOR.services_by_name["ModelService"]


class Session(OpenSession):
    """One with executions whose inputs are lent."""

    async def infer(self, *ids: int, **lent: Any) -> tuple[inference_pb2.ExecutionResult, list[bytes]]:
        header = types_pb2.TensorHeader(element_type=types_pb2.ELEMENT_TYPE_F32, shape=ARRAY.shape, **lent)
        target = inference_pb2.Target(served="echo")
        execution = inference_pb2.Execution(ids=ids or [1], target=target, inputs=[header])
        await self.stream.write(inference_pb2.SessionRequest(executions=[execution]).SerializeToString())
        answer = inference_pb2.SessionResponse.FromString(await self.stream.read())
        return answer.results[0], list(answer.raw)


@pytest_asyncio.fixture
async def session(channel: grpc.aio.Channel) -> AsyncIterator[Session]:
    async with Session(channel) as opened:
        yield opened


@pytest.fixture
def descriptor() -> Iterator[int]:
    """A file as a client makes it."""
    made = os.memfd_create(NAME, os.MFD_ALLOW_SEALING)
    os.write(made, ARRAY.tobytes() + NONCE)
    fcntl.fcntl(made, fcntl.F_ADD_SEALS, SEALS)
    yield made
    os.close(made)


def lending(descriptor: int, **changes: Any) -> tensors_pb2.LendMemoryRequest:
    said: dict[str, Any] = {
        "id": 3,
        "pid": os.getpid(),
        "descriptor": descriptor,
        "byte_size": BYTE_SIZE,
        "nonce": NONCE,
    }
    return tensors_pb2.LendMemoryRequest(**{**said, **changes})


async def test_an_input_is_read_where_it_lies(session: Session, descriptor: int) -> None:
    await session.call(TENSORS, "LendMemory", lending(descriptor))
    for factor in (1, 2):
        os.pwrite(descriptor, (ARRAY * factor).tobytes(), 0)
        result, raw = await session.infer(lent=3)
        assert not result.error.message
        np.testing.assert_array_equal(np.frombuffer(raw[0], np.float32).reshape(2, 4), ARRAY * factor)
    await session.call(MODELS, "Release", models_pb2.ReleaseRequest(lent=[3]))
    result, _ = await session.infer(lent=3)
    assert result.error.code == types_pb2.ERROR_CODE_TENSOR_NOT_FOUND
    assert "memory 3 is not lent in this session" in result.error.message


async def test_a_single_call_reads_what_the_session_that_it_names_has_lent(session: Session, descriptor: int) -> None:
    await session.call(TENSORS, "LendMemory", lending(descriptor))
    header = types_pb2.TensorHeader(element_type=types_pb2.ELEMENT_TYPE_F32, shape=ARRAY.shape, lent=3)
    execution = inference_pb2.Execution(target=inference_pb2.Target(served="echo"), inputs=[header])
    answer = await session.call(INFERENCES, "Infer", inference_pb2.InferRequest(execution=execution))
    assert list(answer.raw) == [ARRAY.tobytes()]


async def test_a_stack_has_no_lent_inputs(session: Session, descriptor: int) -> None:
    await session.call(TENSORS, "LendMemory", lending(descriptor))
    result, _ = await session.infer(1, 2, lent=3)
    assert "a stack of 2 executions names a sequence, kept tensors or lent memory" in result.error.message


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        ({"id": 0}, "INVALID_INPUT", "the call lends memory 0, expected an id from 1 up"),
        ({"pid": 2**31}, "PERMISSION_DENIED", "cannot be opened here"),
        ({"nonce": bytes(NONCE_BYTES)}, "INVALID_INPUT", "does not end with the nonce"),
        ({"byte_size": BYTE_SIZE + 1}, "INVALID_INPUT", f"has {BYTE_SIZE} bytes, expected the {BYTE_SIZE + 1}"),
        ({"byte_size": 1 << 40}, "TOO_LARGE", "--max-grpc-message-mb"),
    ],
)
async def test_what_is_refused_has_a_code_and_a_sentence(
    session: Session, descriptor: int, changes: dict[str, Any], code: str, sentence: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await session.call(TENSORS, "LendMemory", lending(descriptor, **changes))
    assert sentence in (caught.value.details() or "")
    assert dict(iter(caught.value.trailing_metadata() or ()))[CODE_METADATA] == code


async def test_lent_memory_needs_a_session(channel: grpc.aio.Channel, descriptor: int) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="expected the session_id that a stream"):
        await Session(channel).call(TENSORS, "LendMemory", lending(descriptor))
    header = types_pb2.TensorHeader(element_type=types_pb2.ELEMENT_TYPE_F32, shape=ARRAY.shape, lent=3)
    execution = inference_pb2.Execution(target=inference_pb2.Target(served="echo"), inputs=[header])
    call: Any = channel.unary_unary("/inferwire.v1.InferenceService/Infer")
    with pytest.raises(grpc.aio.AioRpcError, match="names lent memory but no session"):
        await call(inference_pb2.InferRequest(execution=execution).SerializeToString())


async def test_callers_at_a_unix_socket_lend_as_well(services: Services, tmp_path: Path, descriptor: int) -> None:
    path = tmp_path / "grpc.sock"
    server = GrpcServer(services, GrpcOptions(port=0, socket=path), sessions_of(services))
    async with server, grpc.aio.insecure_channel(f"unix:{path}") as way, Session(way) as session:
        await session.call(TENSORS, "LendMemory", lending(descriptor))
        result, raw = await session.infer(lent=3)
        assert not result.error.message
        assert raw == [ARRAY.tobytes()]


async def test_what_a_session_lent_goes_with_it(session: Session, services: Services, descriptor: int) -> None:
    await session.call(TENSORS, "LendMemory", lending(descriptor))
    assert repr(services.tensors.lent) == "<LentMemory: 1 of 1 sessions>"
    await session.stream.done_writing()
    assert await session.stream.read() is grpc.aio.EOF
    await until(lambda: repr(services.tensors.lent) == "<LentMemory: 0 of 0 sessions>")


@pytest.mark.parametrize(
    "peer", ["ipv4:127.0.0.1:5", "ipv4:127.8.8.8:5", "ipv6:[::ffff:127.0.0.1]:5", "ipv6:[::1]:5", "unix:"]
)
def test_a_caller_on_this_host_may_lend(peer: str) -> None:
    context: Any = SimpleNamespace(peer=peer)
    require_same_host(context)


@pytest.mark.parametrize("peer", ["ipv4:10.0.0.7:5", "ipv4:1.127.0.1:5", "ipv6:[2001:db8::1]:5", "ipv6:[::11]:5", ""])
def test_a_caller_elsewhere_may_not(peer: str) -> None:
    context: Any = SimpleNamespace(peer=peer)
    with pytest.raises(ServingError, match="expected one on this host, by loopback or a Unix socket") as caught:
        require_same_host(context)
    assert caught.value.code is Code.PERMISSION_DENIED


async def test_whether_it_is_on_this_host_is_looked_at_before_anything_else(services: Services) -> None:
    """Another worker, which may have its session, knows the caller only by the worker that has handed its call on."""

    def around(_: MethodDescriptor, __: RawCall) -> RawCall:
        async def answer(_: bytes, __: Context) -> bytes:
            pytest.fail("it was handed on")

        return answer

    (lend,) = (
        method
        for service in offered(services, sessions_of(services), 1 << 20)
        for path, method in methods_of(service, around=around)
        if path.endswith("/LendMemory")
    )
    context: Any = SimpleNamespace(peer="ipv4:10.0.0.7:5")
    with pytest.raises(ServingError, match="expected one on this host"):
        await lend.call(b"", context)
