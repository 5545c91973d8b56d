"""Pictures sent to a server as they are: pixels and files, on each interface, give what openvino gives in process."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from shutil import copytree
from typing import Any

import httpx
import numpy as np
import openvino
import pytest
import tritonclient.grpc as triton
from openvino.preprocess import PrePostProcessor
from PIL import Image

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, running_server

ROOT = Path(__file__).resolve().parents[2]
CLASSIFIER = ROOT / "deploy/models/efficientnet_lite0"
LABELS = (CLASSIFIER / "labels.txt").read_text(encoding="utf-8").splitlines()
COFFEE = ROOT / "deploy/images/coffee.png"
CHELSEA = ROOT / "deploy/images/chelsea.png"
SETTINGS = """
device = "CPU"
precision = "f32"

[warm_up]
image = [1, 224, 224, 3]

[preprocessing.image]
model_layout = "NCHW"
mean = 127
scale = 128
"""
FILES = 'encoded = true\nresize = "bicubic_pillow"\n[properties]\nINFERWIRE_MAX_BATCH = 4'
PIXELS = 'element_type = "u8"\nlayout = "NHWC"\nresize = "bilinear_pillow"'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of one classifier, once for files and once for pixels."""
    repository = tmp_path_factory.mktemp("pictures")
    for name, settings in (("files", FILES), ("pixels", PIXELS)):
        copytree(CLASSIFIER, repository / name)
        (repository / name / "inferwire.toml").write_text(SETTINGS + settings)
    with running_server(repository) as running:
        yield running


@pytest.fixture(scope="module")
def core(server: ServerProcess) -> Iterator[ov.Core]:
    with ov.Core(server.grpc_address) as core:
        yield core


def jpeg(path: Path) -> bytes:
    file = BytesIO()
    Image.open(path).convert("RGB").save(file, "JPEG", quality=95)
    return file.getvalue()


def labels(logits: Any) -> list[str]:
    return [LABELS[index] for index in np.asarray(logits).argmax(1)]


def test_the_client_sends_files_of_any_size_and_kind_in_one_batch(core: ov.Core) -> None:
    model = core.served_model("files")
    port = model.input()
    assert (port.element_type, str(port.partial_shape)) == (ov.Type.string, "[?]")
    files = [COFFEE.read_bytes(), jpeg(COFFEE), CHELSEA.read_bytes()]
    assert labels(model(np.array(files))[0]) == ["espresso", "espresso", "Egyptian Mau"]


def test_pixels_give_what_a_local_processor_gives(core: ov.Core) -> None:
    processor = PrePostProcessor(openvino.Core().read_model(CLASSIFIER / "1/efficientnet_lite0.xml"))
    image = processor.input("image")
    image.tensor().set_element_type(openvino.Type.u8).set_layout(openvino.Layout("NHWC")).set_spatial_dynamic_shape()
    image.model().set_layout(openvino.Layout("NCHW"))
    steps = image.preprocess().convert_element_type(openvino.Type.f32)
    steps.resize(openvino.preprocess.ResizeAlgorithm.RESIZE_BILINEAR_PILLOW).mean(127.0).scale(128.0)
    local = openvino.Core().compile_model(processor.build(), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    pixels = np.asarray(Image.open(COFFEE).convert("RGB"))[np.newaxis]
    got = core.served_model("pixels")(pixels)[0]
    np.testing.assert_allclose(got, local(pixels)[0], rtol=1e-4, atol=1e-4)
    assert labels(got) == ["espresso"]


def test_files_give_what_their_pixels_give(core: ov.Core) -> None:
    small = Image.open(COFFEE).convert("RGB").resize((224, 224), Image.Resampling.BICUBIC)
    from_file = core.served_model("files")(np.array([COFFEE.read_bytes()]))[0]
    from_pixels = core.served_model("pixels")(np.asarray(small)[np.newaxis])[0]
    np.testing.assert_allclose(from_file, from_pixels, rtol=1e-4, atol=1e-4)


def test_a_file_is_a_whole_rest_request(server: ServerProcess) -> None:
    url = f"http://{server.host}:{server.http_port}/v2/models/files"
    assert httpx.get(url).json()["inputs"] == [{"name": "image", "datatype": "BYTES", "shape": [-1]}]
    raw = {"Inference-Header-Content-Length": "0"}
    answer = httpx.post(f"{url}/infer", content=jpeg(COFFEE), headers=raw, timeout=30.0)
    logits = answer.content[int(answer.headers["Inference-Header-Content-Length"]) :]
    assert labels([np.frombuffer(logits, np.float32)]) == ["espresso"]
    refused = httpx.post(f"{url}/infer", content=b"GIF89a", headers=raw, timeout=30.0)
    assert refused.status_code == 400
    assert refused.json()["error"] == "picture 0 of input 'image' of model 'files' is no JPEG or PNG file"


def test_clients_of_the_open_inference_protocol_send_bytes(server: ServerProcess) -> None:
    client = triton.InferenceServerClient(server.grpc_address)
    (port,) = client.get_model_metadata("files").inputs  # pyright: ignore[reportOptionalMemberAccess]
    assert (port.datatype, list(port.shape)) == ("BYTES", [-1])
    files = triton.InferInput("image", [2], "BYTES")
    files.set_data_from_numpy(np.array([jpeg(CHELSEA), COFFEE.read_bytes()], np.object_))
    answer = client.infer("files", [files])
    assert labels(answer.as_numpy("logits")) == ["Egyptian Mau", "espresso"]  # pyright: ignore[reportOptionalMemberAccess]
    client.close()
