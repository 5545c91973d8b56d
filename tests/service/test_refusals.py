"""What the log says of refused calls at its usual level: it cannot be filled with that."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from structlog.testing import capture_logs
from tests.clock import Clock

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.service.refusals import Interface, Refusals

NO_KEY = ServingError(Code.UNAUTHENTICATED, "no key")


def addresses(logged: Sequence[MutableMapping[str, Any]]) -> list[str]:
    assert {entry["log_level"] for entry in logged} <= {"warning"}
    return [entry["address"] for entry in logged]


def test_an_address_without_a_key_is_told_once_a_minute() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with capture_logs() as logged:
        for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
            refusals.count(Interface.REST, NO_KEY, peer=address)
        assert addresses(logged) == ["10.0.0.1", "10.0.0.2"]
        assert logged[0] == {
            "event": "a caller shows no valid API key",
            "log_level": "warning",
            "interface": "rest",
            "address": "10.0.0.1",
            "reason": "no key",
        }
        clock.now += 59
        refusals.count(Interface.GRPC, NO_KEY, peer="10.0.0.1")
        assert len(logged) == 2
        clock.now += 1
        refusals.count(Interface.GRPC, NO_KEY, peer="10.0.0.1")
        assert addresses(logged)[2:] == ["10.0.0.1"]
    assert refusals.counts == {("rest", "UNAUTHENTICATED"): 3, ("grpc", "UNAUTHENTICATED"): 2}


def test_however_many_addresses_there_are_few_are_told_in_a_minute() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with capture_logs() as logged:
        for number in range(1000):
            refusals.count(Interface.GRPC, NO_KEY, peer=f"10.0.1.{number}")
        assert addresses(logged) == [f"10.0.1.{number}" for number in range(20)]
        clock.now += 60
        refusals.count(Interface.GRPC, NO_KEY, peer="10.0.1.999")
    assert addresses(logged)[20:] == ["10.0.1.999"]


def test_that_jobs_find_no_room_is_told_once_a_minute() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    full = ServingError(Code.QUEUE_FULL, "CPU's queue is full", is_of_job=True)
    told = {"event": "jobs find no room", "log_level": "warning", "interface": "rest", "reason": full.message}
    with capture_logs() as logged:
        for interface in (Interface.REST, Interface.SESSION):
            refusals.count(interface, full)
        assert logged == [told]
        clock.now += 59
        refusals.count(Interface.REST, full)
        assert len(logged) == 1
        clock.now += 1
        refusals.count(Interface.REST, full)
    assert logged == [told] * 2


def test_other_refusals_tell_no_address() -> None:
    with capture_logs() as logged:
        Refusals().count(Interface.GRPC, ServingError(Code.INVALID_INPUT, "no input"), peer="10.0.0.1")
    assert logged == []
