"""Calls are made from descriptors, and what they raise is answered from the error table."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from structlog.testing import capture_logs
from tests.transport.served_methods import served_methods

from inferwire_proto.errors import CODE_METADATA, RETRY_AFTER_METADATA, Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.rpc.methods import Service, methods_of


def described(*methods: str) -> Any:
    """Describe a service of the tests' own, so that calls that are added to the contract are none of theirs."""
    made = [
        MethodDescriptorProto(name=name, input_type=".tests.Nothing", output_type=".tests.Nothing") for name in methods
    ]
    file = FileDescriptorProto(
        name="calls.proto",
        package="tests",
        syntax="proto3",
        message_type=[DescriptorProto(name="Nothing")],
        service=[ServiceDescriptorProto(name="Calls", method=made)],
    )
    pool = DescriptorPool()
    pool.Add(file)
    return pool.FindServiceByName("tests.Calls")


DESCRIPTOR = described("RaiseIt")


class Calls:
    """Raises what it is given."""

    def __init__(self, raised: Exception) -> None:
        self._raised = raised

    async def raise_it(self, request: object, context: object) -> Any:
        raise self._raised


@asynccontextmanager
async def served(raised: Exception) -> AsyncGenerator[Callable[[str], Any], None]:
    """Serve calls that raise, and give what calls them."""
    methods = dict(methods_of(Service(DESCRIPTOR, Calls(raised))))
    async with (
        served_methods(methods) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):

        def call(name: str) -> Any:
            return channel.unary_unary(f"/tests.Calls/{name}")(b"")

        yield call


async def failure(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value


@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
async def test_a_code_is_its_status_its_sentence_and_its_name(code: Code) -> None:
    async with served(ServingError(code, "why, and what was expected", retry_after_s=1.5)) as call:
        error = await failure(call("RaiseIt"))
    assert error.code() is grpc.StatusCode[code.grpc]
    assert error.details() == "why, and what was expected"
    trailers = dict(iter(error.trailing_metadata()))
    assert (trailers[CODE_METADATA], trailers[RETRY_AFTER_METADATA]) == (code.name, "1.5")


async def test_a_bug_is_an_id_that_the_log_explains() -> None:
    with capture_logs() as logged:
        async with served(ZeroDivisionError("secret detail")) as call:
            error = await failure(call("RaiseIt"))
    assert error.code() is grpc.StatusCode.INTERNAL
    details = error.details() or ""
    assert "secret" not in details
    (event,) = logged
    assert event["id"] in details
    assert isinstance(event["exc_info"], ZeroDivisionError)


@pytest.mark.parametrize(("letter", "kept"), [("ö", 1000), ("%", 2000), ("\n", 2000), ("😀", 500)])
async def test_a_long_sentence_still_arrives(letter: str, kept: int) -> None:
    async with served(ServingError(Code.MODEL_FAILED, letter * 100_000)) as call:
        error = await failure(call("RaiseIt"))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == letter * kept + "..."


async def test_a_long_sentence_without_other_letters_has_its_end() -> None:
    async with served(ServingError(Code.MODEL_FAILED, "x" * 100_000 + ", expected less")) as call:
        error = await failure(call("RaiseIt"))
    assert (error.details() or "").endswith("xxx, expected less")


def test_every_call_has_to_be_answered() -> None:
    with pytest.raises(AssertionError, match=r"Calls has no 'forgotten', which answers .*Forgotten; this is a bug"):
        dict(methods_of(Service(described("RaiseIt", "Forgotten"), Calls(ValueError()))))
