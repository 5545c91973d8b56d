"""Tensors that a session keeps, as the wire says them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import numpy as np
import pytest
import pytest_asyncio
from tests.transport.open_session import OpenSession

from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1 import inference_pb2, models_pb2, tensors_pb2, types_pb2

ARRAY = np.arange(8, dtype=np.float32).reshape(2, 4)


class Session(OpenSession):
    """One with calls about its tensors."""

    async def tensor_call(self, name: str, request: Any, **options: Any) -> Any:
        return await self.call(tensors_pb2.DESCRIPTOR.services_by_name["TensorService"], name, request, **options)

    async def infer(self, **changes: Any) -> inference_pb2.ExecutionResult:
        target = inference_pb2.Target(served="echo")
        execution = inference_pb2.Execution(ids=[1], target=target, **changes)
        raw = [ARRAY.tobytes()] * sum(not header.HasField("stored") for header in execution.inputs)
        await self.stream.write(inference_pb2.SessionRequest(executions=[execution], raw=raw).SerializeToString())
        answer = inference_pb2.SessionResponse.FromString(await self.stream.read())
        self.raw = list(answer.raw)
        return answer.results[0]


@pytest_asyncio.fixture
async def session(channel: grpc.aio.Channel) -> AsyncIterator[Session]:
    async with Session(channel) as opened:
        yield opened


def header(shape: tuple[int, ...] = (2, 4), **stored: Any) -> types_pb2.TensorHeader:
    kept = types_pb2.StoredTensor(**stored) if stored else None
    return types_pb2.TensorHeader(element_type=types_pb2.ELEMENT_TYPE_F32, shape=shape, stored=kept)


async def test_a_tensor_is_made_written_read_and_freed(session: Session) -> None:
    await session.tensor_call("CreateTensor", tensors_pb2.CreateTensorRequest(tensor=header(id=1)))
    part = header((1, 4), id=1, begin=[1, 0], end=[2, 4])
    await session.tensor_call("PutTensor", tensors_pb2.PutTensorRequest(tensor=part, raw=[ARRAY[1].tobytes()]))
    read = await session.tensor_call("GetTensor", tensors_pb2.GetTensorRequest(tensor=types_pb2.StoredTensor(id=1)))
    assert (read.tensor.element_type, list(read.tensor.shape)) == (types_pb2.ELEMENT_TYPE_F32, [2, 4])
    np.testing.assert_array_equal(np.frombuffer(read.raw[0], np.float32).reshape(2, 4), ARRAY * [[0], [1]])
    release = models_pb2.ReleaseRequest(tensors=[1])
    await session.call(models_pb2.DESCRIPTOR.services_by_name["ModelService"], "Release", release)
    with pytest.raises(grpc.aio.AioRpcError, match="tensor 1 is not kept in this session"):
        await session.tensor_call("GetTensor", tensors_pb2.GetTensorRequest(tensor=types_pb2.StoredTensor(id=1)))


async def test_an_output_stays_and_becomes_an_input(session: Session) -> None:
    keep = inference_pb2.Keep(output=0, tensor_id=5)
    result = await session.infer(inputs=[header()], keeps=[keep])
    assert not result.HasField("error"), result.error.message
    assert (result.outputs[0].stored.id, list(result.outputs[0].shape), session.raw) == (5, [2, 4], [])
    result = await session.infer(inputs=[header((1, 4), id=5, begin=[1, 0], end=[2, 4])])
    assert not result.HasField("error"), result.error.message
    assert session.raw == [ARRAY[1:].tobytes()]


async def test_a_tensor_that_is_not_there_fails_the_one_execution(session: Session) -> None:
    result = await session.infer(inputs=[header(id=9)])
    assert "tensor 9 is not kept in this session" in result.error.message
    assert not (await session.infer(inputs=[header()])).HasField("error")


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (tensors_pb2.PutTensorRequest(tensor=header(id=1)), "the message has bytes of 0"),
        (tensors_pb2.PutTensorRequest(tensor=header(), raw=[b""]), "names kept tensor 0, expected an id from 1 up"),
    ],
)
async def test_what_makes_no_sense_is_refused(session: Session, request_: Any, sentence: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=sentence):
        await session.tensor_call("PutTensor", request_)


async def test_without_a_session_there_is_nothing_to_keep(session: Session) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="has no metadata entry inferwire-session") as caught:
        await session.tensor_call("CreateTensor", tensors_pb2.CreateTensorRequest(tensor=header(id=1)), metadata=())
    assert dict(iter(caught.value.trailing_metadata() or ())).get(CODE_METADATA) == "INVALID_INPUT"
