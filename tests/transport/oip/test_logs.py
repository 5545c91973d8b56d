"""The logging and trace extensions, as Triton's clients use them over gRPC and over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.plain_http import plain_client, with_triton
from tests.transport.conftest import plain
from tritonclient.utils import InferenceServerException

from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.settings import Settings

INFO = {
    "log_file": "",
    "log_format": "ISO8601",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
}
NO_TRACE = {
    "trace_level": ["OFF"],
    "trace_rate": ["1000"],
    "trace_count": ["-1"],
    "log_frequency": ["0"],
    "trace_file": [""],
    "trace_mode": ["triton"],
}
NO_TRACE_IN_JSON = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log from info on, and afterwards as before."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(before)


@pytest.fixture
def allowed() -> bool:
    return True


@pytest.fixture
def settings(tmp_path: Path, allowed: bool) -> Settings:
    return Settings(model_repository=tmp_path / "models", allow_log_settings=allowed)


async def test_the_settings_are_those_of_the_log_level(rpc: Any, rest_address: str) -> None:
    assert await with_triton(rest_address, lambda client: client.get_log_settings()) == INFO
    over_grpc = (await rpc.get_log_settings(as_json=True))["settings"]
    assert {name: next(iter(value.values())) for name, value in over_grpc.items()} == INFO


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({"log_verbose_level": 2}, logging.DEBUG),
        ({}, logging.INFO),
        ({"log_info": False}, logging.WARNING),
        ({"log_info": False, "log_warning": False}, logging.ERROR),
        ({"log_info": False, "log_warning": False, "log_error": False}, logging.CRITICAL + 1),
        ({"log_file": "", "log_format": "ISO8601", "log_info": None}, logging.INFO),
    ],
)
async def test_levels_are_changed(rpc: Any, rest_address: str, changes: dict[str, Any], level: int) -> None:
    given = INFO | {name: value for name, value in changes.items() if value is not None}
    given["log_verbose_level"] = int(level == logging.DEBUG)
    assert await with_triton(rest_address, lambda client: client.update_log_settings(changes)) == given
    assert logging.getLogger().level == level
    logging.getLogger().setLevel(logging.INFO)
    answer = plain(await rpc.update_log_settings(changes, as_json=True))
    assert logging.getLogger().level == level
    if changes:
        assert answer == plain(await rpc.get_log_settings(as_json=True))


BAD = [
    ({"log_warning": False}, "log setting 'log_warning' is off while 'log_info' is on, expected it on"),
    ({"log_info": False, "log_verbose_level": 1}, "log setting 'log_info' is off while 'log_verbose_level' is on"),
    ({"log_info": 1}, "log setting 'log_info' is 1, expected true or false"),
    ({"log_verbose_level": True}, "log setting 'log_verbose_level' is True, expected a whole number from 0 on"),
    ({"log_file": "/tmp/x"}, "log setting 'log_file' is '/tmp/x', which this server cannot change; expected ''"),
    ({"log_format": "default"}, "log setting 'log_format' is 'default', which this server cannot change"),
    ({"log_colour": "red"}, "log setting 'log_colour' is not known, expected one of log_file, log_format, log_info"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD)
async def test_what_cannot_be_set_is_said(
    channel: grpc.aio.Channel, rest_address: str, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InferenceServerException) as refused:
        await with_triton(rest_address, lambda client: client.update_log_settings(changes))
    assert sentence in str(refused.value)
    assert refused.value.status() == "400"
    request = pb.LogSettingsRequest()
    for name, value in changes.items():
        kind = {bool: "bool_param", int: "uint32_param", str: "string_param"}[type(value)]
        setattr(request.settings[name], kind, value)
    call: Any = channel.unary_unary("/inference.GRPCInferenceService/LogSettings")
    with pytest.raises(grpc.aio.AioRpcError) as over_grpc:
        await call(request.SerializeToString())
    assert over_grpc.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert sentence in str(over_grpc.value.details())
    assert logging.getLogger().level == logging.INFO


@pytest.mark.parametrize("allowed", [False])
async def test_the_log_is_the_operator_s_unless_it_is_allowed(rpc: Any, rest_address: str) -> None:
    with pytest.raises(InferenceServerException, match="start the server with --allow-log-settings"):
        await rpc.update_log_settings({"log_info": False})
    assert await with_triton(rest_address, lambda client: client.get_log_settings()) == INFO
    # Without any setting to change, this is how Triton's clients read them, too.
    assert await with_triton(rest_address, lambda client: client.update_log_settings({})) == INFO
    assert (await rpc.update_log_settings({})).settings["log_info"].bool_param


@pytest.mark.parametrize("model", ["", "echo"])
async def test_nothing_is_traced(rpc: Any, rest_address: str, model: str) -> None:
    assert await with_triton(rest_address, lambda client: client.get_trace_settings(model)) == NO_TRACE_IN_JSON
    over_grpc = (await rpc.get_trace_settings(model, as_json=True))["settings"]
    assert {name: value["value"] for name, value in over_grpc.items()} == NO_TRACE
    off = {"trace_level": ["OFF"], "trace_rate": "1000", "trace_count": None, "trace_file": ""}
    assert await with_triton(rest_address, lambda client: client.update_trace_settings(model, off)) == NO_TRACE_IN_JSON
    await rpc.update_trace_settings(model, off)


@pytest.mark.parametrize(
    ("model", "given", "status", "sentence"),
    [
        (
            "",
            {"trace_level": ["TIMESTAMPS"]},
            501,
            "'trace_level' is TIMESTAMPS, expected OFF: --traces alone changes what is traced",
        ),
        ("echo", {"trace_rate": "7"}, 501, "trace setting 'trace_rate' is 7, expected 1000: --traces alone changes"),
        ("", {"trace_count": "foo"}, 501, "trace setting 'trace_count' is foo, expected -1: --traces alone changes"),
        ("", {"trace_file": "/tmp/x"}, 501, "trace setting 'trace_file' is /tmp/x, expected none: --traces alone"),
        ("", {"trace_colour": "red"}, 400, "trace setting 'trace_colour' is not known, expected one of trace_level"),
        ("nope", {}, 404, "Request for unknown model: 'nope' is not found"),
    ],
)
async def test_a_trace_is_refused(
    rpc: Any, rest_address: str, model: str, given: dict[str, Any], status: int, sentence: str
) -> None:
    with pytest.raises(InferenceServerException) as refused:
        await with_triton(rest_address, lambda client: client.update_trace_settings(model, given))
    assert refused.value.status() == str(status)
    assert sentence in str(refused.value)
    with pytest.raises(InferenceServerException) as refused:
        await rpc.update_trace_settings(model, given)
    assert sentence in str(refused.value)


async def test_a_trace_setting_that_is_no_text_is_refused(rest_address: str) -> None:
    async with plain_client(base_url=f"http://{rest_address}/v2") as client:
        answer = await client.post("/trace/setting", json={"trace_rate": 1})
        assert (answer.status_code, answer.json()["error"]) == (
            400,
            "trace setting 'trace_rate' has a number, expected strings",
        )
