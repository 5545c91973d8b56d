"""The calls of StateService: states that the server keeps for this client's sequences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from inferwire.errors import AnswerLost, InferwireError, QueueFull, ServerUnavailable
from inferwire.transport import codec
from inferwire.transport.caller import Caller
from inferwire.transport.compiled_models import CompiledModels
from inferwire.transport.descriptions import StateValue
from inferwire.transport.executions import SequenceMark, Target, WireBytes
from inferwire.transport.link import Link
from inferwire.transport.releases import Released, Releases
from inferwire_proto import raw_fields
from inferwire_proto.inferwire.v1 import states_pb2


class GrpcStates:
    """A `StateStore` over gRPC."""

    def __init__(self, caller: Caller, compiled: CompiledModels, releases: Releases) -> None:
        self._caller = caller
        self._compiled = compiled
        self._releases = releases
        self._ids = itertools.count(1)

    def __repr__(self) -> str:
        return f"<GrpcStates of {self._caller.address}>"

    def new_id(self) -> int:
        """Give an id that no other sequence of this client has."""
        self._releases.start()
        return next(self._ids)

    def get(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> Sequence[StateValue]:
        """Read states of a sequence."""
        data = self._call("StateService.GetStates", states_pb2.GetStatesRequest(names=names), target, sequence)
        try:
            response, raw = raw_fields.split(states_pb2.GetStatesResponse, data)
            return codec.decode_states(response.states, raw)
        except (ValueError, KeyError) as error:
            raise InferwireError(f"the answer of {self._caller.address} cannot be read: {error}") from error

    def set(self, target: Target, sequence: SequenceMark, states: Sequence[StateValue]) -> None:
        """Replace states of a sequence."""
        request = states_pb2.SetStatesRequest(states=codec.encode_states(states))
        self._call("StateService.SetStates", request, target, sequence, [state.data for state in states])

    def reset(self, target: Target, sequence: SequenceMark, names: Sequence[str]) -> None:
        """Make states of a sequence fresh."""
        self._call("StateService.ResetStates", states_pb2.ResetStatesRequest(names=names), target, sequence)

    def release(self, sequence_id: int) -> None:
        """Free what the server keeps for a sequence some time soon."""
        self._releases.put(Released(sequence=sequence_id))

    def _call(
        self,
        method: str,
        request: states_pb2.GetStatesRequest | states_pb2.SetStatesRequest | states_pb2.ResetStatesRequest,
        target: Target,
        sequence: SequenceMark,
        buffers: Sequence[WireBytes] = (),
    ) -> bytes:
        """Make a call once cancelled executions have ended; make room on the server if the call begins a sequence."""
        request.sequence.CopyFrom(codec.encode_sequence(sequence))
        was_sent = False

        def call(link: Link) -> bytes:
            nonlocal was_sent
            link.stream.await_cancelled()
            request.target.CopyFrom(codec.encode_target(self._compiled.target_on(link, target, sequence)))
            was_sent = True
            return self._caller.call_raw(link, method, raw_fields.join(request.SerializeToString(), buffers))

        try:
            if not sequence.is_start:
                return self._caller.repeat_if_lost(call)
            return self._releases.with_room(lambda: self._caller.repeat_if_lost(call), QueueFull)
        except ServerUnavailable as error:
            if was_sent:
                raise AnswerLost(str(error)) from error
            raise
