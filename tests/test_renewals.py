"""What operators see of files that are renewed: until when the certificate is good, and which files are refused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from tests.certificates import Authority, Issued
from tests.transport.key_kinds import KEYS_FOR_GRPC, certificate_for
from tests.waiting import until

from inferwire_server.engine.fake_backend import FakeBackend
from inferwire_server.metrics.server import of_renewals
from inferwire_server.renewals import Renewals
from inferwire_server.server import Composition, compose
from inferwire_server.settings import Settings
from inferwire_server.transport.tls import Tls

KEY = "the-key-of-the-tests"


def renewals_of(server: Composition, settings: Settings, tls: Tls | None) -> Renewals:
    """Make the renewals as a server does, whose metrics show them."""
    renewals = Renewals(settings, server.services.access, tls)
    server.metrics.add(lambda: of_renewals(renewals.refused, renewals.certificate_ends_at))
    return renewals


def shown(server: Composition) -> dict[str, float]:
    """Give the metrics that are about files."""
    families = text_string_to_metric_families(server.metrics.scrape().text().decode())
    return {
        sample.labels.get("file", sample.name): sample.value
        for family in families
        for sample in family.samples
        if sample.name in {"inferwire_renewal_refused", "inferwire_certificate_expiration_timestamp_seconds"}
    }


def write(files: Issued, end: datetime) -> None:
    """Write a certificate that ends then, and its key."""
    key = KEYS_FOR_GRPC["ECDSA P-256"]()
    files.certificate.write_bytes(certificate_for(key, end=end).public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def end_of(certificate: Path) -> float:
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()


async def test_a_server_without_such_files_says_nothing_of_them() -> None:
    async with compose(Settings(), FakeBackend({})) as server:
        renewals = renewals_of(server, Settings(), None)
        assert list(renewals.follow()) == []
        assert shown(server) == {}
        assert repr(renewals) == "<Renewals of nothing>"


@pytest.mark.parametrize("refused", ["certificate", "api_keys"])
async def test_files_that_cannot_be_used_are_seen_until_they_can(tmp_path: Path, refused: str) -> None:
    authority, keys = Authority(tmp_path), tmp_path / "keys"
    issued = authority.issue()
    keys.write_text(KEY)
    settings = Settings(api_key_file=keys)
    good = {"certificate": 0, "api_keys": 0}
    name = "inferwire_certificate_expiration_timestamp_seconds"
    file = {"certificate": issued.certificate, "api_keys": keys}[refused]
    with capture_logs():
        async with compose(settings, FakeBackend({})) as server, asyncio.TaskGroup() as group:
            renewals = renewals_of(server, settings, Tls(issued.certificate, issued.key))
            tasks = [group.create_task(each) for each in renewals.follow()]
            before = end_of(issued.certificate)
            assert shown(server) == good | {name: before}
            content = file.read_bytes()
            file.write_bytes(b"short")
            await until(lambda: shown(server) == good | {refused: 1, name: before})
            file.write_bytes(content)
            await until(lambda: shown(server) == good | {name: before})
            end = datetime(2040, 1, 1, tzinfo=UTC)
            write(issued, end)
            await until(lambda: shown(server) == good | {name: end.timestamp()})
            for task in tasks:
                task.cancel()


async def test_a_certificate_that_has_ended_is_warned_of_at_the_start_and_when_it_takes_the_place_of_a_good_one(
    tmp_path: Path,
) -> None:
    files = Issued(tmp_path / "server.pem", tmp_path / "server.key")
    now = datetime.now(UTC).replace(microsecond=0)
    ended, good = now - timedelta(hours=1), now + timedelta(hours=1)
    write(files, ended)
    said: list[str] = []
    with capture_logs() as logs:
        async with compose(Settings(), FakeBackend({})) as server, asyncio.TaskGroup() as group:
            renewals = renewals_of(server, Settings(), Tls(files.certificate, files.key))
            tasks = [group.create_task(each) for each in renewals.follow()]
            for end, event in ((good, "certificate renewed"), (ended, "the certificate has ended")):
                await until(lambda: logs)
                said += [line["event"] for line in logs]
                logs.clear()
                write(files, end)
                await until(lambda event=event: logs and logs[-1]["event"] == event)
            for task in tasks:
                task.cancel()
    assert said == ["the certificate has ended", "certificate renewed"]
    assert logs[-1]["ended_at"] == ended.isoformat()
