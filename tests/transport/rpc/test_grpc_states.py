"""States of a session's sequences, as the wire says them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import Any

import grpc
import pytest
import pytest_asyncio
from tests.transport.open_session import OpenSession

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import CODE_METADATA
from inferwire_proto.inferwire.v1 import inference_pb2, states_pb2, types_pb2
from inferwire_server.engine.fake_backend import FakeModel, Gate, echo_spec
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip
from inferwire_server.server import Composition
from inferwire_server.settings import Settings

STATES: Any = states_pb2.DESCRIPTOR.services_by_name["StateService"]
TARGET = inference_pb2.Target(served="counts")
SEVEN = pack("<f", 7)


@pytest.fixture
def models() -> dict[str, FakeModel]:
    return {"counts": FakeModel(replace(echo_spec("counts"), states=("count", "other")), gate=Gate(is_open=False))}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(model_repository=tmp_path / "models", max_sequences=1, session_grace_s=0.0)


class Session(OpenSession):
    """One with calls about the states of its one sequence."""

    async def write(self, *values: tuple[str, str, Sequence[int], bytes], **sequence: Any) -> None:
        headers = [
            types_pb2.TensorHeader(
                name=name, element_type=types_pb2.ElementType.ValueType(BY_NAME[type_name].wire), shape=shape
            )
            for name, type_name, shape, _ in values
        ]
        of = inference_pb2.Sequence(id=1, **sequence)
        raw = [data for *_, data in values]
        await self.call(
            STATES, "SetStates", states_pb2.SetStatesRequest(target=TARGET, sequence=of, states=headers, raw=raw)
        )

    async def read(self, *names: str) -> dict[str, bytes]:
        request = states_pb2.GetStatesRequest(target=TARGET, sequence=inference_pb2.Sequence(id=1), names=names)
        answer = await self.call(STATES, "GetStates", request)
        return {header.name: data for header, data in zip(answer.states, answer.raw, strict=True)}


@pytest_asyncio.fixture
async def session(channel: grpc.aio.Channel) -> AsyncIterator[Session]:
    async with Session(channel) as opened:
        yield opened


async def test_states_are_written_by_name_and_read(session: Session) -> None:
    await session.write(("other", "f32", [1], SEVEN), start=True)
    assert await session.read() == {"count": bytes(4), "other": SEVEN}


REFUSED: list[tuple[tuple[str, str, list[int], bytes], str]] = [
    (("count", "f32", [4], b""), "state 'count' of model 'counts' has 0 bytes, expected 16 for f32[4]"),
    (("count", "f32", [4], bytes(15)), "has 15 bytes, expected 16 for f32[4]"),
    (("count", "f32", [4], bytes(17)), "has 17 bytes, expected 16 for f32[4]"),
    (("count", "u4", [3], b""), "has 0 bytes, expected 2 for u4[3]"),
    (("count", "f32", [2**40, 2**20], b""), "has 0 bytes, expected 4611686018427387904"),
    (("count", "f32", [-2, -2], bytes(16)), "has shape [-2,-2], expected dimensions from 0 to"),
    (("count", "f32", [-1], b""), "has shape [-1], expected dimensions from 0 to"),
    (("count", "f32", [0, 2**62], b""), "expected at most 72057594037927936 elements beside its zeros"),
    (("count", "f32", [2**63 - 1] * 300, b"1"), "model 'counts' has 300 dimensions, expected at most 64"),
    (("count", "string", [2**30], b""), "string 0 of 1073741824 has 0 bytes of its length, expected 4"),
    (("count", "string", [2], strings.pack([b"a"])), "string 1 of 2 has 0 bytes of its length, expected 4"),
    (("count", "string", [1], strings.pack([b"a", b"b"])), "5 bytes follow the last of 1 strings"),
    (("count", "boolean", [1], b"\2"), "has a boolean that is neither 0 nor 1"),
    (("count", "f32", [1], b"\0"), "has 1 bytes, expected 4 for f32[1]"),
    (("none", "f32", [1], SEVEN), "model 'counts' has no state 'none', expected one of 'count', 'other'"),
    (("none", "string", [2**30], b""), "model 'counts' has no state 'none'"),
    (("", "f32", [1], SEVEN), "model 'counts' has no state ''"),
]


@pytest.mark.parametrize(("value", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
async def test_what_no_state_can_be_is_refused_and_changes_none(
    session: Session, value: tuple[str, str, list[int], bytes], sentence: str
) -> None:
    await session.write(("count", "f32", [1], SEVEN), start=True)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await session.write(("other", "f32", [1], SEVEN), value)
    assert dict(iter(caught.value.trailing_metadata() or ())).get(CODE_METADATA) == "INVALID_INPUT"
    assert sentence in str(caught.value.details())
    assert await session.read() == {"count": SEVEN, "other": bytes(4)}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("count", "none"), "model 'counts' has no state 'none', expected one of 'count', 'other'"),
        (("count", "count"), "state 'count' of model 'counts' is named twice"),
    ],
)
async def test_a_name_of_no_state_or_of_one_twice_is_refused_and_resets_none(
    session: Session, names: tuple[str, ...], sentence: str
) -> None:
    await session.write(("count", "f32", [1], SEVEN), start=True)
    reset = states_pb2.ResetStatesRequest(target=TARGET, sequence=inference_pb2.Sequence(id=1), names=names)
    for refused in (session.read(*names), session.call(STATES, "ResetStates", reset)):
        with pytest.raises(grpc.aio.AioRpcError, match=sentence) as caught:
            await refused
        assert dict(iter(caught.value.trailing_metadata() or ())).get(CODE_METADATA) == "INVALID_INPUT"
    assert await session.read("count") == {"count": SEVEN}


async def test_states_that_are_refused_start_no_sequence(session: Session, composition: Composition) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="has 0 bytes, expected 4"):
        await session.write(("count", "f32", [1], b""), start=True)
    (device,) = composition.engine.devices
    assert [device.occupancy_of(model).bound for model in device.models] == [0]


async def test_a_stream_starts_a_sequence_anew_behind_the_end_of_the_last(
    channel: grpc.aio.Channel, models: dict[str, FakeModel]
) -> None:
    stream: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")()
    for flags in (("sequence_start",), ("sequence_end",), ("sequence_start", "sequence_end"), ("sequence_start",)):
        request = oip.ModelInferRequest(model_name="counts", raw_input_contents=[bytes(16)])
        request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        request.parameters["sequence_id"].int64_param = 7
        for flag in flags:
            request.parameters[flag].bool_param = True
        await stream.write(request.SerializeToString())
    await asyncio.to_thread(models["counts"].gate.wait_held, 1)
    models["counts"].gate.open()
    await stream.done_writing()
    answers = [oip.ModelStreamInferResponse.FromString(await stream.read()) for _ in range(4)]
    assert [answer.error_message for answer in answers] == [""] * 4
