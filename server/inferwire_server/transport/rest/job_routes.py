"""Asynchronous inferences over REST: started, waited for, collected and cancelled by an id."""

from __future__ import annotations

from math import isfinite
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import Response

from inferwire_server.core.layers import LayerTime
from inferwire_server.core.scheduling.job import Job
from inferwire_server.errors import invalid_input
from inferwire_server.service import Services
from inferwire_server.service.jobs import LONGEST_WAIT_S
from inferwire_server.service.names import check_name
from inferwire_server.service.values import ServedModel, Wanted
from inferwire_server.transport.http.caller_watch import CallerWatch
from inferwire_server.transport.http.exchange import exchange_of
from inferwire_server.transport.http.responses import error_members, json_response
from inferwire_server.transport.oip.inference import wanted_of
from inferwire_server.transport.rest import documentation as doc
from inferwire_server.transport.rest.inference_answers import answer, read_request
from inferwire_server.transport.rest.oip_request import AnswerForm
from inferwire_server.transport.rest.routes import Route

START_PATHS = (
    "/inferwire/v1/models/{model}/jobs",
    "/inferwire/v1/models/{model}/versions/{version}/jobs",
)
JOB_PATH = "/inferwire/v1/jobs/{job}"
TAG = "Asynchronous jobs"


class JobRoutes:
    """The endpoints of named jobs. The form in which a job's answer is to be written is kept as long as the job."""

    def __init__(self, services: Services, max_body_bytes: int) -> None:
        self._services = services
        self._max_body_bytes = max_body_bytes
        self._asked: WeakKeyDictionary[Job, tuple[Wanted, AnswerForm]] = WeakKeyDictionary()

    def routes(self) -> list[Route]:
        """List the endpoints."""
        return [
            Route("POST", START_PATHS, self.start, TAG, "Start an inference", doc.START, status=202),
            Route("GET", (JOB_PATH,), self.wait, TAG, "Look at a job, or wait for it", openapi=doc.WAIT),
            Route("DELETE", (JOB_PATH,), self.cancel, TAG, "Cancel a job", openapi=doc.CANCEL),
            Route(
                "GET",
                (f"{JOB_PATH}/result",),
                self.result,
                TAG,
                "Collect a result",
                openapi=doc.RESULT,
                is_safe=False,  # with `release=true` it forgets the job
            ),
        ]

    async def start(self, request: Request) -> Response:
        """Queue an inference and answer at once with the id of its job.

        The body is that of the protocol's inference call. The job outlives the connection. Once it has ended, it is
        kept for 60 seconds, or as long as the server's `--keep-jobs-s` says, unless later results need its room.
        With `profile=true`, the state of the ended job lists the layers, with their times if the model was compiled
        with PERF_COUNT.
        """
        is_profiled = _is_true("profile", request.query_params.get("profile", "false"))
        inference, form, _ = await read_request(self._services, request, self._max_body_bytes)
        check_name("the request's 'id'", form.request_id)
        inference = inference._replace(wanted=inference.wanted._replace(is_profiled=is_profiled))
        job_id = self._services.jobs.start(inference, exchange_of(request.scope).connection.caller)
        job = await self._services.jobs.wait(job_id, 0)
        self._asked[job] = inference.wanted, form
        return json_response(self._status(job_id, job), 202, {"location": f"/inferwire/v1/jobs/{job_id}"})

    async def wait(self, request: Request) -> Response:
        """Wait for a job's end, `wait_s` seconds at most, and give its state.

        A job that has not ended by then is no error: its state says so.
        """
        job_id = request.path_params["job"]
        wait_s = _wait_s(request.query_params.get("wait_s", "0"))
        with CallerWatch(request):
            job = await self._services.jobs.wait(job_id, wait_s)
        return json_response(self._status(job_id, job))

    async def cancel(self, request: Request) -> Response:
        """Cancel a job, queued or running, and give its state. One that has ended stays as it is."""
        job_id = request.path_params["job"]
        return json_response(self._status(job_id, self._services.jobs.cancel(job_id)))

    async def result(self, request: Request) -> Response:
        """Give the outputs of a finished job in the form that its request asked for, or the reason why it has none.

        With `release=true`, the job is deleted at once.
        """
        job_id = request.path_params["job"]
        release = _is_true("release", request.query_params.get("release", "false"))
        job = self._services.jobs.result(job_id)
        response = await answer(request, self._services, *self._asked_of(job), job)
        if release:
            self._services.jobs.release(job_id)
        return response

    def _asked_of(self, job: Job) -> tuple[Wanted, AnswerForm]:
        """Give what was asked for with a job; the plainest form for one that was started over gRPC."""
        known = self._asked.get(job)
        if known is not None:
            return known
        model = self._services.models.of(job)
        return wanted_of(ServedModel(model.name, model.version)), AnswerForm()

    def _status(self, job_id: str, job: Job) -> dict[str, object]:
        model = self._services.models.of(job)
        status: dict[str, object] = {
            "id": job_id,
            "state": job.state,
            "model_name": model.name,
            "model_version": model.version,
        }
        if job.error is not None:
            status |= error_members(job.error.code, job.error.message)
        if job.state.is_terminal:
            timings = job.timings
            status["timings"] = {
                "queue_us": round(timings.queue_s * 1e6),
                "inference_us": round(timings.inference_s * 1e6),
                "total_us": round(timings.total_s * 1e6),
            }
        if job.profile:
            status["profile"] = [_layer(layer) for layer in job.profile]
        return status


def _layer(layer: LayerTime) -> dict[str, object]:
    return {
        "node_name": layer.node_name,
        "node_type": layer.node_type,
        "exec_type": layer.exec_type,
        "status": layer.status.name,
        "real_time_us": layer.real_time_us,
        "cpu_time_us": layer.cpu_time_us,
    }


def _wait_s(text: str) -> float:
    try:
        wait_s = float(text)
    except ValueError:
        wait_s = -1.0
    if not (isfinite(wait_s) and 0 <= wait_s <= LONGEST_WAIT_S):
        raise invalid_input(f"wait_s is '{text}', expected seconds from 0 to {LONGEST_WAIT_S:g}")
    return wait_s


def _is_true(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise invalid_input(f"{name} is '{text}', expected true or false")
    return text == "true"
