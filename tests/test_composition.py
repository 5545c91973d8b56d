"""What is built behind the sockets, and what is logged of it."""

from __future__ import annotations

from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import pytest
from structlog.testing import capture_logs

from inferwire_server.composition import compose
from inferwire_server.crew import Crew
from inferwire_server.engine.fake_backend import FakeBackend
from inferwire_server.errors import ServingError
from inferwire_server.settings import Settings


@pytest.mark.parametrize("flag", ["model_repository", "config"])
async def test_the_log_names_what_is_read_before_it_is(tmp_path: Path, flag: str) -> None:
    settings = Settings(**{flag: tmp_path / "gone"})  # pyright: ignore[reportArgumentType]
    with capture_logs() as logged, pytest.raises(ServingError, match="gone"):
        async with compose(settings, FakeBackend({})):
            pass
    assert logged == [{"event": "reading the models", "source": f"{tmp_path}/gone", "log_level": "info"}]


async def test_the_log_says_nothing_of_models_where_there_is_nothing_to_read() -> None:
    with capture_logs() as logged:
        async with compose(Settings(allow_uploads=True), FakeBackend({})) as composition:
            assert not composition.catalogue.statuses()
    # The server may also log that it removed files that killed servers have left on this machine.
    assert [line for line in logged if "models" in line["event"]] == []


@pytest.mark.parametrize(("worker", "told"), [(0, ["drafts"]), (1, [])])
async def test_the_first_worker_alone_warns_of_folders_without_models(
    tmp_path: Path, worker: int, told: list[str]
) -> None:
    (tmp_path / "drafts").mkdir()
    with capture_logs() as logged:
        async with compose(Settings(model_repository=tmp_path), FakeBackend({}), crew=Crew(worker, 2)) as composition:
            await composition.loader.sync()
    assert [line["folder"] for line in logged if line["event"] == "passed over"] == told


async def test_metrics_are_there_though_no_more_files_can_be_opened() -> None:
    async with compose(Settings(allow_uploads=True), FakeBackend({})) as composition:
        before = await composition.metrics.text()
        soft, hard = getrlimit(RLIMIT_NOFILE)
        setrlimit(RLIMIT_NOFILE, (0, hard))
        try:
            text = await composition.metrics.text()
        finally:
            setrlimit(RLIMIT_NOFILE, (soft, hard))
    for found in (before, text):
        assert b"inferwire_build_info{" in found
