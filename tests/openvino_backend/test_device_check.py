"""What a device is told to be at fault for: that it is not there, and not that a process may have nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from inferwire_server.errors import UnfitSetting
from inferwire_server.openvino_backend.device_check import check_device

SHORT = (
    "Exception from src/plugins/auto/src/auto_schedule.cpp:439:\n"
    "[AUTO] compile model failed, CPU:Exception from src/inference/src/dev/plugin.cpp:54:\n"
    "Resource temporarily unavailable\n; \n\n\n"
)


class CoreWithoutThreads:
    """A runtime on which nothing compiles, in the words of OpenVINO's where no thread can be started."""

    def __init__(self, *devices: str) -> None:
        self.available_devices = list(devices)

    def compile_model(self, _model: object, _device: str) -> None:
        raise RuntimeError(SHORT)


def check(device: str, *devices: str) -> None:
    core: Any = CoreWithoutThreads(*devices)
    check_device(core, device)


@pytest.mark.parametrize("device", ["AUTO", "CPU", "GPU.1"])
def test_a_device_that_is_there_is_not_at_fault(device: str) -> None:
    check(device, "CPU", "GPU.0", "GPU.1")


def test_no_device_is_at_fault_where_none_is_found() -> None:
    check("XPU")


def test_of_a_device_that_is_not_there_the_reason_is_told() -> None:
    with pytest.raises(UnfitSetting) as unfit:
        check("AUTO:CPU", "CPU", "GPU")
    assert unfit.value.reason == "Resource temporarily unavailable; expected one of CPU, GPU, or AUTO"
