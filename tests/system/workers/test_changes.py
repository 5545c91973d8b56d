"""What changes at one worker changes at all of them, before the call that asks for it has an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as shm
from tests.system.workers.conftest import ONE, ROW, SHARED, save_scaling
from tests.system.workers.doors import OIP, Door, inferred, oip_request, rest_tensor

from inferwire_proto.inferwire.v1 import models_pb2
from inferwire_server.open_inference.stubs import grpc_service_pb2 as oip


def rest_control(door: Door, name: str, verb: str) -> None:
    answer = door.rest("POST", f"/v2/repository/models/{name}/{verb}")
    assert answer.status == 200, answer.body


def oip_control(door: Door, name: str, verb: str) -> None:
    if verb == "load":
        loading = oip.RepositoryModelLoadRequest(model_name=name)
        door.call(f"{OIP}.RepositoryModelLoad", loading, oip.RepositoryModelLoadResponse)
    else:
        unloading = oip.RepositoryModelUnloadRequest(model_name=name)
        door.call(f"{OIP}.RepositoryModelUnload", unloading, oip.RepositoryModelUnloadResponse)


def v1_control(door: Door, name: str, verb: str) -> None:
    service = "inferwire.v1.ModelService"
    if verb == "load":
        door.call(f"{service}.LoadModel", models_pb2.LoadModelRequest(name=name), models_pb2.LoadModelResponse)
    else:
        door.call(f"{service}.UnloadModel", models_pb2.UnloadModelRequest(name=name), models_pb2.UnloadModelResponse)


def scaled(door: Door) -> list[float]:
    """Multiply one by the model's factor, in every way; [] where it does not serve."""
    over_rest = door.rest("POST", "/v2/models/scaling/infer", {"inputs": [rest_tensor("data", ONE)]})
    asked = oip.ModelReadyRequest(name="scaling")
    is_ready = door.call(f"{OIP}.ModelReady", asked, oip.ModelReadyResponse).ready
    assert is_ready == (over_rest.status == 200)
    if not is_ready:
        return []
    answer = door.call(f"{OIP}.ModelInfer", oip_request("scaling", "data", ONE), oip.ModelInferResponse)
    return [inferred(over_rest.json).item(), np.frombuffer(answer.raw_output_contents[0], np.float32).item()]


@pytest.mark.parametrize("control", [rest_control, oip_control, v1_control])
@pytest.mark.parametrize("at", [0, 1])
def test_models_come_and_go_everywhere_at_once(doors: list[Door], control: Any, at: int) -> None:
    control(doors[at], "scaling", "unload")
    assert [scaled(door) for door in doors] == [[], []]
    control(doors[at], "scaling", "load")
    assert [len(scaled(door)) for door in doors] == [2, 2]


@pytest.mark.parametrize("at", [0, 1])
def test_a_model_whose_file_has_changed_is_read_again_everywhere(doors: list[Door], repository: Path, at: int) -> None:
    for reload, factor in (("/v1/config/reload", 10 + at), ("/v2/repository/models/scaling/load", 20 + at)):
        save_scaling(repository, factor)
        assert doors[at].rest("POST", reload).status in (200, 201)
        assert [scaled(door) for door in doors] == [[factor, factor]] * 2


@pytest.mark.parametrize("at", [0, 1])
def test_the_log_s_level_changes_everywhere(doors: list[Door], at: int) -> None:
    quiet = {"log_info": False, "log_warning": False, "log_error": True, "log_verbose_level": 0}
    for wanted in (quiet, quiet | {"log_info": True, "log_warning": True}):
        assert doors[at].rest("POST", "/v2/logging", wanted).json["log_info"] is wanted["log_info"]
        for door in doors:
            found = door.rest("GET", "/v2/logging").json
            assert {name: found[name] for name in wanted} == wanted
    asked = oip.LogSettingsRequest()
    asked.settings["log_verbose_level"].uint32_param = 1
    doors[at].call(f"{OIP}.LogSettings", asked, oip.LogSettingsResponse)
    assert [door.rest("GET", "/v2/logging").json["log_verbose_level"] for door in doors] == [1, 1]
    asked.settings["log_verbose_level"].uint32_param = 0
    doors[at].call(f"{OIP}.LogSettings", asked, oip.LogSettingsResponse)


@pytest.fixture
def region() -> Iterator[Any]:
    made = shm.create_shared_memory_region("region", f"/{SHARED}{token_hex(4)}", 512)
    yield made
    shm.destroy_shared_memory_region(made)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("interface", ["rest", "grpc"])
def test_shared_memory_is_registered_with_all_workers(
    doors: list[Door], region: Any, digits: Any, at: int, interface: str
) -> None:
    shm.set_shared_memory_region(region, [ROW])
    place = {"shared_memory_region": "a/region", "shared_memory_byte_size": ROW.nbytes}
    given = {"name": "pixels", "datatype": "FP32", "shape": [1, 64], "parameters": place}
    if interface == "rest":
        registering = {"key": region._shm_key, "byte_size": 512}
        path = "/v2/systemsharedmemory/region/a/region"
        assert doors[at].rest("POST", f"{path}/register", registering).status == 200
    else:
        asked = oip.SystemSharedMemoryRegisterRequest(name="a/region", key=region._shm_key, byte_size=512)
        doors[at].call(f"{OIP}.SystemSharedMemoryRegister", asked, oip.SystemSharedMemoryRegisterResponse)
    for door in doors:
        answer = door.rest("POST", "/v2/models/digits_mlp/infer", {"inputs": [given]})
        np.testing.assert_allclose(inferred(answer.json), digits([ROW])[0][0], atol=1e-6)
    if interface == "rest":
        assert doors[at].rest("POST", "/v2/systemsharedmemory/unregister").status == 200
    else:
        gone = oip.SystemSharedMemoryUnregisterRequest(name="a/region")
        doors[at].call(f"{OIP}.SystemSharedMemoryUnregister", gone, oip.SystemSharedMemoryUnregisterResponse)
    for door in doors:
        assert door.rest("POST", "/v2/models/digits_mlp/infer", {"inputs": [given]}).status == 404
