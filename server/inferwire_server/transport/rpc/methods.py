"""gRPC methods made from service descriptors and plain objects with one coroutine per call.

The descriptors say all that generated servicers would. A call that raises is answered from the
error table here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, TypeAlias

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, bug
from inferwire_server.service import AccessService
from inferwire_server.service.refusals import Face, Refusals
from inferwire_server.transport.adoption import Adopt
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.refusing import as_serving_error
from inferwire_server.transport.rpc.caller import shown_key
from inferwire_server.transport.rpc.requests import parse
from inferwire_server.transport.rpc.status import Context, abort

Call: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
"""Takes the request and the context and gives the answer. One that streams requests gets an iterator of
them; one that streams answers reads and writes through the context."""

RawCall: TypeAlias = Callable[[bytes, Context], Awaitable[bytes]]
"""A call of one message each way, as bytes."""

Around: TypeAlias = Callable[[str, RawCall], RawCall]
"""Gives what answers a call, by its full name, instead of what would."""

_TENSORS = frozenset({"raw", "raw_input_contents", "raw_output_contents"})
"""The fields of messages that hold tensors: those of inferwire.v1, and those of the Open Inference Protocol."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service and the object that answers its calls.

    Attributes:
        descriptor: The service as the contract has it.
        calls: Has a coroutine per call, named as the call is, in snake case (`import_`). One of which a message has
            tensors takes and gives bytes, to keep those out of protobuf.
        unimplemented: Calls that are not offered, each with a sentence that says so.
        keyless: Calls of one message that anybody may make, where others need a key. Whoever shows none is answered as
            if that message were empty.
    """

    descriptor: ServiceDescriptor
    calls: object
    unimplemented: Mapping[str, str] = field(default_factory=dict[str, str])
    keyless: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The service's full name."""
        return self.descriptor.full_name


@dataclass(frozen=True, slots=True)
class Guard:
    """What is done around every call: its key is checked, and it is counted as it runs and if it is refused.

    Attributes:
        adopt: Makes what a call of one message does part of its caller's trace; None where there are no traces.
    """

    drain: Drain
    refusals: Refusals
    access: AccessService
    adopt: Adopt | None = None

    def before(self, handler: grpc.GenericRpcHandler, keyless: frozenset[str] = frozenset()) -> grpc.GenericRpcHandler:
        """Ask for a key before calls, but those named in full; nothing where no key is needed."""
        return _KeyCheck(handler, keyless, self) if self.access.needs_key else handler

    def around(self, call: Call) -> Call:
        """Give what answers a call whatever it raises."""
        drain, refusals = self.drain, self.refusals

        async def guarded(request: Any, context: Context) -> Any:
            drain.enter()
            try:
                if drain.holds:
                    await drain.refuse()
                return await call(request, context)
            except grpc.aio.AbortError:
                raise
            except grpc.aio.InternalError:
                raise asyncio.CancelledError from None  # gRPC cannot send what it was given: the caller has left
            except Exception as error:  # noqa: BLE001 - a caller gets an answer whatever went wrong
                refusal = as_serving_error(error)
                refusals.count(Face.GRPC, refusal)
                return await abort(context, refusal)
            finally:
                drain.leave()

        return guarded


def generic_handler(service: Service, guard: Guard, around: Around | None = None) -> grpc.GenericRpcHandler:
    """Make what a gRPC server dispatches to, with something around its calls of one message each way."""
    handlers = {method.name: _handler(service, method, guard, around) for method in service.descriptor.methods}
    keyless = frozenset(f"/{service.name}/{name}" for name in service.keyless)
    return guard.before(grpc.method_handlers_generic_handler(service.name, handlers), keyless)


