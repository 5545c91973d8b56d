"""HTTP calls that concern other workers. Between workers they travel in a gRPC call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import grpc.aio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from inferwire_proto.errors import CODE_METADATA, Code
from inferwire_server.errors import ServingError, shutting_down
from inferwire_server.service.refusals import Interface, Refusals
from inferwire_server.transport.http.bodies import read_undecoded
from inferwire_server.transport.http.caller_watch import CallerWatch
from inferwire_server.transport.http.exchange import exchange_of, where_of
from inferwire_server.transport.http.responses import error_response
from inferwire_server.transport.relay.audiences import http_audience
from inferwire_server.transport.relay.http_messages import HttpAnswer, HttpRequest, answer_of
from inferwire_server.transport.relay.other_workers import OtherWorkers
from inferwire_server.transport.relay.routing import Routing
from inferwire_server.transport.relay.sums import Sum
from inferwire_server.transport.request_ids import HEADER
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import RawCall
from inferwire_server.transport.rpc.status import NO_METHOD

CREW_CALL = "inferwire.Crew.Http"
"""The gRPC call that carries one of HTTP from worker to worker, by its full name."""

_BAD_REQUEST = 400


class RelayedApp:
    """An application that stands for the whole crew."""

    def __init__(
        self, app: ASGIApp, routing: Routing, other_workers: OtherWorkers, refusals: Refusals, max_body_bytes: int
    ) -> None:
        self._app = app
        self._routing = routing
        self._other_workers = other_workers
        self._refusals = refusals
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        found = http_audience(scope["method"], scope["path"])
        if found is None or self._routing.stays(found.audience):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            with CallerWatch(request):
                body = bytes(await read_undecoded(request, self._max_body_bytes))
                call = _HttpCall(found.subject, _whole(scope, body), self._app, self._other_workers)
                answer = await self._routing.answer(found.audience, call)
        except _Refused as refused:
            answer = refused.answer
        except ClientDisconnect:
            return
        except (ServingError, asyncio.CancelledError, grpc.aio.AioRpcError) as error:
            refusal = _refusal(error)
            if not isinstance(error, asyncio.CancelledError):
                self._refusals.count(Interface.REST, refusal, where_of(scope))
            await error_response(refusal)(scope, receive, send)
            return
        await _written(answer)(scope, receive, send)


def crew_call(app: ASGIApp, other_workers: OtherWorkers, relayed: RelayedApp) -> RawCall:
    """Make the gRPC call that answers other workers: calls that they pass on, and what they ask of this worker alone.

    No message is taken in before the call is known to be another worker's.
    """

    async def answer(_: bytes, context: Context) -> None:
        if not (alone := other_workers.asks_this_worker_only(context)) and not other_workers.is_passed_on(context):
            raise NO_METHOD
        request = HttpRequest.decode(await context.read() or b"")
        await context.write((await answer_of(app if alone else relayed, request)).encode())

    return answer


class _Refused(Exception):
    """A worker has answered with an error: the call has failed, and that is its answer."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class _HttpCall:
    """One call, with what it takes to have another worker answer it."""

    subject: str
    request: HttpRequest
    app: ASGIApp
    other_workers: OtherWorkers

    async def here(self) -> HttpAnswer:
        """Answer it here."""
        return _checked(await answer_of(self.app, self.request))

    async def at(self, worker: int, *, alone: bool) -> HttpAnswer:
        """Have another worker answer it."""
        data = await self.other_workers.ask(worker, CREW_CALL, self.request.encode(), None, alone=alone)
        return _checked(HttpAnswer.decode(data))

    def added(self, add: Sum, answers: Sequence[HttpAnswer]) -> HttpAnswer:
        """Make one answer of several."""
        return answers[0].with_body(add([answer.body for answer in answers]))


def _checked(answer: HttpAnswer) -> HttpAnswer:
    if answer.status >= _BAD_REQUEST:
        raise _Refused(answer)
    return answer


def _whole(scope: Scope, body: bytes) -> HttpRequest:
    raw_path = scope.get("raw_path") or scope["path"].encode()
    own = [header for header in scope["headers"] if header[0] != HEADER]
    named = (HEADER, exchange_of(scope).request_id.encode())
    return HttpRequest(scope["method"], scope["path"], raw_path, scope["query_string"], [*own, named], body)


def _written(answer: HttpAnswer) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = answer.headers
    return response


def _refusal(error: BaseException) -> ServingError:
    """Turn what was raised instead of an HTTP answer into an error.

    The gRPC port of another worker may have refused the gRPC call that carries the HTTP call. Its gRPC status means
    nothing over HTTP, but the server's own code in the metadata does. Without a code, the workers do not understand
    each other, and the caller can do nothing about that.
    """
    if isinstance(error, ServingError):
        return error
    if isinstance(error, grpc.aio.AioRpcError):
        code = Code.__members__.get(str(error.trailing_metadata().get(CODE_METADATA)))
        if code is not None:
            return ServingError(code, error.details() or "")
        return ServingError(Code.INTERNAL, f"another worker of this server does not answer: {error.details()}")
    return shutting_down()
