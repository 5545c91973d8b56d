"""API keys and certificates that are renewed on disk while the server serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import structlog

from inferwire_server.host.api_key_file import read_api_keys
from inferwire_server.host.watch import changes_of, follow
from inferwire_server.service import AccessService
from inferwire_server.service.renewed_files import RenewedFiles
from inferwire_server.settings import Settings
from inferwire_server.transport.tls import Tls

log = structlog.stdlib.get_logger()


def renewals(
    settings: Settings, access: AccessService, tls: Tls | None, files: RenewedFiles
) -> Iterator[Coroutine[None, None, None]]:
    """Give what follows the files that the server has, each until cancelled, and notes what has become of them."""
    if settings.api_key_file is not None:
        yield _follow_keys(settings.api_key_file, access, _noting("api_keys", files))
    if tls is not None:
        files.certificate_ends_at = tls.ends_at
        yield _follow_certificate(tls, files, _noting("certificate", files))


_Noting: TypeAlias = Callable[[Callable[[], Awaitable[None]]], Callable[[], Awaitable[None]]]


def _noting(what: str, files: RenewedFiles) -> _Noting:
    """Have it noted of each renewal whether the files were refused."""
    files.refused[what] = False

    def noting(renew: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def noted() -> None:
            try:
                await renew()
            except Exception:
                files.refused[what] = True
                raise
            files.refused[what] = False

        return noted

    return noting


async def _follow_keys(file: Path, access: AccessService, noting: _Noting) -> None:
    @noting
    async def renew() -> None:
        keys = await asyncio.to_thread(read_api_keys, file)
        if access.renew(keys):
            log.info("API keys renewed", keys=len(keys))

    await follow(partial(changes_of, (file,)), renew, "the API keys stay as they were")


async def _follow_certificate(tls: Tls, files: RenewedFiles, noting: _Noting) -> None:
    @noting
    async def renew() -> None:
        if await asyncio.to_thread(tls.renew):
            files.certificate_ends_at = tls.ends_at
            log.info("certificate renewed")

    await follow(partial(changes_of, tls.files), renew, "the certificate stays as it was")
