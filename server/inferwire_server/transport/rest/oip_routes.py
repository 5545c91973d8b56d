"""The Open Inference Protocol's REST calls: health, metadata and inference."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from inferwire_server.errors import ServingError
from inferwire_server.service import Services
from inferwire_server.transport.http.caller_watch import CallerWatch
from inferwire_server.transport.http.exchange import exchange_of
from inferwire_server.transport.http.responses import error_members, json_response
from inferwire_server.transport.oip.config import config
from inferwire_server.transport.oip.metadata import extensions_of, model_metadata
from inferwire_server.transport.oip.statistics import statistics
from inferwire_server.transport.rest import documentation as doc
from inferwire_server.transport.rest.inference_answers import answer, named_model, read_request
from inferwire_server.transport.rest.routes import Route

MODEL_PATHS = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
TAG = "Open Inference Protocol"


class OipRoutes:
    """The protocol's endpoints. Statuses and bodies are those its clients expect."""

    def __init__(self, services: Services, max_body_bytes: int) -> None:
        self._services = services
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Route]:
        """List the endpoints, the one that is called most first."""
        infer, ready = (tuple(f"{path}/{last}" for path in MODEL_PATHS) for last in ("infer", "ready"))
        config, stats = (tuple(f"{path}/{last}" for path in MODEL_PATHS) for last in ("config", "stats"))
        return [
            Route("POST", infer, self.infer, TAG, "Run an inference", openapi=doc.INFER, is_quick=True),
            Route("GET", ready, self.model_ready, TAG, "Is a model ready?", openapi=doc.MODEL_READY),
            Route("GET", ("/v2/models",), self.names, TAG, "List the models' names", openapi=doc.NAMES),
            # Before the models, one of which could be called so.
            Route("GET", ("/v2/models/stats",), self.statistics, TAG, "All models' statistics", openapi=doc.STATISTICS),
            Route("GET", stats, self.model_statistics, TAG, "A model's statistics", openapi=doc.STATISTICS),
            Route("GET", MODEL_PATHS, self.model_metadata, TAG, "Describe a model", openapi=doc.MODEL_METADATA),
            Route("GET", config, self.model_config, TAG, "A model's configuration", openapi=doc.MODEL_CONFIG),
            Route("GET", ("/v2/health/live",), self.live, TAG, "Is the server alive?", openapi=doc.LIVE),
            Route("GET", ("/v2/health/ready",), self.ready, TAG, "Is the server ready?", openapi=doc.READY),
            Route(
                "GET",
                ("/v2",),
                self.server_metadata,
                TAG,
                "Describe the server",
                openapi=doc.SERVER_METADATA,
                hidden=("/v2/",),
            ),
        ]

    async def infer(self, request: Request) -> Response:
        """Run one inference and give its outputs.

        Tensors travel as JSON, nested or flat, or as bytes behind the JSON document:

        - `Inference-Header-Content-Length` is then the length of the JSON document. If it is 0, the whole body is the
          tensor of a model with one input.
        - Each binary input has `binary_data_size` in its parameters. Without it, an input takes as many bytes as its
          shape needs, and strings take all that are left.
        - `binary_data` on an output, or `binary_data_output` on the request, asks for bytes in the answer.

        The request's parameters `priority` (1 is the most urgent), `timeout` (microseconds), `sequence_id`,
        `sequence_start` and `sequence_end` are understood, and `classification` (a number of classes) of an output.
        Bodies may be gzip- or deflate-encoded; the answer is if the caller accepts that one encoding and no other. The
        content type is ignored, and null counts as absent. A caller that closes its connection cancels its inference.
        """
        inference, form, received_at = await read_request(self._services, request, self._max_body_bytes)
        caller = exchange_of(request.scope).connection.caller
        job = await self._services.inference.infer(inference, received_at, caller, waiting=CallerWatch(request))
        response = await answer(request, self._services, inference.wanted, form, job)
        self._services.inference.answered(job)
        return response

    async def live(self, _request: Request) -> Response:
        """Answer as long as the server runs."""
        return json_response({"live": True})

    async def ready(self, _request: Request) -> Response:
        """Say whether the server takes inferences: 200 if it does, 503 while it starts or shuts down."""
        is_ready = self._services.health.is_ready
        return json_response({"ready": is_ready}, 200 if is_ready else 503)

    async def model_ready(self, request: Request) -> Response:
        """Say whether a model takes inferences: 200 if it does, else 400 with the reason.

        No model is ready while the server starts or shuts down.
        """
        model = named_model(request)
        try:
            self._services.health.require_model(model.name, model.version)
        except ServingError as error:
            not_ready = {"name": model.name, "ready": False}
            return json_response(not_ready | error_members(error.code, error.message), 400)
        return json_response({"name": model.name, "ready": True})

    async def server_metadata(self, _request: Request) -> Response:
        """Give the server's name, its version and the protocol extensions that it offers."""
        identity = self._services.health.identity
        extensions = extensions_of(self._services)
        return json_response({"name": identity.name, "version": identity.version, "extensions": extensions})

    async def names(self, _request: Request) -> Response:
        """Give the names of the repository's models, whether they are ready or not, as KServe's servers do."""
        return json_response({"models": list(dict.fromkeys(each.name for each in self._services.models.statuses()))})

    async def model_metadata(self, request: Request) -> Response:
        """Give a model's inputs and outputs; a dimension of -1 has no fixed length.

        `rt_info` is what OpenVINO's tools have written into the model's file beside its graph.
        """
        model = named_model(request)
        return json_response(asdict(model_metadata(self._services, model.name, model.version)))

    async def statistics(self, _request: Request) -> Response:
        """Give how often each ready model has run, and how long it took in nanoseconds."""
        return json_response({"model_stats": statistics(self._services)})

    async def model_statistics(self, request: Request) -> Response:
        """Give how often each ready version of a model has run, and how long it took in nanoseconds.

        `success` and `fail` are whole requests, `queue` is their wait for a slot, `compute_infer` their time in it. An
        inference that runs several requests counts once in `execution_count`, and by its rows in `batch_stats`.
        Counting begins when the server starts, and goes on when a model is reloaded.
        """
        model = named_model(request)
        return json_response({"model_stats": statistics(self._services, model.name, model.version)})

    async def model_config(self, request: Request) -> Response:
        """Give the parts of a model's configuration that perf_analyzer and Triton's clients read."""
        model = named_model(request)
        return json_response(config(self._services, model.name, model.version))
