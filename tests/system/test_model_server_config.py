"""A server started with OpenVINO Model Server's configuration file answers as the file says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openvino
import pytest
from PIL import Image
from tests.waiting import wait_until

import inferwire as ov
from inferwire_cli.server_process import ServerProcess, running_server

ROOT = Path(__file__).resolve().parents[2]
CLASSIFIER = ROOT / "deploy/models/efficientnet_lite0"
COFFEE = ROOT / "deploy/images/coffee.png"
F32 = {"INFERENCE_PRECISION_HINT": "f32"}


def configuration(folder: Path, *models: dict[str, Any]) -> Path:
    file = folder / "config.json"
    document = {
        "model_config_list": [{"config": {"target_device": "CPU", **model}} for model in models],
        "monitoring": {"metrics": {"enable": True}},
    }
    file.write_text(json.dumps(document))
    return file


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("config")
    file = configuration(
        folder,
        {
            "name": "pictures",
            "base_path": str(CLASSIFIER),
            "nireq": 1,
            "plugin_config": F32,
            "shape": "(1:4,3,224,224)",
            "layout": "NHWC:NCHW",
            "precision": "U8:FP32",
            "color_format": "BGR:RGB",
            "mean": "[127,127,127]",
            "scale": 128,
        },
        {"name": "digits", "base_path": str(ROOT / "deploy/models/digits_mlp"), "batch_size": 3},
        {"name": "any", "base_path": str(CLASSIFIER), "plugin_config": F32, "shape": "auto"},
        {"name": "unfit", "base_path": str(ROOT / "deploy/models/digits_mlp"), "layout": {"nobody": "NC"}},
    )
    with running_server(None, "--config", str(file)) as running:
        yield running


@pytest.fixture(scope="module")
def core(server: ServerProcess) -> Iterator[ov.Core]:
    with ov.Core(server.grpc_address) as core:
        yield core


def test_pictures_are_preprocessed_as_the_file_says(core: ov.Core) -> None:
    model = core.served_model("pictures")
    port = model.input()
    assert (port.element_type, str(port.partial_shape)) == (ov.Type.u8, "[1..4,224,224,3]")
    assert model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS") >= 1
    rgb = np.asarray(Image.open(COFFEE).convert("RGB").resize((224, 224)))[np.newaxis]
    floats = (rgb.astype(np.float32).transpose(0, 3, 1, 2) - 127) / 128
    local = openvino.Core().compile_model(CLASSIFIER / "1/efficientnet_lite0.xml", "CPU", F32)
    np.testing.assert_allclose(model(rgb[..., ::-1])[0], local(floats)[0], rtol=1e-4, atol=1e-4)


def test_the_batch_is_that_of_the_file(core: ov.Core) -> None:
    assert str(core.served_model("digits").input().partial_shape) == "[3,64]"


def test_any_size_is_taken_where_the_file_leaves_it_open(core: ov.Core) -> None:
    model = core.served_model("any")
    assert str(model.input().partial_shape) == "[?,?,?,?]"
    local = openvino.Core().compile_model(CLASSIFIER / "1/efficientnet_lite0.xml", "CPU", F32)
    picture = np.random.default_rng(1).random((2, 3, 224, 224)).astype(np.float32)
    np.testing.assert_allclose(model(picture)[0], local(picture)[0], rtol=1e-4, atol=1e-4)
    assert model(picture[:, :, :160, :192])[0].shape == (2, 1000)


def test_what_does_not_fit_the_model_fails_it_alone(core: ov.Core) -> None:
    with pytest.raises(ov.ModelFailed, match=r"preprocessing\.nobody"):
        core.served_model("unfit")


def test_a_file_with_what_is_not_offered_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    file = configuration(tmp_path, {"name": "a", "base_path": str(CLASSIFIER), "shape": "all", "nirqe": 2})
    command = [sys.executable, "-m", "inferwire_cli", "serve", "--config", str(file), "--http-port", "0"]
    done = subprocess.run([*command, "--grpc-port", "0"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    line = (done.stdout + done.stderr).splitlines()[-1]
    assert json.loads(line)["event"] == "cannot serve"
    assert "model 'a': shape is" in line
    assert "nirqe is no field" in line


def test_a_watched_file_is_followed(tmp_path: Path) -> None:
    digits = {"base_path": str(ROOT / "deploy/models/digits_mlp")}
    file = configuration(tmp_path, {"name": "first", **digits})
    with running_server(None, "--config", str(file), "--watch") as server:
        configuration(tmp_path, {"name": "second", **digits})
        with httpx.Client(base_url=f"http://{server.http_address}", timeout=30) as client:
            wait_until(lambda: client.get("/v2/models/second/ready").status_code == 200)
            wait_until(lambda: list(client.get("/v1/config").json()) == ["second"])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_metrics_say_that_what_is_watched_cannot_be_read(tmp_path: Path, workers: str) -> None:
    digits = {"base_path": str(ROOT / "deploy/models/digits_mlp")}
    file = configuration(tmp_path, {"name": "first", **digits})
    with (
        running_server(None, "--config", str(file), "--watch", "--workers", workers) as server,
        httpx.Client(base_url=f"http://{server.http_address}", timeout=30) as client,
    ):

        def is_unreadable() -> str:
            return client.get("/metrics").text.rpartition("\ninferwire_repository_unreadable ")[2].partition("\n")[0]

        assert is_unreadable() == "0.0"
        file.rename(tmp_path / "elsewhere.json")
        wait_until(lambda: is_unreadable() == "1.0")
        assert client.get("/v2/health/ready").status_code == client.get("/v2/models/first/ready").status_code == 200
        (tmp_path / "elsewhere.json").rename(file)
        wait_until(lambda: is_unreadable() == "0.0")
