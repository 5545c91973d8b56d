"""Holds streams open that do nothing: `python -m tests.bench.idle_streams ADDRESS METHOD HELLO STREAMS CONNECTIONS`.

HELLO is what each sends first, in hexadecimal. Says `open` when all are answered, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc.aio
import uvloop

OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


async def main(arguments: Sequence[str]) -> None:
    address, method, hello, streams, connections = arguments
    async with AsyncExitStack() as opened:
        channels: list[grpc.aio.Channel] = [
            await opened.enter_async_context(grpc.aio.insecure_channel(address, options=OPTIONS))
            for _ in range(int(connections))
        ]
        held: list[Any] = []
        for number in range(int(streams)):
            stream: Any = channels[number % len(channels)].stream_stream(method)()
            await stream.write(bytes.fromhex(hello))
            await stream.read()
            held.append(stream)
        sys.stdout.write("open\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        for stream in held:
            stream.cancel()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
