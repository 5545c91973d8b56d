"""The end of a program: what waits then for threads that run no more is told so, and does not hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.transport.scripted_server import ScriptedServer
from tests.waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]
TOLD = "told: the interpreter is shutting down, and the threads that would take the answer run no more\n"


def said_by(program: str, *arguments: str) -> str:
    """Run a program to its end, which is to be a good one, and give what it says."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


PROGRAM = """
import numpy as np
import inferwire as ov
from inferwire.transport.fake_transport import FakeTransport
from tests.client.conftest import describe

transport = FakeTransport(describe({"data": [1, 3]}, [1, 3]))
compiled = ov.Core(transport=transport).served_model("double")

class Pipeline:
    def __init__(self):
        self.request = compiled.create_infer_request()
        self.queue = ov.AsyncInferQueue(compiled, 1)
        self.request.start_async(np.ones((1, 3), np.float32))
        self.queue.start_async(np.ones((1, 3), np.float32))

    def __del__(self, np=np, compiled=compiled):
        try:
            WAIT(self)
        except RuntimeError as error:
            print("told:", error)

pipeline = Pipeline()
print("end")
"""


@pytest.mark.parametrize(
    "wait",
    [
        "self.request.wait()",
        "self.request.wait_for(3_600_000)",
        "self.queue.wait_all()",
        "self.queue.start_async()",
        "compiled.create_infer_request().infer(np.ones((1, 3), np.float32))",
    ],
)
def test_who_waits_at_the_end_is_told_that_nothing_comes(wait: str) -> None:
    assert said_by(PROGRAM.replace("WAIT(self)", wait)) == f"end\n{TOLD}"


CANCELLING = """
from inferwire.transport.session.session_stream import SessionStream
from inferwire.transport.session.stream_execution import EncodedHeader, StreamExecution
from inferwire_proto.inferwire.v1.inference_pb2 import SessionHello
from tests.client.transport.session.test_session_stream import FakeCarrier

carrier = FakeCarrier()
stream = SessionStream(carrier, "fake", SessionHello(), 10)
execution = StreamExecution((), print)
stream.submit(execution, EncodedHeader(b""), 0)
next(carrier.messages), next(carrier.messages)
stream.cancel(execution)

class Late:
    def __del__(self, stream=stream):
        stream.await_cancelled()
        print("went on")

late = Late()
print("end")
"""


def test_nobody_waits_at_the_end_for_what_was_cancelled() -> None:
    assert said_by(CANCELLING) == "end\nwent on\n"


CONNECTING = """
import inferwire as ov

core = ov.Core("127.0.0.1:9")

class Late:
    def __del__(self, core=core):
        try:
            core.available_devices
        except RuntimeError as error:
            print("told:", error)

late = Late()
print("end")
"""


def test_nobody_connects_at_the_end() -> None:
    assert said_by(CONNECTING) == f"end\n{TOLD}"


SENDING = """
import sys

from inferwire.transport.address import parse_address
from inferwire.transport.grpc_transport import GrpcTransport
from inferwire.transport.session.session_stream import LARGE_BYTES
from tests.client.transport.scripted_server import DATA, HEADER

transport = GrpcTransport(parse_address(sys.argv[1]))
transport.submit(HEADER, [DATA], print)

class Late:
    def __del__(self, transport=transport, HEADER=HEADER, large=bytes(LARGE_BYTES)):
        try:
            transport.submit(HEADER, [large], print)
        except RuntimeError as error:
            print("told:", error)

late = Late()
print("end")
"""


def test_nothing_that_takes_a_thread_is_sent_at_the_end() -> None:
    with ScriptedServer(on_socket=True) as server:
        assert said_by(SENDING, f"127.0.0.1:{server.port}") == f"end\n{TOLD}"
