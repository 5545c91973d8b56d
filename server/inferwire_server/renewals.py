"""API keys and certificates that are renewed on disk while the server serves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path

import structlog

from inferwire_server.host.api_key_file import read_api_keys
from inferwire_server.host.watch import changes_of, follow
from inferwire_server.renewed_files import RenewedFiles
from inferwire_server.service import AccessService
from inferwire_server.settings import Settings
from inferwire_server.transport.tls import Tls

log = structlog.stdlib.get_logger()

_API_KEYS, _CERTIFICATE = "api_keys", "certificate"
"""What the files hold, as the metrics name it."""


def renewals(
    settings: Settings, access: AccessService, tls: Tls | None, files: RenewedFiles
) -> Iterator[Coroutine[None, None, None]]:
    """Give what follows the files that the server has, each until cancelled, and notes what has become of them."""
    if settings.api_key_file is not None:
        files.refused[_API_KEYS] = False
        yield _follow_keys(settings.api_key_file, access, files)
    if tls is not None:
        files.refused[_CERTIFICATE] = False
        files.certificate_ends_at = tls.ends_at
        yield _follow_certificate(tls, files)


async def _follow_keys(file: Path, access: AccessService, files: RenewedFiles) -> None:
    async def renew() -> None:
        with files.reading(_API_KEYS):
            keys = await asyncio.to_thread(read_api_keys, file)
        if access.renew(keys):
            log.info("API keys renewed", keys=len(keys))

    await follow(partial(changes_of, (file,)), renew, "the API keys stay as they were")


async def _follow_certificate(tls: Tls, files: RenewedFiles) -> None:
    async def renew() -> None:
        with files.reading(_CERTIFICATE):
            is_other = await asyncio.to_thread(tls.renew)
        if is_other:
            files.certificate_ends_at = tls.ends_at
            log.info("certificate renewed")

    await follow(partial(changes_of, tls.files), renew, "the certificate stays as it was")
