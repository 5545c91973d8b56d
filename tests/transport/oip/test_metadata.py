"""What is said of models of which several versions are served, over both interfaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.plain_http import plain_client

from inferwire_server.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "models" / "echo"
    (folder / "3").mkdir(parents=True)
    (folder / "3" / "model.onnx").touch()
    (folder / "inferwire.toml").write_text('version_policy = "all"')
    return Settings(model_repository=tmp_path / "models")


@pytest.mark.parametrize(("version", "expected"), [("", ["1", "3"]), ("1", ["1"]), ("03", ["3"])])
async def test_the_version_that_is_asked_for_is_listed_alone(
    rpc: Any, rest_address: str, version: str, expected: list[str]
) -> None:
    path = f"/v2/models/echo/versions/{version}" if version else "/v2/models/echo"
    async with plain_client(base_url=f"http://{rest_address}") as client:
        assert (await client.get(path)).json()["versions"] == expected
    assert list((await rpc.get_model_metadata("echo", version)).versions) == expected
