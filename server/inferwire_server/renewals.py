"""API keys and certificates that are renewed on disk while the server serves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path

import structlog

from inferwire_server.host.api_key_file import read_api_keys
from inferwire_server.host.watch import changes_of, follow
from inferwire_server.service import AccessService
from inferwire_server.settings import Settings
from inferwire_server.transport.tls import Tls

log = structlog.stdlib.get_logger()


def renewals(settings: Settings, access: AccessService, tls: Tls | None) -> Iterator[Coroutine[None, None, None]]:
    """Give what follows the files that the server has, each until cancelled."""
    if settings.api_key_file is not None:
        yield _follow_keys(settings.api_key_file, access)
    if tls is not None:
        yield _follow_certificate(tls)


async def _follow_keys(file: Path, access: AccessService) -> None:
    async def renew() -> None:
        keys = await asyncio.to_thread(read_api_keys, file)
        if access.renew(keys):
            log.info("API keys renewed", keys=len(keys))

    await follow(partial(changes_of, (file,)), renew, "the API keys stay as they were")


async def _follow_certificate(tls: Tls) -> None:
    async def renew() -> None:
        if await asyncio.to_thread(tls.renew):
            log.info("certificate renewed")

    await follow(partial(changes_of, tls.files), renew, "the certificate stays as it was")
