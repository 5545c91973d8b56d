"""A session that a test opens over gRPC, and the calls that name it."""

from __future__ import annotations

from typing import Any, Self

import grpc

from inferwire_proto.inferwire.v1 import inference_pb2

Metadata = tuple[tuple[str, str], ...]


class OpenSession:
    """A session that is open within a block, and calls within it.

    Attributes:
        stream: Its stream.
        metadata: The metadata that names it in other calls; empty until it is open.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self.stream: Any = channel.stream_stream("/inferwire.v1.InferenceService/Session")()
        self.metadata: Metadata = ()

    async def __aenter__(self) -> Self:
        hello = inference_pb2.SessionRequest(hello=inference_pb2.SessionHello(client="test"))
        await self.stream.write(hello.SerializeToString())
        welcome = inference_pb2.SessionResponse.FromString(await self.stream.read()).welcome
        self.metadata = (("inferwire-session", welcome.session_id),)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stream.done_writing()

    async def call(self, service: Any, name: str, request: Any, metadata: Metadata | None = None) -> Any:
        """Make a call of one of a service's methods, and give its answer."""
        method = service.methods_by_name[name]
        call: Any = self._channel.unary_unary(f"/{service.full_name}/{name}")
        data = await call(request.SerializeToString(), metadata=self.metadata if metadata is None else metadata)
        return method.output_type._concrete_class.FromString(data)
