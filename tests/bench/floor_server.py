"""The floor under gRPC ways: a server that does nothing but gRPC. `python -m tests.bench.floor_server` prints its port.

`/bench.Floor/UnaryN` and `/bench.Floor/StreamN` take any bytes and give N bytes for each message. Its loop and its
allocator are set up as inferwire's are, so that what is between the two is what inferwire adds.
"""

from __future__ import annotations

import sys
from typing import Any

import grpc
import grpc.aio
import uvloop
from tests.bench.python_clients import OPTIONS

from inferwire_server.host.malloc import keep_big_blocks

SERVICE = "/bench.Floor/"


class Floor(grpc.GenericRpcHandler):
    """Answers every message with as many bytes as its method's name says."""

    def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler[Any, Any] | None:
        method: str = handler_call_details.method.removeprefix(SERVICE)
        answer = bytes(int(method.removeprefix("Unary").removeprefix("Stream")))

        async def unary(_request: bytes, _context: Any) -> bytes:
            return answer

        async def stream(_requests: Any, context: Any) -> None:
            while await context.read() is not grpc.aio.EOF:
                await context.write(answer)

        if method.startswith("Unary"):
            return grpc.unary_unary_rpc_method_handler(unary)
        return grpc.stream_stream_rpc_method_handler(stream)


async def main() -> None:
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers([Floor()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


if __name__ == "__main__":
    keep_big_blocks()
    uvloop.run(main())
