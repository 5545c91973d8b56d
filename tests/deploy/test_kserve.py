"""KServe's documents, put together as KServe does, make a server that has the model as KServe's callers look for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import copytree
from typing import Any

import httpx
import numpy as np
import openvino
import pytest
from tests.deploy.manifests import DEPLOY, read
from tests.deploy.serve_settings import VARIABLES, settings_of

import inferwire as ov
from inferwire_cli.server_process import running_server
from inferwire_proto.host.flags import ENV_PREFIX
from inferwire_server.from_settings import check, repository_of
from inferwire_server.settings import Settings

(RUNTIME,) = read("kserve-runtime.yaml")
(SERVICE,) = read("kserve-inference-service.yaml")
MODEL: Any = SERVICE["spec"]["predictor"]["model"]
NAME: str = SERVICE["metadata"]["name"]
DIGITS = DEPLOY / "models/digits_mlp"
MOUNTED = "/mnt/models"
"""Where KServe puts the files of a model."""

HTTP_PORT = 8080
"""Where KServe sends HTTP to a container that names no port."""

GIVEN_TO_END_S = 30
"""What Kubernetes gives a pod to end that says nothing of it."""

F32 = {"INFERENCE_PRECISION_HINT": "f32"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def variables_of(container: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container.get("env", [])}


def rendered() -> Any:
    """Give the runtime's container for the service: `env` replaces by name, and the name is filled in."""
    (container,) = RUNTIME["spec"]["containers"]
    variables = variables_of(container) | variables_of(MODEL)
    env = [{"name": name, "value": value} for name, value in variables.items()]
    together = container | MODEL | {"env": env, "args": [*container.get("args", []), *MODEL.get("args", [])]}
    return json.loads(re.sub(r"\{\{ *\.Name *\}\}", NAME, json.dumps(together)))


def variables(mounted: Path | str = MOUNTED) -> dict[str, str]:
    """Give what the image and KServe say in the environment, with the model mounted somewhere else."""
    dockerfile = (DEPLOY.parent / "Dockerfile").read_text()
    image = dict(re.findall(rf"\b({ENV_PREFIX}\w+)=(\S+)", dockerfile))
    return {name: value.replace(MOUNTED, str(mounted)) for name, value in (image | variables_of(rendered())).items()}


def settings(*flags: str, mounted: Path | str = MOUNTED) -> Settings:
    """Give the settings of a service with these `args`."""
    found = settings_of([*rendered()["args"], *flags], variables(mounted))
    check(found)
    return found


def served(found: Settings) -> list[str]:
    return [f"{entry.name}/{entry.version} {entry.model_file().name}" for entry in repository_of(found).served()]


def test_what_the_documents_say_can_be_served() -> None:
    assert set(variables()) <= VARIABLES
    assert settings().models == (f"{NAME}={MOUNTED}",)


def test_a_service_asks_for_what_the_runtime_has() -> None:
    runtime = RUNTIME["spec"]
    assert MODEL["runtime"] == RUNTIME["metadata"]["name"]
    assert MODEL["protocolVersion"] in runtime["protocolVersions"]
    assert MODEL["modelFormat"]["name"] in {each["name"] for each in runtime["supportedModelFormats"]}
    assert [each["name"] for each in runtime["containers"]] == ["kserve-container"]


@pytest.mark.parametrize(
    ("files", "model"),
    [
        (("model.xml", "model.bin"), "1 model.xml"),
        (("1/model.xml", "1/model.bin", "2/model.xml", "2/model.bin", "labels.txt"), "2 model.xml"),
        (("resnet.onnx",), "1 resnet.onnx"),
    ],
)
def test_a_model_has_the_services_name_however_it_is_stored(tmp_path: Path, files: tuple[str, ...], model: str) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert served(settings(mounted=tmp_path)) == [f"{NAME}/{model}"]


