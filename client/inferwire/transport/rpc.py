"""Makes calls by the contract's service descriptors, and translates gRPC's errors into the client's.

The only module that knows the paths of calls. The contract has no generated gRPC stubs: everything they would say is in
the descriptors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol, TypeVar, cast

import grpc
from google.protobuf.message import Message

from inferwire.errors import (
    DeadlineExceeded,
    InferwireError,
    ServerUnavailable,
    TooLarge,
    closed_here,
    error_of,
    unauthenticated,
)
from inferwire.transport.undisturbed import undisturbed, undisturbed_with_thread
from inferwire.transport.unreachable import is_of_names, why_unreachable
from inferwire_proto.errors import CODE_METADATA, RETRY_AFTER_METADATA, Code
from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2, models_pb2, states_pb2, tensors_pb2

_SERVICES = {
    name: service
    for module in (devices_pb2, inference_pb2, models_pb2, states_pb2, tensors_pb2)
    for name, service in module.DESCRIPTOR.services_by_name.items()
}

_OF_CLOSED_CHANNELS = "Cannot invoke RPC"
"""The beginning of the ValueError's message that gRPC raises for a call on a channel that was closed meanwhile."""

_CLOSED_UNDER_WAY = "Channel closed!"
"""What gRPC says, with other words or without, of a call that was in flight as its channel was closed."""

Metadata = tuple[tuple[str, str], ...]
R = TypeVar("R", bound=Message)


class UnaryFuture(Protocol):
    """One call on its way, whose answer is bytes."""

    def result(self) -> bytes:
        """Give the answer, or raise `grpc.RpcError`."""
        ...

    def cancel(self) -> object:
        """End the call from this side."""
        ...

    def add_done_callback(self, callback: Any) -> None:
        """Call back on one of gRPC's threads once the answer is here."""
        ...


class ResponseStream(Protocol):
    """The answers of a streaming call, one message's bytes each."""

    def __iter__(self) -> Iterator[bytes]: ...

    def cancel(self) -> object:
        """End the call from this side."""
        ...


def call(
    channel: grpc.Channel,
    method: str,
    request: Message,
    response_type: type[R],
    metadata: Metadata,
) -> R:
    """Make a call of one request and one answer; `method` is as "ModelService.Compile"."""
    multicallable = channel.unary_unary(
        path_of(method),
        request_serializer=type(request).SerializeToString,
        response_deserializer=response_type.FromString,
    )
    return undisturbed(lambda: multicallable(request, metadata=metadata))


def call_raw(channel: grpc.Channel, method: str, request: bytes, metadata: Metadata) -> bytes:
    """Make a call whose request and answer are messages' bytes."""
    multicallable = cast("Any", channel).unary_unary(path_of(method))
    return undisturbed(lambda: cast("bytes", multicallable(request, metadata=metadata)))


def call_with_streams(
    channel: grpc.Channel,
    method: str,
    streams: Iterable[Iterable[Message]],
    response_type: type[R],
    metadata: Metadata,
) -> Sequence[R]:
    """Make calls of many requests and one answer each, all of them at once; if one fails, end the others."""
    multicallable = channel.stream_unary(
        path_of(method), request_serializer=_serialize, response_deserializer=response_type.FromString
    )

    def make_all() -> Sequence[R]:
        calls: list[Any] = []
        try:
            calls += (multicallable.future(iter(requests), metadata=metadata) for requests in streams)
            return [call.result() for call in calls]
        finally:
            for call in calls:
                call.cancel()

    return undisturbed_with_thread(make_all)


def call_for_stream(
    channel: grpc.Channel,
    method: str,
    request: Message,
    response_type: type[R],
    metadata: Metadata,
    take: Callable[[R], object],
) -> None:
    """Make a call of one request and many answers, each of which is taken as it comes."""
    multicallable = channel.unary_stream(
        path_of(method), request_serializer=_serialize, response_deserializer=response_type.FromString
    )

    def take_all() -> None:
        for answer in multicallable(request, metadata=metadata):
            take(answer)

    undisturbed_with_thread(take_all)


def start_unary(
    channel: grpc.Channel, method: str, request: bytes, metadata: Metadata, answered: Callable[[UnaryFuture], object]
) -> UnaryFuture:
    """Start a call whose request and answer are messages' bytes; `answered` is called on one of gRPC's threads."""
    multicallable = cast("Any", channel).unary_unary(path_of(method))

    def start() -> UnaryFuture:
        started = cast("UnaryFuture", multicallable.future(request, metadata=metadata))
        started.add_done_callback(answered)
        return started

    return undisturbed_with_thread(start)


