"""HTTP calls that another worker has to answer, on real sockets: what a caller is told where it does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tests.transport.served_methods import guard_of, served_methods

from inferwire_server.crew import Crew
from inferwire_server.gil_thread import GilThread
from inferwire_server.service.refusals import Refusals
from inferwire_server.transport.draining import Drain
from inferwire_server.transport.http.exchange import exchange_of
from inferwire_server.transport.relay.http_calls import CREW_CALL, RelayedApp, crew_call
from inferwire_server.transport.relay.http_messages import HttpAnswer, HttpRequest, answer_of
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.routing import Routing
from inferwire_server.transport.rpc.methods import Method, path_of

JOB = HttpRequest("GET", "/inferwire/v1/jobs/name-1", b"/inferwire/v1/jobs/name-1", b"", [], b"")
"""Asks for a job of the other worker."""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("here")(scope, receive, send)


def relayed(crew: Crew, other_workers: OtherWorkers, refusals: Refusals) -> RelayedApp:
    return RelayedApp(app, Routing(crew, other_workers, frozenset[str], GilThread()), other_workers, refusals, 1000)


@pytest.fixture
def drain() -> Drain:
    """Whether the other worker is about to end."""
    return Drain()


@pytest_asyncio.fixture
async def other(tmp_path: Path, drain: Drain) -> AsyncIterator[Crew]:
    """The other worker, which answers."""
    crew = Crew(1, 2, tmp_path, "token")
    async with OtherWorkers(crew) as other_workers:
        answer = crew_call(app, other_workers, relayed(crew, other_workers, Refusals()))
        methods = {path_of(CREW_CALL): Method(answer, takes_stream=True)}
        async with served_methods(methods, guard_of(drain), at=crew.calls):
            yield crew


def code_of(answer: HttpAnswer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["code"]


async def test_what_another_worker_refuses_is_refused_as_it_says(other: Crew, drain: Drain) -> None:
    refusals = Refusals()
    crew = Crew(0, 2, other.folder, other.token)
    async with OtherWorkers(crew) as other_workers:
        caller = relayed(crew, other_workers, refusals)
        assert (await answer_of(caller, JOB)).body == b"here"
        drain.close()
        answer = await answer_of(caller, JOB)
    assert code_of(answer) == (503, "SHUTTING_DOWN")
    assert json.loads(answer.body)["error"] == "the server is shutting down"
    assert dict(answer.headers)[b"retry-after"] == b"1"
    assert refusals.counts == {("rest", "SHUTTING_DOWN"): 1}


async def test_another_worker_knows_a_request_by_the_id_that_its_caller_is_told(tmp_path: Path) -> None:
    async def tell_id(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(exchange_of(scope).request_id)(scope, receive, send)

    crew = Crew(0, 2, tmp_path, "token")
    async with OtherWorkers(crew) as other_workers:
        answering = crew_call(tell_id, other_workers, relayed(crew, other_workers, Refusals()))
        async with served_methods({path_of(CREW_CALL): Method(answering, takes_stream=True)}, at=tmp_path / "calls-1"):
            call = replace(JOB, headers=[(b"x-request-id", b"mine")])
            assert (await answer_of(relayed(crew, other_workers, Refusals()), call)).body == b"mine"


async def test_a_worker_that_does_not_know_another_is_a_fault_of_the_server(other: Crew) -> None:
    crew = Crew(0, 2, other.folder, "another token")
    async with OtherWorkers(crew) as other_workers:
        answer = await answer_of(relayed(crew, other_workers, Refusals()), JOB)
    assert code_of(answer) == (500, "INTERNAL")
    assert json.loads(answer.body)["error"] == "another worker of this server does not answer: Method not found!"


async def test_a_body_may_be_longer_than_a_message_of_another_caller(tmp_path: Path) -> None:
    """HTTP and gRPC have limits of their own, and the first has looked at its own before it asks another worker."""
    crew = Crew(0, 2, tmp_path, "token")
    async with OtherWorkers(crew) as other_workers:
        answering = crew_call(app, other_workers, relayed(crew, other_workers, Refusals()))
        methods = {path_of(CREW_CALL): Method(answering, takes_stream=True)}
        async with served_methods(methods, at=tmp_path / "calls-1", most_message_bytes=100):
            call = replace(JOB, body=bytes(1000))
            assert (await answer_of(relayed(crew, other_workers, Refusals()), call)).body == b"here"
