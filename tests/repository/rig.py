"""A loader over a folder that a test writes, on a backend that behaves as the files tell it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.waiting import LIMIT_S

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.core.versions import Latest
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.repository.catalogue import Catalogue
from inferwire_server.repository.entries import Entry
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.listing import Overrides
from inferwire_server.repository.loader import Loader
from inferwire_server.tallies import Tallies

ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))


class ScriptedBackend(FakeBackend):
    """Compiles as the model's file tells it to, when its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.running = Gate()
        self.compiled = 0
        self.ran: list[Tensor] = []

    def compile(self, source: Source, options: ModelOptions) -> FakeModel:
        self.gate.pass_through(lambda: False)
        content = source.path.read_text()
        if content == "odd":
            raise KeyError("an error no runtime should raise")
        if content == "broken":
            raise ServingError(Code.MODEL_FAILED, "it is broken")
        self.compiled += 1
        return FakeModel(echo_spec(options.name), self._compute, self.running)

    def _compute(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        self.ran.extend(inputs)
        return tuple(inputs)


@dataclass
class Rig:
    """A loader over a folder that a test writes."""

    root: Path
    backend: ScriptedBackend
    engine: Engine
    catalogue: Catalogue
    loader: Loader
    times: count[int] = field(default_factory=lambda: count(1))

    def write(self, name: str, content: str = "", version: int = 1) -> None:
        folder = self.root / name / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_text(content + " " * next(self.times) if content not in KINDS else content)

    def remove(self, name: str, version: int = 1) -> None:
        (self.root / name / str(version) / "model.onnx").unlink()
        (self.root / name / str(version)).rmdir()

    def states(self) -> dict[str, str]:
        return {f"{served.name}/{served.version}": served.state.value for served in self.catalogue.statuses()}

    def submit(self, name: str = "m") -> tuple[Job, asyncio.Future[Job]]:
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        model = self.catalogue.find(name).require()
        job = self.engine.submit(model, Submission(Work((ROW,), (0,))), end.set_result)
        return job, end

    def refusal(self, name: str, version: str = "") -> tuple[Code, str]:
        with pytest.raises(ServingError) as caught:
            self.catalogue.find(name, version).require()
        return caught.value.code, caught.value.message


KINDS = ("broken", "odd")


Scan = Callable[[Overrides, str | None], list[Entry]]


@asynccontextmanager
async def a_rig(root: Path, *names: str, scan: Scan | None = None) -> AsyncGenerator[Rig, None]:
    backend, catalogue = ScriptedBackend(), Catalogue()
    scan = scan or Repository(root, Latest()).served
    with capture_logs():
        async with (
            Engine(backend, QueueOptions(), Tallies().of) as engine,
            Loader(engine, catalogue, scan, ModelOptions("", slots=2)) as loader,
        ):
            rig = Rig(root, backend, engine, catalogue, loader)
            for name in names:
                rig.write(name)
            yield rig
            backend.gate.open()
            backend.running.open()


async def settled(rig: Rig, states: dict[str, str]) -> None:
    """Wait until the catalogue has these states."""
    changed = asyncio.Event()
    rig.catalogue.subscribe(changed.set)
    async with asyncio.timeout(LIMIT_S):
        while rig.states() != states:
            await changed.wait()
            changed.clear()
