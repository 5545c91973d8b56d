"""Strings that end in NUL bytes, which OpenVINO's Python drops: no caller gets an answer to others than it sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openvino
import pytest
import tritonclient.grpc
import tritonclient.http
from tests.openvino_backend.small_models import identity
from tritonclient.utils import InferenceServerException

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, running_server
from inferwire_proto.element_types import BY_NAME

NAME = "y"
"""What `identity` calls both its input and its output."""

REFUSED = "input 'y' of model 'text': string 1 ends in a NUL byte, which OpenVINO's Python would drop"

Send = Callable[[ServerProcess, Any], tuple[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("strings")
    version = repository / "text/1"
    version.mkdir(parents=True)
    identity(version, BY_NAME["string"])
    with running_server(repository) as running:
        yield running


def by_json(server: ServerProcess, strings: list[bytes]) -> tuple[str, Any]:
    """Send strings as JSON; give the error and the answer, one of which is empty."""
    data = [each.decode() for each in strings]
    inputs = [{"name": NAME, "shape": [len(data)], "datatype": "BYTES", "data": data}]
    answer = httpx.post(f"http://{server.http_address}/v2/models/text/infer", json={"inputs": inputs})
    if answer.status_code != 200:
        assert answer.status_code == 400
        return answer.json()["error"], None
    return "", [each.encode() for each in answer.json()["outputs"][0]["data"]]


def by_client(client: Any, library: Any, strings: list[bytes]) -> tuple[str, Any]:
    given = library.InferInput(NAME, [len(strings)], "BYTES")
    given.set_data_from_numpy(np.array(strings, object))
    with client:
        try:
            return "", client.infer("text", [given]).as_numpy(NAME).tolist()
        except InferenceServerException as error:
            return str(error.message()), None


def by_binary(server: ServerProcess, strings: list[bytes]) -> tuple[str, Any]:
    return by_client(tritonclient.http.InferenceServerClient(server.http_address), tritonclient.http, strings)


def by_grpc(server: ServerProcess, strings: list[bytes]) -> tuple[str, Any]:
    return by_client(tritonclient.grpc.InferenceServerClient(server.grpc_address), tritonclient.grpc, strings)


@pytest.mark.parametrize("send", [by_json, by_binary, by_grpc])
def test_they_are_refused(server: ServerProcess, send: Send) -> None:
    assert send(server, [b"a", b"b\0", b"c"]) == (REFUSED, None)
    assert send(server, [b"\0a", b"", b"c"]) == ("", [b"\0a", b"", b"c"])


def test_the_client_gives_what_openvino_gives(server: ServerProcess, tmp_path: Path) -> None:
    # numpy's own arrays of strings do not tell them from shorter ones.
    given = np.array([b"a", b"b\0", b"\0"])
    local = openvino.Core().compile_model(identity(tmp_path, BY_NAME["string"]).path, "CPU")(given)[0]
    core = ov.Core(server.grpc_address)
    served = core.served_model("text")(given)[0]
    core.close()
    assert served.tolist() == local.tolist() == ["a", "b", ""]
