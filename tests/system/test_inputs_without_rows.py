"""Stacks of executions with an input that has no dimensions: it has no rows to stand behind one another's.

Each of such a stack runs by itself, on its own bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, running_server
from inferwire_proto import raw_fields
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2

SHAPES: Mapping[str, tuple[tuple[int, ...], ...]] = {"alone": ((),), "beside": ((1, 3), ()), "before": ((), (1, 3))}
"""The inputs' shapes of each model, which adds its inputs up and then one."""
COUNT = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("repository")
    for name, shapes in SHAPES.items():
        inputs: list[Any] = [op.parameter(shape, np.float32, name=f"x{at}") for at, shape in enumerate(shapes)]
        out: Any = op.constant(np.float32(1))
        for each in inputs:
            out = op.add(out, each)
        runtime: Any = openvino
        openvino.save_model(runtime.Model([out], inputs, name), repository / name / "1" / f"{name}.xml")
    with running_server(repository, "--device", "CPU", "--property", "INFERENCE_PRECISION_HINT=f32") as started:
        yield started


def given(name: str, number: int) -> list[np.ndarray]:
    """Make an execution's inputs, which are no other's."""
    return [np.full(shape, 10 * number + at, np.float32) for at, shape in enumerate(SHAPES[name])]


def expected(name: str, number: int) -> list[Any]:
    return (np.float32(1) + sum(given(name, number))).ravel().tolist()


@pytest.mark.parametrize("name", SHAPES)
def test_each_of_a_stack_has_its_own_answer(name: str, server: ServerProcess) -> None:
    headers = [
        types_pb2.TensorHeader(index=at, element_type=types_pb2.ELEMENT_TYPE_F32, shape=shape)
        for at, shape in enumerate(SHAPES[name])
    ]
    stack = pb.Execution(ids=range(1, COUNT + 1), target=pb.Target(served=name), inputs=headers)
    columns = zip(*(given(name, number) for number in range(COUNT)), strict=True)
    raw = [b"".join([each.tobytes() for each in column]) for column in columns]
    hello = pb.SessionRequest(hello=pb.SessionHello(client="test")).SerializeToString()
    message = pb.SessionRequest(executions=[stack]).SerializeToString()
    sent = [hello, raw_fields.join(message, raw)]
    found: dict[int, Any] = {}
    with grpc.insecure_channel(server.grpc_address) as channel:
        session: Any = channel.stream_stream("/inferwire.v1.InferenceService/Session")
        for data in session(iter(sent), timeout=LIMIT_S):
            answer = pb.SessionResponse.FromString(data)
            raw_outputs = iter(answer.raw)
            for result in answer.results:
                assert not result.HasField("error"), result.error
                values = np.frombuffer(next(raw_outputs), np.float32).reshape(len(result.ids), -1)
                found |= zip(result.ids, values.tolist(), strict=True)
    assert found == {number + 1: expected(name, number) for number in range(COUNT)}


@pytest.mark.parametrize("name", SHAPES)
def test_each_of_a_queue_has_its_own_answer(name: str, server: ServerProcess) -> None:
    queue = ov.AsyncInferQueue(ov.Core(server.grpc_address).served_model(name), 16)
    found: dict[int, Any] = {}
    queue.set_callback(lambda request, number: found.__setitem__(number, request.results[0].ravel().tolist()))
    for number in range(200):
        queue.start_async(given(name, number), number)
    queue.wait_all()
    assert found == {number: expected(name, number) for number in range(200)}
