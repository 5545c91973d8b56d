"""Renews what is served after every change of its files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from errno import EIO
from typing import cast

import structlog

from inferwire_server.errors import is_lack_of_files

log = structlog.stdlib.get_logger()

_AGAIN_S = 10.0
"""How long to wait after a watch that failed, and between two renewals meanwhile; and after a renewal that failed for a
passing reason."""


async def for_another_watch() -> None:
    """Wait until a watch that has failed may be tried again."""
    await asyncio.sleep(_AGAIN_S)


async def follow(
    changes: Callable[[], AsyncGenerator[object, None]],
    renew: Callable[[], Awaitable[object]],
    failure: str,
    wait: Callable[[], Awaitable[object]] = for_another_watch,
) -> None:
    """Renew what is served after every change; if that fails, the log says so, and why.

    `changes` may fail, too: it is begun anew after a while, and until it tells again, what is served is renewed whether
    there was a change or not. A renewal that fails for a passing reason, for example because no more files can be
    opened, is tried again after a while. No further change may follow, and a caller that has brought such a failure
    about must not keep a key that was taken away.
    """
    told = ""
    while True:
        try:
            async with aclosing(changes()) as watch:
                async for _ in watch:
                    told = ""
                    while await _try(renew, failure):
                        await wait()
        except Exception as error:  # noqa: BLE001 - what serves serves on, and its files are read again anyway
            reason = _why(error)
            if reason != told:
                log.error("changes are not seen at once", reason=reason, looks_every_s=_AGAIN_S)
            told = reason
        await wait()
        await _try(renew, failure)


async def _try(renew: Callable[[], Awaitable[object]], failure: str) -> bool:
    """Renew, and say whether to try again though nothing changes."""
    try:
        await renew()
    except Exception as error:  # noqa: BLE001 - what serves serves on, and the next change is followed again
        log.error(failure, reason=str(error))
        return _passes(error) or _passes(error.__cause__)
    return False


def _passes(error: BaseException | None) -> bool:
    """Whether an error passes without a change of any file: no more can be opened, or a disk has failed."""
    return is_lack_of_files(error) or (isinstance(error, OSError) and error.errno == EIO)


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and (error.errno is not None or type(error) is not OSError):
        return str(error)
    if isinstance(error, ExceptionGroup):
        return "; ".join(map(str, cast("ExceptionGroup[Exception]", error).exceptions))
    # The library's own error, which it does not export, is one of these, and so is the system's limit.
    advice = "if it is the system's limit, raise fs.inotify.max_user_watches and fs.inotify.max_user_instances"
    return f"{error}; {advice}" if isinstance(error, RuntimeError | OSError) else f"{type(error).__name__}: {error}"
