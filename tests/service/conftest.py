"""The whole server without sockets, on a loop whose time a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from inferwire_server.engine.fake_backend import FakeBackend, FakeModel
from inferwire_server.server import Composition, compose
from inferwire_server.settings import Settings

ComposeFakes = Callable[..., AbstractAsyncContextManager[Composition]]


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop whose time jumps when a test tells it to."""

    leapt_s = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._timers: WeakSet[asyncio.TimerHandle] = WeakSet()

    def timers_after(self, seconds: float) -> int:
        """Count the timers that are due in more than so many seconds."""
        return sum(not timer.cancelled() and timer.when() > self.time() + seconds for timer in self._timers)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer, and take note of it."""
        timer = super().call_at(when, callback, *args, context=context)
        self._timers.add(timer)
        return timer

    def time(self) -> float:
        """Give the time with all leaps."""
        return super().time() + self.leapt_s


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of this folder on a loop that leaps."""
    return {"leaping": LeapingLoop}


@pytest.fixture
async def leap() -> Callable[[float], None]:
    """Move the loop's time on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)

    def move(seconds: float) -> None:
        loop.leapt_s += seconds

    return move


@pytest.fixture
def serving(tmp_path: Path) -> ComposeFakes:
    """Compose a server of fake models, loaded and ready."""

    @asynccontextmanager
    async def composed(
        *models: FakeModel, broken: tuple[str, ...] = (), **settings: object
    ) -> AsyncGenerator[Composition, None]:
        for name in (*(model.spec.name for model in models), *broken):
            version = tmp_path / name / "1"
            version.mkdir(parents=True)
            (version / "model.onnx").touch()
        backend = FakeBackend({model.spec.name: model for model in models})
        chosen = Settings(model_repository=tmp_path, **settings)  # pyright: ignore[reportArgumentType]
        async with compose(chosen, backend, asyncio.get_running_loop().time) as composition:
            await composition.loader.sync()
            composition.services.health.begin()
            yield composition

    return composed
