"""StateService of inferwire.v1: the states of a session's sequences."""

from __future__ import annotations

from typing import TypeAlias

from inferwire_proto import raw_fields
from inferwire_proto.inferwire.v1 import states_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_proto.raw_fields import MANY_SHORT_FIELDS
from inferwire_server.core.states import ReadStates, ResetStates, StateAccess, WriteStates
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import invalid_input
from inferwire_server.service import Services
from inferwire_server.transport.message_limits import joined
from inferwire_server.transport.rpc.caller import session_of
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.requests import parse
from inferwire_server.transport.v1.codec import decode_sequence, decode_target, decode_tensor

_Request: TypeAlias = pb.GetStatesRequest | pb.SetStatesRequest | pb.ResetStatesRequest


class StateCalls:
    """Answers the calls of StateService."""

    def __init__(self, services: Services, max_message_bytes: int) -> None:
        self._services = services
        self._max_message_bytes = max_message_bytes

    async def get_states(self, data: bytes, context: Context) -> bytes:
        """Read states."""
        request = parse(pb.GetStatesRequest, data)
        names, tensors = await self._access(request, ReadStates(tuple(request.names)), context)
        headers = [
            types_pb2.TensorHeader(
                name=name,
                element_type=types_pb2.ElementType.ValueType(tensor.element_type.wire),
                shape=tensor.shape,
            )
            for name, tensor in zip(request.names or names, tensors, strict=True)
        ]
        header = pb.GetStatesResponse(states=headers).SerializeToString()
        buffers = [tensor.data for tensor in tensors]
        return joined(header, buffers, self._max_message_bytes)

    async def set_states(self, data: bytes, context: Context) -> bytes:
        """Replace the tensors of states."""
        request, raw = raw_fields.split(pb.SetStatesRequest, data, most_beside=MANY_SHORT_FIELDS)
        if len(raw) != len(request.states):
            raise invalid_input(f"the call sets {len(request.states)} states, but the message has bytes of {len(raw)}")
        values = [(header.name, decode_tensor(header, data)) for header, data in zip(request.states, raw, strict=True)]
        await self._access(request, WriteStates(tuple(values)), context)
        return pb.SetStatesResponse().SerializeToString()

    async def reset_states(self, request: pb.ResetStatesRequest, context: Context) -> pb.ResetStatesResponse:
        """Make states what they were before the first inference."""
        await self._access(request, ResetStates(tuple(request.names)), context)
        return pb.ResetStatesResponse()

    async def _access(
        self, request: _Request, states: StateAccess, context: Context
    ) -> tuple[tuple[str, ...], tuple[Tensor, ...]]:
        """Give the names of all the model's states, and what was read."""
        session = session_of(self._services.sessions, context)
        target = decode_target(request.target, session)
        sequence = decode_sequence(request.sequence, session)
        job = await self._services.inference.access_states(target, sequence, states)
        return self._services.models.of(job).spec.states, job.result()
