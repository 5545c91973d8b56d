"""What the repository serves: every model by name and version, loaded or not, and why.

It finds and remembers; loading and unloading are the loader's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from inferwire_proto.errors import Code
from inferwire_server.core.version_states import VersionState
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.repository.entries import Entry, Fingerprint


@dataclass(frozen=True, slots=True)
class Served:
    """One version of a served model.

    Attributes:
        reason: Why its last reload failed, until one succeeds; else why it failed, or was unloaded.
        model: What takes its jobs, while it is ready or unloaded until the next job.
        loaded_from: The files of what takes its jobs.
        tried: The files of its last load, successful or not: until they change it is not due again.
        reload_failed: Whether it could not be loaded anew, and what takes jobs is what was loaded before.
        is_gone: Whether it is gone from the repository, and is to be forgotten after its last job.
    """

    name: str
    version: str
    state: VersionState = VersionState.LOADING
    reason: str = ""
    model: Model | None = None
    loaded_from: Fingerprint | None = None
    tried: Fingerprint | None = None
    reload_failed: bool = False
    is_gone: bool = False

    def begins(self) -> Served:
        """Give the version as being loaded; a model that serves it goes on serving."""
        return self if self.takes_jobs else Served(self.name, self.version, tried=self.tried)

    def warms(self) -> Served:
        """Give the version as warming up; a model that serves it goes on serving."""
        return self if self.takes_jobs else self._without_model(VersionState.WARMING)

    def serves(self, model: Model, files: Fingerprint) -> Served:
        """Give the version as served by this model, which was loaded from these files."""
        return Served(self.name, self.version, self.state.become(VersionState.READY), "", model, files, files)

    def fails(self, reason: str, files: Fingerprint | None = None) -> Served:
        """Give the version after a failed load; with `files` it is not due again until they change."""
        tried = self.tried if files is None else files
        if self.takes_jobs:
            return replace(self, reason=f"the reload failed: {reason}", tried=tried, reload_failed=True)
        return replace(self._without_model(VersionState.FAILED, reason), tried=tried)

    def drains(self, *, is_gone: bool = False) -> Served:
        """Give the version as taking no more jobs. One that has left the repository is loaded again once it is back."""
        draining = self._without_model(VersionState.DRAINING)
        return replace(draining, tried=None, is_gone=True) if is_gone else draining

    def unloads(self) -> Served:
        """Give the version with nothing left in memory."""
        return self._without_model(VersionState.UNLOADED)

    def unloads_as_idle(self, reason: str) -> Served:
        """Give the version unloaded until its next job."""
        return self._with_model(VersionState.UNLOADED, reason)

    def loads_again(self) -> Served:
        """Give the version loaded again for a job."""
        return self._with_model(VersionState.READY, "")

    @property
    def takes_jobs(self) -> bool:
        """Whether it takes inferences: it is loaded, or its next job loads it."""
        return self.model is not None

    @property
    def load_failed(self) -> bool:
        """Whether its last load failed, even if the model from before goes on taking jobs."""
        return self.state is VersionState.FAILED or self.reload_failed

    def require(self) -> Model:
        """Give the model that takes jobs.

        Raises:
            ServingError: MODEL_FAILED or MODEL_NOT_READY, by its state.
        """
        if self.model is not None:
            return self.model
        if self.state is VersionState.FAILED:
            raise ServingError(Code.MODEL_FAILED, f"failed to load '{self.name}' version {self.version}: {self.reason}")
        raise ServingError(
            Code.MODEL_NOT_READY,
            f"model '{self.name}' version {self.version} is {self.state.value}",
            retry_after_s=1.0 if self.state.is_passing else None,
        )

    def _with_model(self, state: VersionState, reason: str) -> Served:
        return replace(self, state=self.state.become(state), reason=self.reason if self.reload_failed else reason)

    def _without_model(self, state: VersionState, reason: str = "") -> Served:
        return Served(self.name, self.version, self.state.become(state), reason, tried=self.tried)


class Catalogue:
    """The served models."""

    def __init__(self) -> None:
        self._served: dict[str, dict[str, Served]] = {}
        self._current: dict[str, Served] = {}
        self._subscribers: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        statuses = self.statuses()
        ready = sum(served.state is VersionState.READY for served in statuses)
        return f"<Catalogue: {ready}/{len(statuses)} versions ready>"

    @property
    def has_failed(self) -> bool:
        """Whether a model has failed to load and has no version that is ready."""
        failed = {served.name for served in self.statuses() if served.state is VersionState.FAILED}
        return any(not self.versions(name) for name in failed)

    @property
    def names(self) -> frozenset[str]:
        """The names of the models."""
        return frozenset(self._served)

    def statuses(self) -> list[Served]:
        """List every version of every model, by name, then by version."""
        return [served for name in sorted(self._served) for served in self.of(name)]

    def of(self, name: str) -> list[Served]:
        """List the versions of a model, lowest first; none of one that is not known."""
        return sorted(self._served.get(name, {}).values(), key=lambda served: int(served.version))

    def get(self, name: str, version: str) -> Served | None:
        """Give a version of a model, if it is known."""
        return self._served.get(name, {}).get(version)

    def current(self, name: str) -> Served | None:
        """Give the version for callers that name none: the highest that takes jobs, else the highest."""
        return self._current.get(name)

    def find(self, name: str, version: str = "") -> Served:
        """Give a version of a model: the one named, or the current one.

        Raises:
            ServingError: MODEL_NOT_FOUND, or INVALID_INPUT for a version that is no number.
        """
        versions = self._served.get(name)
        if versions is None:
            raise ServingError(Code.MODEL_NOT_FOUND, f"Request for unknown model: '{name}' is not found")
        if not version:
            return self._current[name]
        if not (version.isascii() and version.isdigit()):
            raise invalid_input(f"failed to get model version from specified version string '{version}'")
        found = versions.get(version.lstrip("0") or "0")
        if found is None:
            raise ServingError(
                Code.MODEL_NOT_FOUND, f"Request for unknown model: '{name}' version {version} is not found"
            )
        return found

    def versions(self, name: str) -> tuple[str, ...]:
        """Give the versions of a model that take jobs, lowest first."""
        return tuple(served.version for served in self.of(name) if served.takes_jobs)

    def tried(self, name: str) -> dict[str, Fingerprint]:
        """Give, by version, the fingerprint of the last load of a model, whether it succeeded or failed."""
        return {served.version: served.tried for served in self.of(name) if served.tried is not None}

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Have this called after every change."""
        self._subscribers.append(on_change)

    def expect(self, entries: Iterable[Entry]) -> None:
        """Name what is going to be loaded, so that it is known as loading from now on."""
        for entry in entries:
            if self.get(entry.name, entry.version) is None:
                self.put(Served(entry.name, entry.version))

    def put(self, served: Served) -> None:
        """Record what a version is now."""
        self._served.setdefault(served.name, {})[served.version] = served
        self._changed(served.name)

    def forget(self, served: Served) -> None:
        """Drop a version that is gone from the repository."""
        versions = self._served[served.name]
        del versions[served.version]
        if not versions:
            del self._served[served.name]
        self._changed(served.name)

    def _changed(self, name: str) -> None:
        versions = self._served.get(name)
        if versions is None:
            self._current.pop(name, None)
        else:
            self._current[name] = max(versions.values(), key=lambda served: (served.takes_jobs, int(served.version)))
        for on_change in self._subscribers:
            on_change()