def open_stream(channel: grpc.Channel, method: str, requests: Iterator[bytes], metadata: Metadata) -> ResponseStream:
    """Open a call that streams messages' bytes both ways."""
    multicallable = cast("Any", channel).stream_stream(path_of(method))
    return undisturbed_with_thread(lambda: cast("ResponseStream", multicallable(requests, metadata=metadata)))


def cancel(call: UnaryFuture | ResponseStream) -> None:
    """End a call from this side. Safe to call from a destructor."""
    undisturbed(call.cancel)


def path_of(method: str) -> str:
    """Give the path of "Service.Method", from its descriptor."""
    service_name, _, method_name = method.partition(".")
    service = _SERVICES[service_name]
    return f"/{service.full_name}/{service.methods_by_name[method_name].name}"


def error_from(error: grpc.RpcError, address: str) -> InferwireError:
    """Translate what gRPC raised, and is told nowhere else; the code in the trailing metadata says most.

    Many a call is raised itself. It is to be gone before the interpreter ends: its destructor would wait for ever for a
    lock that one of gRPC's threads had when it was stopped.
    """
    # Its frames hold the call, which only garbage collection would free.
    error.__traceback__ = None
    status = cast("grpc.StatusCode", cast("Any", error).code())
    details = str(cast("Any", error).details() or status.name)
    trailers: dict[str, str | bytes] = dict(cast("Any", error).trailing_metadata() or ())
    code = trailers.get(CODE_METADATA)
    # A status does not say whether it came over the network or gRPC made it here. Those that gRPC makes have no
    # metadata, but a proxy's may have none either. An inferwire server's always have a code; among the others, gRPC's
    # are known by their words.
    if code is None and is_of_names(address, details):
        return unavailable(address, details)
    if status is grpc.StatusCode.UNAUTHENTICATED:
        return unauthenticated(f"the server at {address} refuses the call: {details}")
    if code is not None:
        # An unknown code is from a later server, and only its message says what it means.
        return error_of(Code.__members__.get(str(code)), details, _retry_after_in(trailers))
    match status:
        case grpc.StatusCode.UNAVAILABLE:
            return unavailable(address, details)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceeded(f"the server at {address} did not answer in time: {details}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return TooLarge(f"the message is over a limit on the way to {address}: {details}")
        case grpc.StatusCode.UNIMPLEMENTED:
            why = "it is older than this client, or no server of inferwire"
            return error_of(Code.UNIMPLEMENTED, f"the server at {address} does not offer this: {why} ({details})")
        case grpc.StatusCode.PERMISSION_DENIED:
            return error_of(Code.PERMISSION_DENIED, f"the server at {address} does not allow this: {details}")
        case grpc.StatusCode.CANCELLED if _CLOSED_UNDER_WAY in details:
            return closed_here(address)
        case grpc.StatusCode.CANCELLED:
            # Not by this side, and a server that was asked to cancel gives a code. This is how a proxy reports that it
            # gives up a connection, and a server that stops what it could not finish.
            return unavailable(address, details)
        case _:
            return InferwireError(f"the server at {address} answered {status.name}: {details}")


class as_own_errors:  # noqa: N801 - it reads as what it does
    """Raises gRPC's errors inside it as the client's own.

    Not a generator: from Python 3.12 on, its frame and the error would keep each other alive, and all that the callers
    hold.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def __repr__(self) -> str:
        return f"<as_own_errors of {self._address}>"

    def __enter__(self) -> None:
        """Have nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, grpc.RpcError):
            own = error_from(error, self._address)
            # An error that ends the program lives until the interpreter ends, and so would the call.
            del error, traceback
            try:
                raise own
            finally:
                own.__context__ = None
                del own
        if isinstance(error, ValueError) and str(error).startswith(_OF_CLOSED_CHANNELS):
            raise unavailable(self._address, str(error)) from None


def unavailable(address: str, details: str) -> ServerUnavailable:
    """Make the error that says that no server answers, and how to start one; or why it cannot be reached."""
    return ServerUnavailable(why_unreachable(address, details))


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _retry_after_in(trailers: Mapping[str, str | bytes]) -> float | None:
    try:
        seconds = float(trailers.get(RETRY_AFTER_METADATA, 0))
    except ValueError:
        # A proxy may have put a date there, as HTTP allows.
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None
