"""Settings of the operator's that do not fit a model, on the real runtime: who says what, and what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openvino.opset13 as ops
import pytest
from tests.openvino_backend.small_models import parameter, saved
from tests.repository.loaded import reason_of

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.specs import Dimension
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.openvino_backend.backend import OpenVinoBackend


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """A model that gives back rows f32[?,4] of an input z, in a repository's folder `m`."""
    folder = tmp_path / "m"
    folder.mkdir()
    z: Any = parameter(BY_NAME["f32"], (-1, 4), "z")
    return saved(folder, [("y", ops.relu(z))], [z])


SHAPED = "shapes.q is [1, 4]: there is no input 'q', expected one of z"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            'device = "XPU"',
            'device is "XPU": Device with "XPU" name is not registered in the OpenVINO',
        ),
        (
            'device = "AUTO:XPU"',
            'device is "AUTO:XPU": No available device to filter AUTO plugin; exp',
        ),
        (
            '[properties]\nNOPE = "1"',
            'properties.NOPE is "1": NotFound: Unsupported property NOPE by CPU plugin.',
        ),
        (
            '[properties]\nPERF_COUNT = true\nNUM_STREAMS = "many"',
            'properties.NUM_STREAMS is "many": Could not read number of streams',
        ),
        ("[shapes]\nq = [1, 4]", SHAPED),
        ('[shapes]\nq = "any"', SHAPED.replace("[1, 4]", '"any"')),
        ("[shapes]\nz = [1, 4]\nq = [1, 4]", SHAPED),
        ("[shapes]\nz = [1, 4, 4]\n[preprocessing.z]\nmean = [1, 2]", "preprocessing.z is {"),
        (
            "[preprocessing.z]\nencoded = true",
            (
                "preprocessing.z is {\"encoded\": true}: input 'z' has shape [?,4] and is no picture, "
                "expected the dimensions of the layout NHWC"
            ),
        ),
        (
            '[preprocessing.""]\nencoded = true',
            'preprocessing is {"": {"encoded": true}}: input \'z\' has shape [?,4] and is no picture',
        ),
        (
            '[preprocessing.z]\nmodel_layout = "NCX"',
            'preprocessing.z is {"model_layout": "NCX"}: input \'z\' has shape [?,4], expected the',
        ),
        (
            "[preprocessing.q]\nmean = 1",
            "preprocessing.q is {\"mean\": 1}: there is no input 'q', exp",
        ),
        ("[warm_up]\nq = [1]", "warm_up is {\"q\": [1]}: it does not warm up: input 'q' of model"),
        (
            'labels = "missing.txt"',
            'labels is "missing.txt", expected a file that can be read: No such',
        ),
        (
            'labels = "m.txt"',
            'labels is "m.txt": there are 1 labels, expected as many as the last dim',
        ),
    ],
)
async def test_a_setting_that_does_not_fit_is_named(
    backend: OpenVinoBackend, source: Source, settings: str, reason: str
) -> None:
    folder = source.path.parent
    (folder / "inferwire.toml").write_text(settings)
    (folder / "m.txt").write_text("a")
    found = await reason_of(backend, folder.parent, ModelOptions("", "CPU"))
    assert found.startswith(f"m/inferwire.toml: {reason}")
    assert "Exception from" not in found or "preprocessing.z is" in found


async def test_a_device_of_the_servers_own_flag_is_named_by_it(backend: OpenVinoBackend, source: Source) -> None:
    found = await reason_of(backend, source.path.parent.parent, ModelOptions("", "XPU"))
    assert found == (
        "--device is 'XPU': Device with \"XPU\" name is not registered in the OpenVINO Runtime; "
        f"expected one of {', '.join(backend.devices())}, or AUTO"
    )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("NOPE", "1", "NotFound: Unsupported property NOPE by CPU plugin."),
        ("NUM_STREAMS", "many", "Could not read number of streams"),
    ],
)
async def test_a_property_of_the_servers_own_flag_is_named_by_it(
    backend: OpenVinoBackend, source: Source, name: str, value: str, reason: str
) -> None:
    found = await reason_of(backend, source.path.parent.parent, ModelOptions("", "CPU", {name: value}))
    assert found.startswith(f"--property is '{name}={value}': {reason}")


async def test_what_else_is_wrong_is_not_the_devices_fault(backend: OpenVinoBackend, source: Source) -> None:
    source.path.write_text("no model")
    (source.path.parent / "inferwire.toml").write_text('[properties]\nNOPE = "1"')
    found = await reason_of(backend, source.path.parent.parent, ModelOptions("", "AUTO:CPU"))
    assert "--device" not in found
    assert "Unable to read the model" in found


def test_callers_are_told_in_openvinos_words(backend: OpenVinoBackend, source: Source) -> None:
    shaped = Source(source.path, reshape={"q": (Dimension(1, 1),)})
    for given, device in ((shaped, "CPU"), (source, "XPU")):
        with pytest.raises(ServingError, match="Exception from") as caught:
            backend.compile(given, ModelOptions("m", device))
        assert not isinstance(caught.value, UnfitSetting)
