"""gRPC methods made from service descriptors and plain objects with one coroutine per call.

The descriptors say all that generated servicers would.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, TypeAlias, TypeVar

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from inferwire_proto.openvino_errors import without_places
from inferwire_server.errors import ServingError, bug
from inferwire_server.transport.request_ids import id_in
from inferwire_server.transport.rpc.caller import require_same_host
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.requests import parse
from inferwire_server.transport.trace_context import JoinTrace

Call: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
"""Takes the request and the context, and gives the answer. If callers stream requests, it takes an iterator of
them. If it streams answers, it writes them as bytes through the context, and if both are streamed, it reads bytes there
as well."""

RawCall: TypeAlias = Callable[[bytes, Context], Awaitable[bytes | None]]
"""Takes the caller's message, which is empty if it sends many, and gives the last of the answer's, if there is one."""

Around: TypeAlias = Callable[[MethodDescriptor, RawCall], RawCall]
"""Takes a method and what answers its calls, and gives what answers them instead."""

_TENSORS = frozenset({"raw", "raw_input_contents", "raw_output_contents"})
"""The fields of messages that hold tensors: those of inferwire.v1, and those of the Open Inference Protocol."""

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Service:
    """A service and the object that answers its calls.

    Attributes:
        descriptor: The service as the contract has it.
        calls: Has a coroutine per call, named like the call in snake case (`import_`). A call whose messages have
            tensors takes and gives bytes, to keep tensors out of protobuf.
        keyless: Calls of one message that need no key, where others need one. A caller that shows none is answered as
            if its message were empty.
        keeping: Calls whose callers own something at this server from then on: their connections never become old.
        fetching: Calls that fetch what is kept here: those of a connection take turns.
        on_host: Calls that only callers on this host may make.
        is_mirror: Whether its callers are told OpenVINO's errors as openvino raises them, with places in its sources.
    """

    descriptor: ServiceDescriptor
    calls: object
    keyless: frozenset[str] = frozenset()
    keeping: frozenset[str] = frozenset()
    fetching: frozenset[str] = frozenset()
    on_host: frozenset[str] = frozenset()
    is_mirror: bool = True

    @property
    def name(self) -> str:
        """The service's full name."""
        return self.descriptor.full_name


@dataclass(frozen=True, slots=True)
class Method:
    """What answers one method's calls.

    Attributes:
        takes_stream: Whether callers send many messages, which are read through the context.
        is_keyless: Whether a call needs no key. A caller that shows none is answered as if its message were empty; a
            method that takes a stream checks by itself who calls.
        keeps_connection: Whether the connection that a call came on never becomes old.
        is_fetching: Whether a call fetches what is kept here, and waits for its turn among those of its connection.
    """

    call: RawCall
    takes_stream: bool = False
    is_keyless: bool = False
    keeps_connection: bool = False
    is_fetching: bool = False


def methods_of(
    service: Service, join_trace: JoinTrace | None = None, around: Around | None = None
) -> Iterator[tuple[str, Method]]:
    """Give a service's methods by the paths of their calls. `around` wraps them."""
    for method in service.descriptor.methods:
        call = _raw(service, method) if service.is_mirror else _without_places(_raw(service, method))
        if around is not None:
            call = around(method, call)
        if method.name in service.on_host:
            call = _from_this_host(call)
        if join_trace is not None and not method.client_streaming:
            call = _traced(call, join_trace)
        yield (
            path_of(method.full_name),
            Method(
                call,
                method.client_streaming,
                is_keyless=method.name in service.keyless,
                keeps_connection=method.name in service.keeping,
                is_fetching=method.name in service.fetching,
            ),
        )


def path_of(full_name: str) -> str:
    """Give the path of a method's calls."""
    service, _, name = full_name.rpartition(".")
    return f"/{service}/{name}"


async def requests(message_type: type[M], context: Context) -> AsyncIterator[M]:
    """Give a caller's messages as they come."""
    while (data := await context.read()) is not None:
        yield parse(message_type, data)


def _raw(service: Service, method: MethodDescriptor) -> RawCall:
    call = _call(service, method)
    if not _TENSORS.isdisjoint((*method.input_type.fields_by_name, *method.output_type.fields_by_name)):
        return call
    message_type = GetMessageClass(method.input_type)
    if method.client_streaming:
        return call if method.server_streaming else _gathering(call, message_type)
    return _parsing(call, message_type)


def _call(service: Service, method: MethodDescriptor) -> Call:
    name = _snake_case(method.name)
    call = getattr(service.calls, name, None)
    if call is None:
        raise bug(f"{type(service.calls).__name__} has no '{name}', which answers {method.full_name}")
    return call


def _traced(call: RawCall, join_trace: JoinTrace) -> RawCall:
    async def traced(data: bytes, context: Context) -> bytes | None:
        with join_trace(context.metadata, id_in(context.metadata)):
            return await call(data, context)

    return traced


def _from_this_host(call: RawCall) -> RawCall:
    async def from_this_host(data: bytes, context: Context) -> bytes | None:
        require_same_host(context)
        return await call(data, context)

    return from_this_host


def _without_places(call: RawCall) -> RawCall:
    async def without(data: bytes, context: Context) -> bytes | None:
        try:
            return await call(data, context)
        except ServingError as error:
            raise error.copy(without_places(error.message)) from error

    return without


def _parsing(call: Call, message_type: type[Message]) -> RawCall:
    async def parsing(data: bytes, context: Context) -> bytes | None:
        answer: Message | None = await call(parse(message_type, data), context)
        return None if answer is None else answer.SerializeToString()

    return parsing


def _gathering(call: Call, message_type: type[Message]) -> RawCall:
    async def gathering(_: bytes, context: Context) -> bytes:
        answer: Message = await call(requests(message_type, context), context)
        return answer.SerializeToString()

    return gathering


def _snake_case(name: str) -> str:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return f"{snake}_" if iskeyword(snake) else snake
