"""The peers: their names, the ways into each, and the way of ours that each is compared with."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from tests.bench import c_clients, python_clients, requests
from tests.bench.networks import Array, Network
from tests.bench.requests import Request
from tests.bench.ways import LARGEST_JSON, Client, Prepare

from inferwire_cli.server_process import ServerProcess


@dataclass(frozen=True, slots=True)
class Interface:
    """A way into a peer, and the way into this server that is the most like it.

    Attributes:
        client: The client that loads either with requests.
        ask: Sends the server at an address one request, and gives its answer.
        theirs: Makes the peer's request.
        ours: Makes this server's.
        address: Gives a server's address for it.
        largest: The size in bytes that tensors have to stay below; None for no limit.
    """

    name: str
    client: Client
    ask: Callable[[str, Request], bytes]
    theirs: Prepare
    ours: Prepare
    address: Callable[[ServerProcess], str]
    largest: int | None = None

    def takes(self, network: Network) -> bool:
        """Whether the network's tensors are small enough for it."""
        return self.largest is None or network.sample.nbytes < self.largest


@dataclass(frozen=True, slots=True)
class Peer:
    """A server to be measured beside this one.

    Attributes:
        title: Its own name.
        interfaces: The ways into it.
        batches: Whether it is set up to gather rows of different callers, where a network allows it.
        environment: The peer in whose environment it runs, if that is another's.
    """

    title: str
    interfaces: tuple[Interface, ...]
    batches: bool = False
    environment: str | None = None


def base64_in_json(path: str, network: Network, expected: Array) -> Request:
    """A tensor's bytes as text within JSON, answered likewise or as bare text."""

    def read(answer: bytes) -> Array:
        text = json.loads(answer)["data"] if answer.startswith(b"{") else answer.decode().strip('"')
        return np.frombuffer(base64.b64decode(text), expected.dtype).reshape(expected.shape)

    body = json.dumps({"data": base64.b64encode(network.sample.tobytes()).decode()}).encode()
    return Request(path, body, read, {"Content-Type": "application/json"})


def _grpc(server: ServerProcess) -> str:
    return server.grpc_address


def _http(server: ServerProcess) -> str:
    return server.http_address


def _over_http(
    name: str, theirs: Prepare, ours: Prepare = requests.rest_binary, largest: int | None = None
) -> Interface:
    return Interface(name, c_clients.wrk, python_clients.one_http_answer, theirs, ours, _http, largest)


GRPC = Interface(
    "OIP gRPC", c_clients.h2load, python_clients.one_grpc_answer, requests.oip_grpc, requests.oip_grpc, _grpc
)
BINARY = _over_http("REST binary", requests.rest_binary)
JSON = _over_http("REST JSON", requests.rest_json, requests.rest_json, LARGEST_JSON)
BYTES = _over_http("bytes over HTTP", partial(requests.raw_bytes, "/inference"))
BASE64 = _over_http("base64 in JSON, ours binary", partial(base64_in_json, "/predict"))

PEERS: Mapping[str, Peer] = {
    "mlserver": Peer("MLServer", (GRPC, JSON)),
    "triton": Peer("Triton (Python backend)", (GRPC, BINARY), batches=True, environment="pytriton"),
    "pytriton": Peer("PyTriton", (GRPC, BINARY), batches=True),
    "mosec": Peer("mosec", (BYTES,), batches=True),
    "kserve": Peer("KServe", (GRPC, BINARY)),
    "litserve": Peer("LitServe", (BASE64,)),
    "bentoml": Peer("BentoML", (BASE64,)),
}
"""All peers by the name of their folder."""
