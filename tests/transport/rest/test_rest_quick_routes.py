"""Routes before the framework: they answer what they fit, and nothing else."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message
from tests.plain_http import plain_client

from inferwire_server.composition import Composition
from inferwire_server.service.refusals import Refusals
from inferwire_server.transport.http.server import http_server
from inferwire_server.transport.rest.app import Api, create_app


async def quick(request: Request) -> Response:
    return PlainTextResponse(f"quick {request.path_params['model']}")


async def slow(request: Request) -> Response:
    del request
    return PlainTextResponse("slow")


API = Api([Route("/v2/models/{model}/infer", quick, methods=["POST"])], Refusals(), needs_key=False)
API.add_route("/{path:path}", slow, methods=["GET", "POST"])


async def answer(method: str, path: str) -> bytes:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"", "root_path": ""}
    await API(scope, receive, send)
    return b"".join(message.get("body", b"") for message in sent)


async def test_a_quick_route_answers() -> None:
    assert await answer("POST", "/v2/models/digits/infer") == b"quick digits"


async def test_another_path_or_method_goes_on() -> None:
    assert await answer("POST", "/v2/models/digits/ready") == b"slow"
    assert await answer("GET", "/v2/models/digits/infer") == b"slow"


async def test_an_inference_passes_the_framework_by(composition: Composition) -> None:
    app = create_app(composition.services, composition.metrics.text)
    row = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 1, 2, 3]}
    async with (
        http_server(app, "127.0.0.1", 0) as server,
        plain_client(base_url=f"http://127.0.0.1:{server.port}/v2") as client,
    ):
        (await client.post("/models/echo/infer", json={"inputs": [row]})).raise_for_status()
        # The framework makes it at the first request that it sees.
        assert app.middleware_stack is None
        (await client.get("/models/echo")).raise_for_status()
        assert app.middleware_stack is not None
