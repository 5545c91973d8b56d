"""API keys and certificates that are renewed on disk while the server serves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import time

import structlog

from inferwire_server.host.api_key_file import read_api_keys
from inferwire_server.host.follow import follow
from inferwire_server.host.watch import changes_of
from inferwire_server.service import AccessService
from inferwire_server.settings import Settings
from inferwire_server.transport.tls import Tls

log = structlog.stdlib.get_logger()

_API_KEYS, _CERTIFICATE = "api_keys", "certificate"
"""What the files hold, as the metrics name it."""


class Renewals:
    """Reads keys and certificates again when their files change, and knows whether that has failed.

    Attributes:
        refused: Whether the files that are there now cannot be used, so that what was read before goes on; by what the
            files hold.
    """

    def __init__(self, settings: Settings, access: AccessService, tls: Tls | None) -> None:
        self._key_file = settings.api_key_file
        self._access = access
        self._tls = tls
        present = {_API_KEYS: self._key_file is not None, _CERTIFICATE: tls is not None}
        self.refused = {what: False for what, is_there in present.items() if is_there}

    def __repr__(self) -> str:
        return f"<Renewals of {', '.join(self.refused) or 'nothing'}>"

    @property
    def certificate_ends_at(self) -> float | None:
        """When the certificate that is shown ends, in seconds since the epoch; None if nothing says so."""
        return None if self._tls is None else self._tls.ends_at

    def follow(self) -> Iterator[Coroutine[None, None, None]]:
        """Give a coroutine for each file or pair of files, which follows its changes until cancelled."""
        if self._key_file is not None:
            changes, renew = partial(changes_of, (self._key_file,)), partial(self._renew_keys, self._key_file)
            yield follow(changes, renew, "the API keys stay as they were")
        if self._tls is not None:
            changes, renew = partial(changes_of, self._tls.files), partial(self._renew_certificate, self._tls)
            yield follow(changes, renew, "the certificate stays as it was")

    async def _renew_keys(self, file: Path) -> None:
        with self._reading(_API_KEYS):
            keys = await asyncio.to_thread(read_api_keys, file)
        if self._access.renew(keys):
            log.info("API keys renewed", keys=len(keys))

    async def _renew_certificate(self, tls: Tls) -> None:
        with self._reading(_CERTIFICATE):
            is_other = await asyncio.to_thread(tls.renew)
        if is_other:
            log.info("certificate renewed")
        ends_at = tls.ends_at
        if ends_at is not None and ends_at < time():
            log.warning("the certificate has ended", ended_at=datetime.fromtimestamp(ends_at, UTC).isoformat())

    @contextmanager
    def _reading(self, what: str) -> Generator[None]:
        """Record whether files are refused: they are if reading them raises."""
        try:
            yield
        except Exception:
            self.refused[what] = True
            raise
        self.refused[what] = False
