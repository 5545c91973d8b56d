"""The models this client has compiled, and the id that each has in the session.

Owns the rule that a model is compiled again, once, after its session was lost. The caller that compiled it says how.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from inferwire.errors import LOST, InferwireError, SessionLost
from inferwire.process import THIS
from inferwire.transport.executions import SequenceMark, Target
from inferwire.transport.link import Link
from inferwire.transport.uploads import Uploaded

Restore = Callable[[Link], tuple[str, Uploaded]]
"""Makes a model anew in the session of a link. Gives its id there, and what keeps its files there."""


@dataclass(slots=True)
class Entry:
    """A model as one session has it.

    Attributes:
        files: What keeps its files in the session, where another model may be made of them.
        restoring: Held by the thread that compiles it again.
    """

    session_id: str
    compiled_id: str
    files: Uploaded
    restore: Restore
    restoring: threading.Lock = field(default_factory=threading.Lock, repr=False)


class CompiledModels:
    """Compiled models by the id that each had first, which is the name it keeps here."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._entries: dict[str, Entry] = {}
        THIS.after_fork(self._let_go)

    def __repr__(self) -> str:
        return f"<CompiledModels: {len(self._entries)}>"

    def add(self, link: Link, compiled_id: str, files: Uploaded, restore: Restore) -> None:
        """Take in a model that was compiled in a link's session."""
        self._entries[compiled_id] = Entry(link.session_id, compiled_id, files, restore)

    def entry(self, name: str) -> Entry | None:
        """Give a model's entry, if it has one."""
        return self._entries.get(name)

    def remove(self, name: str) -> None:
        """Forget a model."""
        self._entries.pop(name, None)

    def is_on(self, name: str, link: Link) -> bool:
        """Whether the link's session has the model."""
        entry = self._entries.get(name)
        return entry is None or entry.session_id == link.session_id

    def target_on(self, link: Link, target: Target, sequence: SequenceMark | None = None) -> Target:
        """Name a model as the link's session knows it, compiling it there if it does not.

        Raises:
            SessionLost: If it cannot be compiled again, or the session that kept the sequence's states is gone.
        """
        entry = None if target.is_served else self._entries.get(target.name)
        if entry is None:
            return target
        is_going_on = sequence is not None and not sequence.is_start
        if is_going_on and entry.session_id != link.session_id:
            raise SessionLost(f"the session at {self._address} that kept them is gone")
        name = self._id_on(entry, link)
        return target if name == target.name else replace(target, name=name)

    def _let_go(self) -> None:
        """Make new locks in a forked child, where the parent's threads that may hold the old ones do not run."""
        for entry in self._entries.values():
            entry.restoring = threading.Lock()

    def _id_on(self, entry: Entry, link: Link) -> str:
        if entry.session_id != link.session_id:
            with entry.restoring:
                if entry.session_id != link.session_id:
                    self._restore(entry, link)
        return entry.compiled_id

    def _restore(self, entry: Entry, link: Link) -> None:
        try:
            entry.compiled_id, entry.files = entry.restore(link)
        except LOST:
            raise
        except (InferwireError, RuntimeError) as error:
            raise SessionLost(
                f"the session that compiled the model is gone, and compiling it again failed: {error}; "
                "compile the model anew with Core.compile_model"
            ) from error
        entry.session_id = link.session_id
