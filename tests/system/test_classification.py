"""The bundled classifier says what is in a photo, to clients of the Open Inference Protocol that ask for classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from inferwire_cli.demo.photos import load_photo
from inferwire_cli.server_process import ServerProcess, running_server

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server(ROOT / "deploy/models") as running:
        yield running


@pytest.fixture(scope="module")
def photos() -> Any:
    """Coffee and a cat, as one batch."""
    return np.concatenate([load_photo(ROOT / f"deploy/images/{name}.png").pixels for name in ("coffee", "chelsea")])


@pytest.fixture(scope="module", params=[(), ("--max-batch", "8")], ids=["does_not_batch", "batches"])
def digits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The model of digits alone: not all of them can batch."""
    repository = tmp_path_factory.mktemp("repository")
    copytree(ROOT / "deploy/models/digits_mlp", repository / "digits_mlp")
    with running_server(repository, *request.param) as running:
        yield running


def names(classes: Any) -> list[list[str]]:
    return [[text.decode().split(":")[2] for text in row] for row in classes]


@pytest.mark.parametrize("interface", [triton_grpc, triton_http], ids=["grpc", "http"])
def test_tritons_clients_read_names(server: ServerProcess, photos: Any, interface: Any) -> None:
    given = interface.InferInput("image", list(photos.shape), "FP32")
    given.set_data_from_numpy(photos)
    wanted = [interface.InferRequestedOutput("logits", class_count=2)]
    address = server.grpc_address if interface is triton_grpc else server.http_address
    with interface.InferenceServerClient(address) as client:
        classes = client.infer("efficientnet_lite0", [given], outputs=wanted).as_numpy("logits")
    assert classes.shape == (2, 2)
    assert [row[0] for row in names(classes)] == ["espresso", "Egyptian Mau"]


def test_json_has_them_as_texts(server: ServerProcess) -> None:
    pixels = {"name": "pixels", "datatype": "FP32", "shape": [1, 64], "data": [0.0] * 64}
    wanted = {"name": "probabilities", "parameters": {"classification": 10}}
    url = f"http://{server.http_address}/v2/models/digits_mlp/infer"
    (output,) = httpx.post(url, json={"inputs": [pixels], "outputs": [wanted]}, timeout=30).json()["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [10])
    values, indices, labels = zip(*(text.split(":") for text in output["data"]), strict=True)
    assert list(map(float, values)) == sorted(map(float, values), reverse=True)
    assert labels == indices


@pytest.mark.parametrize("interface", [triton_grpc, triton_http], ids=["grpc", "http"])
def test_what_reads_a_batch_where_the_configuration_has_one_reads_the_classes(
    digits: ServerProcess, interface: Any
) -> None:
    given = interface.InferInput("pixels", [1, 64], "FP32")
    given.set_data_from_numpy(np.zeros((1, 64), np.float32))
    wanted = [interface.InferRequestedOutput("probabilities", class_count=3)]
    address = digits.grpc_address if interface is triton_grpc else digits.http_address
    with interface.InferenceServerClient(address) as client:
        configuration = client.get_model_config("digits_mlp")
        output = client.infer("digits_mlp", [given], outputs=wanted).as_numpy("probabilities")
    largest = configuration["max_batch_size"] if interface is triton_http else configuration.config.max_batch_size
    # So do Triton's programs for pictures: without a batch the array holds the classes, else it holds rows of them.
    rows = output if largest else [output]
    classes = ["".join(chr(byte) for byte in text).split(":") for row in rows for text in row]
    assert [len(parts) for parts in classes] == [3, 3, 3]