def test_a_service_of_several_models_says_so_in_its_arguments() -> None:
    (flag,) = re.findall(r"args: \[(.+?)\]", (DEPLOY / "kserve-runtime.yaml").read_text())
    names = {entry.name for entry in repository_of(settings(flag.replace(MOUNTED, str(DEPLOY / "models")))).served()}
    assert names == {"digits_mlp", "efficientnet_lite0", "silero_vad_stateful"}


def test_a_service_can_replace_all_that_the_runtime_says(tmp_path: Path) -> None:
    """KServe puts the arguments of both together, and a flag may be there once."""
    (container,) = RUNTIME["spec"]["containers"]
    assert "args" not in container
    assert settings("--grace-s=60", "--property=NUM_STREAMS=1", mounted=tmp_path).properties == ("NUM_STREAMS=1",)


def test_a_server_answers_where_kserve_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copytree(DIGITS / "1", tmp_path / "models")
    for name, value in variables(tmp_path / "models").items():
        monkeypatch.setenv(name, value)
    pixels = np.random.default_rng(0).uniform(0, 16, (2, 64)).astype(np.float32)
    expected = openvino.compile_model(DIGITS / "1/digits_mlp.xml", "CPU", F32)(pixels)[0]
    flags = (*rendered()["args"], "--drain-delay-s=0", "--property=INFERENCE_PRECISION_HINT=f32")
    with running_server(None, *flags) as server, httpx.Client(base_url=f"http://{server.http_address}") as http:
        metrics = RUNTIME["spec"]["annotations"]["prometheus.kserve.io/path"]
        probed = [rendered()[probe]["httpGet"]["path"] for probe in PROBES]
        for path in ("/v2", f"/v2/models/{NAME}", f"/v2/models/{NAME}/ready", metrics, *probed):
            assert http.get(path).status_code == 200, path
        inputs = [{"name": "pixels", "datatype": "FP32", "shape": [2, 64], "data": pixels.ravel().tolist()}]
        answer = http.post(f"/v2/models/{NAME}/infer", json={"inputs": inputs}).json()
        np.testing.assert_allclose(np.reshape(answer["outputs"][0]["data"], (2, 10)), expected, rtol=1e-5, atol=1e-6)
        core = ov.Core(server.grpc_address)
        np.testing.assert_allclose(core.served_model(NAME)(pixels)[0], expected, rtol=1e-5, atol=1e-6)
        core.close()


def test_probes_and_scrapes_reach_the_http_port() -> None:
    assert settings().http_port == HTTP_PORT
    assert {rendered()[probe]["httpGet"]["port"] for probe in PROBES} == {HTTP_PORT}
    assert RUNTIME["spec"]["annotations"]["prometheus.kserve.io/port"] == str(HTTP_PORT)


def test_a_service_over_grpc_names_the_port_that_is_listened_at() -> None:
    (port,) = re.findall(r"containerPort: (\d+)", (DEPLOY / "kserve-inference-service.yaml").read_text())
    assert settings().grpc_port == int(port)


def test_a_pod_has_the_time_that_the_server_takes_to_end() -> None:
    probe = rendered()["readinessProbe"]
    assert settings().drain_delay_s == 2 * probe["periodSeconds"] * probe["failureThreshold"]
    assert settings().drain_delay_s + settings().grace_s + 10 == GIVEN_TO_END_S
    assert settings().strict_readiness


@pytest.mark.parametrize("container", [RUNTIME["spec"]["containers"][0], MODEL], ids=["runtime", "service"])
def test_a_pod_has_what_it_asks_for(container: Any) -> None:
    assert container["resources"]["requests"] == container["resources"]["limits"]


def test_what_may_be_written_is_on_a_volume_with_a_limit() -> None:
    assert rendered()["securityContext"]["readOnlyRootFilesystem"]
    (mount,) = rendered()["volumeMounts"]
    (volume,) = RUNTIME["spec"]["volumes"]
    assert (mount["mountPath"], mount["name"]) == ("/tmp", volume["name"])
    assert volume["emptyDir"]["sizeLimit"]
