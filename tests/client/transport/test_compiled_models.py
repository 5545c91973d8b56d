"""Models that are compiled again in a new session: each once, and none behind another."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tests.daemon_threads import DaemonThreads
from tests.waiting import LIMIT_S

import inferwire as ov
from inferwire.transport.compiled_models import CompiledModels
from inferwire.transport.executions import SequenceMark, Target
from inferwire.transport.uploads import Uploaded

OLD: Any = SimpleNamespace(session_id="old")
NEW: Any = SimpleNamespace(session_id="new")


@pytest.fixture
def models() -> CompiledModels:
    return CompiledModels("here")


def target(name: str) -> Target:
    return Target(name, is_served=False)


def test_one_that_is_being_compiled_again_keeps_none_of_the_others_waiting(models: CompiledModels) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(link: Any) -> tuple[str, Uploaded]:
        entered.set()
        assert leave.wait(LIMIT_S)
        return "slow again", ()

    models.add(OLD, "slow", (), slow)
    models.add(OLD, "quick", (), lambda link: ("quick again", ()))
    with DaemonThreads() as pool:
        waiting = pool.submit(models.target_on, NEW, target("slow"))
        assert entered.wait(LIMIT_S)
        other = pool.submit(models.target_on, NEW, target("quick"))
        try:
            assert other.result(LIMIT_S) == target("quick again")
        finally:
            leave.set()
        assert waiting.result(LIMIT_S) == target("slow again")


def test_one_is_compiled_again_once_however_many_ask(models: CompiledModels) -> None:
    made: list[str] = []
    together = threading.Barrier(4)

    def restore(link: Any) -> tuple[str, Uploaded]:
        made.append(link.session_id)
        return f"in {link.session_id}", ()

    def ask() -> Target:
        together.wait(LIMIT_S)
        return models.target_on(NEW, target("m"))

    models.add(OLD, "m", (), restore)
    assert models.target_on(OLD, target("m")) == target("m")
    with DaemonThreads() as pool:
        asked = [pool.submit(ask) for _ in range(4)]
        assert {each.result(LIMIT_S) for each in asked} == {target("in new")}
    assert made == ["new"]
    assert repr(models) == "<CompiledModels: 1>"


def test_one_that_cannot_be_compiled_again_says_what_to_do_and_is_tried_anew(models: CompiledModels) -> None:
    def refuse(link: Any) -> tuple[str, Uploaded]:
        raise RuntimeError("no such file")

    models.add(OLD, "m", (), refuse)
    for _ in range(2):
        with pytest.raises(ov.SessionLost, match=r"failed: no such file; compile the model anew"):
            models.target_on(NEW, target("m"))
    with pytest.raises(ov.SessionLost, match="the session at here that kept them is gone"):
        models.target_on(NEW, target("m"), SequenceMark(1, is_start=False))
