"""Clients of the Open Inference Protocol over gRPC: calls, streams, tiny deadlines, and callers that hang up."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import grpc
import grpc.aio
import numpy as np
from tests.soak.sample import Sample
from tests.soak.tally import OK, Tally

from inferwire_proto.errors import CODE_METADATA
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip

CALLS = 4
STREAMED = 16


def calls(address: str, sample: Sample, tally: Tally, random: Random) -> None:
    """Make calls and open streams on one connection."""

    async def run() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            deeds = [_unary(channel, sample, tally, random) for _ in range(CALLS)]
            await asyncio.gather(*deeds, _streams(channel, sample, tally, random))

    asyncio.run(run())


def _request(sample: Sample, index: int, name: str, timeout_us: int = 0) -> bytes:
    request = oip.ModelInferRequest(model_name=name, raw_input_contents=[sample.rows[index].tobytes()])
    request.inputs.add(name="pixels", datatype="FP32", shape=sample.rows[index].shape)
    if timeout_us:
        request.parameters["timeout"].int64_param = timeout_us
    return request.SerializeToString()


async def _unary(channel: grpc.aio.Channel, sample: Sample, tally: Tally, random: Random) -> None:
    method: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    while not tally.stop.is_set():
        index, is_hurried, is_leaving = random.randrange(len(sample)), random.random() < 0.1, random.random() < 0.1
        call = method(_request(sample, index, random.choice(sample.names), 50 if is_hurried else 0))
        if is_leaving:
            await asyncio.sleep(random.random() * 0.002)
            call.cancel()
        try:
            answer = oip.ModelInferResponse.FromString(await call)
        except asyncio.CancelledError:
            tally.add("OIP hang-up", "CANCELLED", ("CANCELLED",))
        except grpc.aio.AioRpcError as error:
            code = str(dict(iter(error.trailing_metadata() or ())).get(CODE_METADATA, error.code().name))
            tally.add("OIP call", code, ("QUEUE_FULL", *["DEADLINE_EXCEEDED"] * is_hurried))
        else:
            tally.add("OIP call", sample.check(index, np.frombuffer(answer.raw_output_contents[0], np.float32)))


async def _streams(channel: grpc.aio.Channel, sample: Sample, tally: Tally, random: Random) -> None:
    method: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
    while not tally.stop.is_set():
        stream = method()
        indexes = [random.randrange(len(sample)) for _ in range(STREAMED)]
        wanted = STREAMED if random.random() < 0.7 else random.randrange(STREAMED)
        for index in indexes:
            await stream.write(_request(sample, index, random.choice(sample.names)))
        for index in indexes[:wanted]:
            answer = oip.ModelStreamInferResponse.FromString(await stream.read())
            if "queue is full" in answer.error_message:
                tally.add("OIP stream", "QUEUE_FULL")
            elif answer.error_message:
                tally.add("OIP stream", answer.error_message)
            else:
                raw = answer.infer_response.raw_output_contents[0]
                tally.add("OIP stream", sample.check(index, np.frombuffer(raw, np.float32)))
        if wanted < STREAMED:
            stream.cancel()
            tally.add("OIP stream left", OK)
            continue
        await stream.done_writing()
        await stream.read()
