"""The served models by name and version, and what is said of those that take no jobs."""

from __future__ import annotations

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.scheduling.scheduler import Scheduler
from inferwire_server.engine.device import Device
from inferwire_server.engine.fake_backend import FakeModel, echo_spec
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError
from inferwire_server.repository.catalogue import Catalogue, Served
from inferwire_server.tallies import Tallies

FILES = frozenset({("model.onnx", 1, 2, 3)})


def a_catalogue(*versions: str) -> Catalogue:
    catalogue = Catalogue()
    for version in versions:
        catalogue.put(Served("m", version))
    return catalogue


def ready(catalogue: Catalogue, version: str) -> Model:
    device = Device("CPU", Scheduler(1), Tallies().of)
    model = Model(FakeModel(echo_spec("m")), device, 1, ModelOptions("m"), version)
    catalogue.put(catalogue.find("m", version).serves(model, FILES))
    return model


def refusal(catalogue: Catalogue, name: str, version: str = "") -> tuple[Code, str]:
    with pytest.raises(ServingError) as caught:
        catalogue.find(name, version).require()
    return caught.value.code, caught.value.message


async def test_versions_are_found_by_number_and_the_highest_ready_one_without() -> None:
    catalogue = a_catalogue("11", "9", "10")
    ready(catalogue, "9")
    model = ready(catalogue, "10")
    assert catalogue.find("m").version == "10"
    assert catalogue.find("m").require() is model
    assert [catalogue.find("m", version).version for version in ("9", "09", "10", "11")] == ["9", "9", "10", "11"]
    assert catalogue.versions("m") == ("9", "10")
    assert [served.version for served in catalogue.statuses()] == ["9", "10", "11"]
    assert repr(catalogue) == "<Catalogue: 2/3 versions ready>"


def test_the_highest_version_stands_for_a_model_none_of_which_is_ready() -> None:
    catalogue = a_catalogue("2", "10")
    assert catalogue.find("m").version == "10"
    assert catalogue.versions("m") == ()


def test_version_zero_is_a_version() -> None:
    assert a_catalogue("0").find("m", "00").version == "0"


@pytest.mark.parametrize(
    ("name", "version", "code", "message"),
    [
        ("x", "", Code.MODEL_NOT_FOUND, "Request for unknown model: 'x' is not found"),
        ("m", "2", Code.MODEL_NOT_FOUND, "Request for unknown model: 'm' version 2 is not found"),
        ("m", "v1", Code.INVALID_INPUT, "failed to get model version from specified version string 'v1'"),
        ("m", "-1", Code.INVALID_INPUT, "failed to get model version from specified version string '-1'"),
        ("m", "²", Code.INVALID_INPUT, "failed to get model version from specified version string '²'"),
        ("m", "9" * 5000, Code.MODEL_NOT_FOUND, f"Request for unknown model: 'm' version {'9' * 5000} is not found"),
    ],
)
def test_what_is_not_there_is_named(name: str, version: str, code: Code, message: str) -> None:
    assert refusal(a_catalogue("1"), name, version) == (code, message)


NEW = Served("m", "1")


@pytest.mark.parametrize(
    ("served", "code", "message", "retry_after_s"),
    [
        (NEW.begins(), Code.MODEL_NOT_READY, "model 'm' version 1 is loading", 1.0),
        (NEW.warms(), Code.MODEL_NOT_READY, "model 'm' version 1 is warming", 1.0),
        (NEW.fails("because"), Code.MODEL_FAILED, "failed to load 'm' version 1: because", None),
        (NEW.fails("because").unloads(), Code.MODEL_NOT_READY, "model 'm' version 1 is unloaded", None),
    ],
)
def test_a_version_that_takes_no_jobs_says_why(
    served: Served, code: Code, message: str, retry_after_s: float | None
) -> None:
    with pytest.raises(ServingError) as caught:
        served.require()
    assert (caught.value.code, caught.value.message, caught.value.retry_after_s) == (code, message, retry_after_s)


async def test_a_version_that_drains_says_so() -> None:
    catalogue = a_catalogue("1")
    ready(catalogue, "1")
    catalogue.put(catalogue.find("m").drains())
    assert refusal(catalogue, "m") == (Code.MODEL_NOT_READY, "model 'm' version 1 is draining")


def test_nobody_has_versions_of_an_unknown_model() -> None:
    assert a_catalogue().versions("x") == ()
    assert a_catalogue().of("x") == []
    assert a_catalogue().get("x", "1") is None


def test_a_model_without_versions_is_forgotten_and_every_change_is_told() -> None:
    catalogue = a_catalogue("1", "2")
    told: list[int] = []
    catalogue.subscribe(lambda: told.append(len(catalogue.statuses())))
    catalogue.forget(catalogue.find("m", "1"))
    assert catalogue.names == {"m"}
    catalogue.forget(catalogue.find("m", "2"))
    assert catalogue.names == frozenset()
    catalogue.put(Served("n", "1"))
    assert told == [1, 0, 1]
