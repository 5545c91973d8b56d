"""Settings that cannot be served together: the errors of all of them are reported at once."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from inferwire_server import from_settings
from inferwire_server.engine.fake_backend import FakeBackend
from inferwire_server.errors import ServingError
from inferwire_server.from_settings import check, keeping_terms, most_queued_bytes
from inferwire_server.host.machine import memory_bytes
from inferwire_server.server import serve
from inferwire_server.settings import Settings
from inferwire_server.workers.processes import Workers
from inferwire_server.workers.role import Alone

FILE = Path("file")
CONTRADICTIONS = [
    (
        Settings(config=FILE, model_repository=FILE),
        (
            "--config and --model-repository are both set, expected one: each says what is served; a variable of the "
            "environment, as INFERWIRE_MODEL_REPOSITORY, does not count if it is empty"
        ),
    ),
    (
        Settings(config=FILE, models=("m=file",), model_repository=FILE),
        (
            "--config and --model and --model-repository are all set, expected one: each says what is served; a "
            "variable of the environment, as INFERWIRE_MODEL_REPOSITORY, does not count if it is empty"
        ),
    ),
    *((Settings(models=(pair,)), f"--model is '{pair}', expected NAME=PATH") for pair in ("models/m", "m=", "=m", "")),
    (Settings(models=("m=a", "m=b")), "--model names 'm' twice, expected a name for each model"),
    (
        Settings(allow_imports=True),
        "--allow-imports is set without --allow-uploads, which it needs: a blob is uploaded first",
    ),
    (Settings(host=""), "--host is empty, expected an address, which for all interfaces is 0.0.0.0"),
    (Settings(http_port=9000, grpc_port=9000), "--http-port and --grpc-port are both 9000, expected two ports"),
    (
        Settings(tls_certificate=FILE),
        "--tls-key is not given, but the other is, expected both: a certificate and its key",
    ),
    (
        Settings(tls_key=FILE),
        "--tls-certificate is not given, but the other is, expected both: a certificate and its key",
    ),
    (
        Settings(workers=2, max_http_body_mb=8, max_grpc_message_mb=8),
        (
            "--max-http-body-mb is 8, expected less than --max-grpc-message-mb, which is 8: with --workers a body may "
            "have to go from one worker to another"
        ),
    ),
    (
        Settings(max_batch=4, properties=("INFERWIRE_MAX_BATCH=8",)),
        "--max-batch and --property INFERWIRE_MAX_BATCH are both set, expected one: they say the same",
    ),
    *(
        (
            Settings(allow_origins=("*", "capacitor://localhost", origin)),
            f"--allow-origin is '{origin}', expected an origin as browsers say it, https://app.example:8443, or *",
        )
        for origin in ("app.example", "https://app.example/", "https://App.example", "https://app.example/page", "")
    ),
    (Settings(properties=("A",)), "--property is 'A', expected NAME=VALUE"),
    (
        Settings(properties=("INFERWIRE_MAX_BATCH=many",)),
        "property INFERWIRE_MAX_BATCH is 'many', expected a whole number from 0 up to 2147483647",
    ),
    (
        Settings(max_batch=4, properties=("INFERWIRE_PREFERRED_BATCHES=2,8",)),
        "property INFERWIRE_PREFERRED_BATCHES: a preferred batch is 8 rows, expected 1 to 4",
    ),
    (
        Settings(version_policy="new"),
        "the version policy is 'new', expected latest, latest:2 (a number from 1 up), all, or versions such as 1,3",
    ),
]


def test_workers_for_which_there_is_no_memory_are_refused() -> None:
    most = memory_bytes() // (80 << 20)
    check(Settings(workers=most))
    sentence = f"^--workers is {most + 1}, expected at most {most}: each process takes 80 MiB of memory and more for"
    with pytest.RaisesGroup(pytest.RaisesExc(ServingError, match=sentence)):
        check(Settings(workers=most + 1))


@pytest.mark.parametrize(("settings", "sentence"), CONTRADICTIONS)
def test_a_contradiction_is_told(settings: Settings, sentence: str) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ServingError, match=f"^{re.escape(sentence)}$")):
        check(settings)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(http_port=0, grpc_port=0),
        Settings(tls_certificate=FILE, tls_key=FILE),
        Settings(allow_imports=True, allow_uploads=True),
        Settings(max_http_body_mb=8, max_grpc_message_mb=8),
        Settings(max_batch=4, properties=("INFERWIRE_MAX_BATCH_DELAY_US=100",)),
        Settings(properties=("INFERWIRE_MAX_BATCH_DELAY_US=100", "INFERWIRE_PREFERRED_BATCHES=2,8")),
        Settings(max_batch=0, properties=("INFERWIRE_PREFERRED_BATCHES=2,8",)),
    ],
)
def test_what_goes_together_is_let_be(settings: Settings) -> None:
    check(settings)


async def test_all_are_told_at_once_and_before_anything_else_is_looked_at() -> None:
    class Untouched(FakeBackend):
        def devices(self) -> tuple[str, ...]:
            raise AssertionError("the devices are listed only for settings that can be served")

    settings = Settings(
        model_repository=Path("nowhere"), config=FILE, tls_key=FILE, allow_imports=True, properties=("A",)
    )
    with pytest.RaisesGroup(*[ServingError] * 4):
        await serve(settings, Untouched(), asyncio.Event(), Workers(), Alone())


def test_the_inputs_of_waiting_jobs_take_a_quarter_of_the_memory_of_all_workers_or_what_is_said_of_each() -> None:
    assert most_queued_bytes(Settings(workers=2)) == memory_bytes() // 8
    assert most_queued_bytes(Settings(workers=2, max_queued_mb=3)) == 3 << 20


@pytest.mark.parametrize(("memory_mb", "most_mb"), [(64 << 10, 1024), (8 << 10, 1024), (1 << 10, 128)])
def test_results_take_an_eighth_of_the_memory_of_all_workers_and_a_gibibyte_at_most(
    monkeypatch: pytest.MonkeyPatch, memory_mb: int, most_mb: int
) -> None:
    monkeypatch.setattr(from_settings, "memory_bytes", lambda: memory_mb << 20)
    assert keeping_terms(Settings()).most_bytes == most_mb << 20
    assert keeping_terms(Settings(workers=2)).most_bytes == most_mb << 19
    assert keeping_terms(Settings(workers=2, max_kept_results_mb=3)).most_bytes == 3 << 20
