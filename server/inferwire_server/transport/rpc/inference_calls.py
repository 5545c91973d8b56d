"""InferenceService of inferwire.v1: single inferences and named jobs. Its stream has a file of its own."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TypeAlias

from inferwire_proto import raw_fields
from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_proto.raw_fields import MANY_SHORT_FIELDS
from inferwire_server.core.callers import Caller
from inferwire_server.core.scheduling.job import Job, JobState
from inferwire_server.errors import invalid_input
from inferwire_server.service import Services
from inferwire_server.service.jobs import LONGEST_WAIT_S
from inferwire_server.service.values import Inference
from inferwire_server.transport.message_limits import joined
from inferwire_server.transport.rpc.caller import named_session, shown_key
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.requests import parse
from inferwire_server.transport.rpc.session_call import SessionCall
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.v1.codec import encode_error, encode_result
from inferwire_server.transport.v1.plans import decode_execution

_STATES = {state: pb.JobState.Value(f"JOB_STATE_{state.name}") for state in JobState}

_Request: TypeAlias = type[pb.InferRequest] | type[pb.StartAsyncRequest]
_Response: TypeAlias = type[pb.InferResponse] | type[pb.GetResultResponse]


class InferenceCalls:
    """Answers the calls of InferenceService. Its streams are drained with the sessions on plain sockets."""

    def __init__(self, services: Services, sockets: SocketSessions, max_message_bytes: int) -> None:
        self._services = services
        self._sockets = sockets
        self._max_message_bytes = max_message_bytes

    async def infer(self, data: bytes, context: Context) -> bytes:
        """Run one inference and answer with its outputs."""
        received_at = monotonic()
        inference, caller = self._inference(pb.InferRequest, data, context)
        job = await self._services.inference.infer(inference, received_at, caller, context.outlet)
        message = self._answer(pb.InferResponse, job)
        self._services.inference.answered(job)
        return message

    async def start_async(self, data: bytes, context: Context) -> bytes:
        """Start one inference and answer with its name."""
        inference, caller = self._inference(pb.StartAsyncRequest, data, context)
        return pb.StartAsyncResponse(job_id=self._services.jobs.start(inference, caller)).SerializeToString()

    async def wait(self, request: pb.WaitRequest, _: Context) -> pb.WaitResponse:
        """Wait until a job has ended or the time is up."""
        timeout_s = min(request.timeout_us / 1e6, LONGEST_WAIT_S)
        job = await self._services.jobs.wait(request.job_id, timeout_s)
        error = None if job.error is None else encode_error(job.error)
        return pb.WaitResponse(state=_STATES[job.state], error=error)

    async def get_result(self, data: bytes, _: Context) -> bytes:
        """Give the outputs of an ended job."""
        request = parse(pb.GetResultRequest, data)
        job = self._services.jobs.result(request.job_id)
        message = self._answer(pb.GetResultResponse, job)
        if request.release:
            self._services.jobs.release(request.job_id)
        return message

    async def cancel(self, request: pb.CancelRequest, _: Context) -> pb.CancelResponse:
        """Cancel a job."""
        return pb.CancelResponse(state=_STATES[self._services.jobs.cancel(request.job_id).state])

    async def session(self, _: object, context: Context) -> None:
        """Carry many executions on one stream."""
        sockets, key = self._sockets, self._services.access.check(shown_key(context.metadata))
        terms = replace(sockets.terms, key=key)
        await SessionCall(self._services, sockets, context, terms).run()

    def _inference(self, message_type: _Request, data: bytes, context: Context) -> tuple[Inference, Caller]:
        """Read a request: what is to run, and whose it is."""
        request, raw = raw_fields.split(message_type, data, most_beside=MANY_SHORT_FIELDS)
        if len(request.execution.ids) > 1:
            raise invalid_input(
                f"the execution is a stack of {len(request.execution.ids)}, expected one: stacks are for Session"
            )
        session = named_session(self._services.sessions, context)
        inference = decode_execution(request.execution, raw, session)
        return inference, context.caller if session is None else session.caller

    def _answer(self, message_type: _Response, job: Job) -> bytes:
        result, buffers = encode_result(job, job.result())
        header = raw_fields.field(message_type.RESULT_FIELD_NUMBER, result)
        return joined(header, buffers, self._max_message_bytes)
