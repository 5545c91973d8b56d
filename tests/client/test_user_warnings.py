"""Every warning names the line of the program that it is for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from tests.client.conftest import port

import inferwire as ov
from inferwire.transport.descriptions import ModelDescription
from inferwire.transport.fake_transport import FakeExecution, FakeOutput, FakeTransport
from inferwire_proto.element_types import BY_NAME

TEXTS = np.array(["one"])
CACHE = {"CACHE_DIR": "cache"}


@pytest.fixture
def core() -> ov.Core:
    """A server with a model of strings, which gives what it is given."""

    def answer(execution: FakeExecution) -> None:
        execution.finish(FakeOutput(BY_NAME["string"], (1,), execution.inputs[0]))

    description = ModelDescription(
        name="echo",
        version="1",
        inputs=(port("data", ov.Type.string, [1], "Parameter"),),
        outputs=(port("out", ov.Type.string, [1], "Result"),),
        states=(),
        signature=7,
        optimal_number_of_infer_requests=2,
        properties={},
    )
    return ov.Core(transport=FakeTransport(description, answer))


def compile_without_a_core(_: ov.Core) -> None:
    no_model: Any = 5
    with suppress(RuntimeError):
        ov.compile_model(no_model, "CPU", CACHE)


def request_of(core: ov.Core) -> ov.InferRequest:
    return core.served_model("echo").create_infer_request()


async def infer_async(core: ov.Core) -> None:
    await request_of(core).infer_async(TEXTS, share_outputs=True)


CALLS: dict[str, Callable[[ov.Core], object]] = {
    "compile_model": lambda core: core.compile_model(b"<net/>", "CPU", CACHE),
    "the module's compile_model": compile_without_a_core,
    "query_model": lambda core: core.query_model(core.read_model(b"<net/>"), "CPU", CACHE),
    "import_model": lambda core: core.import_model(b"blob", "CPU", CACHE),
    "inputs": lambda core: request_of(core).inputs,
    "outputs": lambda core: request_of(core).outputs,
    "infer by an old name": lambda core: request_of(core).infer(TEXTS, shared_memory=False),
    "start_async by an old name": lambda core: request_of(core).start_async(TEXTS, shared_memory=False),
    "a call by an old name": lambda core: core.served_model("echo")(TEXTS, shared_memory=False),
    "a queue's start by an old name": lambda core: ov.AsyncInferQueue(core.served_model("echo"), 1).start_async(
        TEXTS, shared_memory=False
    ),
    "infer that shares strings": lambda core: request_of(core).infer(TEXTS, share_outputs=True),
    "infer_async that shares strings": lambda core: asyncio.run(infer_async(core)),
    "a call that shares strings": lambda core: core.served_model("echo")(TEXTS, share_outputs=True),
    "userdata without a callback": lambda core: request_of(core).start_async(TEXTS, "userdata"),
    "strings as data": lambda _: ov.Tensor(["one"]).data,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_warning_is_for_the_programs_own_line(core: ov.Core, call: Callable[[ov.Core], object]) -> None:
    with pytest.warns() as caught:
        call(core)
    assert {warning.filename for warning in caught} == {__file__}
