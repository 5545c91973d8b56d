"""What operators call over inferwire.v1: loading, unloading and labels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from inferwire.errors import ModelFailed, ModelNotFound, PermissionDenied, ServerUnavailable
from inferwire.transport.address import parse_address
from inferwire.transport.operator_calls import OperatorCalls
from inferwire_server.settings import Settings
from inferwire_server.transport.rpc.grpc_server import GrpcServer


@pytest.fixture
def allowed() -> bool:
    return True


@pytest.fixture
def settings(tmp_path: Path, allowed: bool) -> Settings:
    return Settings(model_repository=tmp_path / "models", allow_model_control=allowed)


@pytest.fixture
def calls(grpc_server: GrpcServer) -> OperatorCalls:
    return OperatorCalls(parse_address(f"127.0.0.1:{grpc_server.port}"))


def states(calls: OperatorCalls) -> list[tuple[str, str, str]]:
    return [(each.name, each.version, each.state) for each in calls.models()]


async def test_a_model_is_unloaded_and_loaded(calls: OperatorCalls) -> None:
    def work() -> None:
        with calls:
            assert states(calls) == [("echo", "1", "ready")]
            calls.unload("echo")
            assert states(calls) == [("echo", "1", "unloaded")]
            calls.unload("nobody")
            calls.load("echo")
            assert states(calls) == [("echo", "1", "ready")]
            with pytest.raises(ModelNotFound, match="failed to load 'nobody'"):
                calls.load("nobody")

    await asyncio.to_thread(work)


async def test_a_model_that_fails_says_why(calls: OperatorCalls, settings: Settings) -> None:
    assert settings.model_repository is not None
    (settings.model_repository / "echo/inferwire.toml").write_text("slots = 0")
    with calls, pytest.raises(ModelFailed, match="slots is 0, expected a whole number from 1 up"):
        await asyncio.to_thread(calls.load, "echo")


async def test_labels_are_those_of_the_operator(calls: OperatorCalls, settings: Settings) -> None:
    def work() -> None:
        with calls:
            assert calls.labels("echo") == ()
            assert settings.model_repository is not None
            folder = settings.model_repository / "echo"
            (folder / "labels.txt").write_text("a\nb\nc\nd")
            (folder / "inferwire.toml").write_text('labels = "labels.txt"')
            calls.load("echo")
            assert calls.labels("echo", "1") == ("a", "b", "c", "d")
            assert calls.model("echo").devices == ("CPU",)
            with pytest.raises(ModelNotFound, match="'echo' version 2 is not found"):
                calls.labels("echo", "2")

    await asyncio.to_thread(work)


@pytest.mark.parametrize("allowed", [False])
async def test_it_has_to_be_allowed(calls: OperatorCalls) -> None:
    def work() -> None:
        with calls:
            for call in (calls.load, calls.unload):
                with pytest.raises(PermissionDenied, match="--allow-model-control"):
                    call("echo")

    await asyncio.to_thread(work)


async def test_a_server_that_has_gone_is_named(calls: OperatorCalls, grpc_server: GrpcServer) -> None:
    assert repr(calls) == f"<OperatorCalls 127.0.0.1:{grpc_server.port}>"
    with (
        OperatorCalls(parse_address("127.0.0.1:1")) as nobody,
        pytest.raises(ServerUnavailable, match=r"127\.0\.0\.1:1"),
    ):
        await asyncio.to_thread(nobody.models)