class _KeyCheck(grpc.GenericRpcHandler):
    """Answers whoever shows no key before anything of a message is taken in, and hands all else on.

    gRPC takes in a message as a whole, and decompressed: a few of them from anybody could take all memory.
    """

    def __init__(self, handler: grpc.GenericRpcHandler, keyless: frozenset[str], guard: Guard) -> None:
        self._handler = handler
        self._keyless = keyless
        self._guard = guard

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Give what answers a call."""
        found, details = self._handler.service(handler_call_details), handler_call_details
        if found is None:
            return None
        try:
            self._guard.access.check(shown_key(details.invocation_metadata))
        except ServingError as refusal:
            # To the caller it looks as its own kind of call does. A stream's messages are read by whoever answers it.
            if details.method in self._keyless:
                return grpc.stream_stream_rpc_method_handler(_unread(found), None, found.response_serializer)
            return grpc.stream_stream_rpc_method_handler(self._guard.around(_raising(refusal)))
        return found


def _unread(found: Any) -> Call:
    """Give what answers a call of one message as if that were empty."""

    async def answer(_: object, context: Context) -> None:
        if found.response_streaming:
            await found.unary_stream(b"", context)
        else:
            await context.write(await found.unary_unary(b"", context))

    return answer


def raw_handler(method: str, call: Call, guard: Guard) -> grpc.GenericRpcHandler:
    """Make what a gRPC server dispatches a single call to, by its full name, that no descriptor knows.

    It finds out itself who calls, and reads and writes through the context.
    """
    service, _, name = method.rpartition(".")
    rpc: Any = grpc
    return rpc.method_handlers_generic_handler(
        service, {name: rpc.stream_stream_rpc_method_handler(guard.around(call))}
    )


def _handler(
    service: Service, method: MethodDescriptor, guard: Guard, around: Around | None
) -> grpc.RpcMethodHandler[Any, Any]:
    call = _call(service, method)
    is_raw = not _TENSORS.isdisjoint((*method.input_type.fields_by_name, *method.output_type.fields_by_name))
    message_type = GetMessageClass(method.input_type)
    deserialize = None if is_raw else message_type.FromString
    serialize = None if is_raw else _serialize
    if deserialize is not None and not method.client_streaming:
        # gRPC would tell the caller of its own exception where it parsed the message.
        call, deserialize = _parsing(call, message_type), None
    if around is not None and not method.client_streaming and not method.server_streaming:
        call, serialize = around(method.full_name, _serializing(call, serialize)), None
    call = guard.around(call)
    if guard.adopt is not None and not method.client_streaming:
        call = _adopted(call, guard.adopt)
    match method.client_streaming, method.server_streaming:
        case False, False:
            return grpc.unary_unary_rpc_method_handler(call, deserialize, serialize)
        case True, False:
            return grpc.stream_unary_rpc_method_handler(call, deserialize, serialize)
        case True, True:
            return grpc.stream_stream_rpc_method_handler(call, deserialize, serialize)
        case _:
            return grpc.unary_stream_rpc_method_handler(call, deserialize, serialize)


def _call(service: Service, method: MethodDescriptor) -> Call:
    call = getattr(service.calls, _snake_case(method.name), None)
    sentence = service.unimplemented.get(method.name)
    if (call is None) == (sentence is None):
        raise bug(f"call {method.full_name} has to be either answered or listed as unimplemented")
    return call or _refusing(sentence or "")


def _adopted(call: Call, adopt: Adopt) -> Call:
    async def adopted(request: Any, context: Context) -> Any:
        with adopt(context.invocation_metadata() or ()):
            return await call(request, context)

    return adopted


def _parsing(call: Call, message_type: type[Message]) -> Call:
    async def parsing(data: bytes, context: Context) -> Any:
        return await call(parse(message_type, data), context)

    return parsing


def _serializing(call: Call, serialize: Callable[[Any], bytes] | None) -> RawCall:
    if serialize is None:
        return call

    async def serializing(data: bytes, context: Context) -> bytes:
        return serialize(await call(data, context))

    return serializing


def _refusing(sentence: str) -> Call:
    return _raising(ServingError(Code.UNIMPLEMENTED, sentence))


def _raising(error: ServingError) -> Call:
    async def refuse(request: Any, context: Context) -> Any:  # noqa: ARG001 - takes what every call takes
        raise error.copy()

    return refuse


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _snake_case(name: str) -> str:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return f"{snake}_" if iskeyword(snake) else snake
