"""A forked child that drops what its parent connected with: the connection stays the parent's."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from tests.client.transport.scripted_server import DATA, ScriptedServer, methods_of, result
from tests.waiting import LIMIT_S

from inferwire_proto.inferwire.v1 import inference_pb2 as pb

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import gc, os, sys
from tests.client.transport.endings import Endings
from tests.client.transport.scripted_server import HEADER
from tests.waiting import LIMIT_S
from inferwire.transport.address import parse_address
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.session.session_stream import LARGE_BYTES
from inferwire.transport.timeouts import Timeouts


class Told:
    def __del__(self, write=os.write):
        write(1, b"the channel is destroyed\\n")


address, ending = sys.argv[1:]
transport, beside = (
    GrpcTransport(parse_address(at), Timeouts(LIMIT_S)) for at in (address, f"grpc://{address}")
)
# The stream of one whose session stays on gRPC is why gRPC itself does nothing at the fork.
for each in (transport, beside):
    each.devices()
transport._connection.open().channel.told = Told()
is_started, starts = os.pipe()
if (child := os.fork()) == 0:
    os.read(is_started, 1)
    if ending == "drops it":
        del transport, each
        gc.collect()
        os._exit(0)
    sys.exit()
outcomes = Endings()
transport.submit(HEADER, [bytes(LARGE_BYTES)], outcomes.take)
sys.stdin.readline()
os.write(starts, b"x")
os.waitpid(child, 0)
print("the child has ended", flush=True)
print("the parent got", outcomes.get(timeout=LIMIT_S).error or "its answer", flush=True)
os._exit(0)
"""
"""Forks a child that ends in one of two ways while the parent has an execution in flight, as a call of its own.

How well it ends is gRPC's: as a forked process exits, gRPC's own destructors abort it now and then.
"""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(on_socket=True) as server:
        yield server


@pytest.mark.parametrize("ending", ["drops it", "exits"])
def test_the_parents_channel_outlives_its_child(server: ScriptedServer, ending: str) -> None:
    is_started, may_answer = threading.Event(), threading.Event()

    def infer(request: bytes, context: grpc.ServicerContext) -> bytes:
        del request, context
        is_started.set()
        may_answer.wait(LIMIT_S)
        return pb.InferResponse(result=result(0).results[0], raw=[DATA]).SerializeToString()

    server.unary.update(Infer=infer, ListDevices=lambda data, context: b"")
    # From 3.12 on Python warns of a fork beside threads, which is what this is about; so does gRPC, in its own words.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PROGRAM]
    with subprocess.Popen(
        [*command, f"127.0.0.1:{server.port}", ending],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert is_started.wait(LIMIT_S)
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "the child has ended\n"
        may_answer.set()
        assert program.stdout.read() == "the parent got its answer\n"
    # gRPC 1.72 would cut the parent's call short, and the client would then make it once more.
    assert methods_of(server).count("Infer") == 1
