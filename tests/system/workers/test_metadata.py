"""What callers say beside their messages: as strange or long as it may be, it is as if there were one worker."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import h2.events as told
import numpy as np
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from tests.system.workers.conftest import ONE
from tests.system.workers.doors import OIP, Door, oip_request
from tests.waiting import LIMIT_S

from inferwire_cli.server_process import ServerProcess
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip
from inferwire_server.transport.rpc.messages import PREFIX

CONNECTIONS = 12
"""How many connections are opened, each of which leads to any of the workers."""

STRANGE = [(b"x-user", "é".encode()), (b"x-user", b"\xe9"), (b"a!", b"1"), (b"authorization", b"\xe9\t")]
LONG = [(b"traceparent", b"a" * 65_000)]


def status(server: ServerProcess, method: str, request: Any, metadata: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Make a gRPC call on a connection of its own, with metadata that no client of gRPC's sends; give its status."""
    http2 = H2Connection(
        H2Configuration(header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False)
    )
    http2.initiate_connection()
    service, _, name = method.rpartition(".")
    headers = [
        *((b":method", b"POST"), (b":scheme", b"http"), (b":path", f"/{service}/{name}".encode())),
        *((b"content-type", b"application/grpc"), (b"te", b"trailers")),
        *metadata,
    ]
    http2.send_headers(1, headers)
    message = request.SerializeToString()
    http2.send_data(1, PREFIX.pack(0, len(message)) + message, end_stream=True)
    host, _, port = server.grpc_address.rpartition(":")
    said: dict[bytes, bytes] = {}
    with socket.create_connection((host, int(port)), LIMIT_S) as connection:
        while b"grpc-status" not in said:
            connection.sendall(http2.data_to_send())
            data = connection.recv(1 << 16)
            assert data, "the server has closed the connection"
            for event in http2.receive_data(data):
                if isinstance(event, told.ResponseReceived | told.TrailersReceived):
                    headers_of: Any = event.headers
                    said |= dict(headers_of)
    return said[b"grpc-status"]


@pytest.mark.parametrize("metadata", [STRANGE, LONG], ids=["strange", "long"])
def test_a_call_that_all_workers_answer_is_answered(
    server: ServerProcess, doors: list[Door], metadata: list[tuple[bytes, bytes]]
) -> None:
    """The workers are asked before and behind: a call that ends what they share would take others with it."""
    for _ in range(CONNECTIONS):
        assert status(server, f"{OIP}.ModelStatistics", oip.ModelStatisticsRequest(), metadata) == b"0"
        for door in doors:
            door.call(f"{OIP}.ModelStatistics", oip.ModelStatisticsRequest(), oip.ModelStatisticsResponse)


@pytest.mark.parametrize("metadata", [STRANGE, LONG], ids=["strange", "long"])
def test_a_change_is_made_everywhere(
    server: ServerProcess, doors: list[Door], metadata: list[tuple[bytes, bytes]]
) -> None:
    asked = oip.RepositoryModelUnloadRequest(model_name="scaling")
    assert status(server, f"{OIP}.RepositoryModelUnload", asked, metadata) == b"0"
    ready = oip.ModelReadyRequest(name="scaling")
    assert [door.call(f"{OIP}.ModelReady", ready, oip.ModelReadyResponse).ready for door in doors] == [False, False]
    for _ in range(CONNECTIONS):
        loading = oip.RepositoryModelLoadRequest(model_name="scaling")
        assert status(server, f"{OIP}.RepositoryModelLoad", loading, metadata) == b"0"
    for door in doors:
        answer = door.call(f"{OIP}.ModelInfer", oip_request("scaling", "data", ONE), oip.ModelInferResponse)
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).size == 1
