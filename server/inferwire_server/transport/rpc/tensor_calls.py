"""TensorService of inferwire.v1: tensors that the server keeps for a session."""

from __future__ import annotations

from inferwire_proto import raw_fields
from inferwire_proto.errors import Code
from inferwire_proto.inferwire.v1 import tensors_pb2 as pb
from inferwire_proto.inferwire.v1 import types_pb2
from inferwire_proto.raw_fields import MANY_SHORT_FIELDS
from inferwire_server.core.loans import Loan
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import Services
from inferwire_server.service.values import StoredTensor
from inferwire_server.transport.message_limits import joined
from inferwire_server.transport.rpc.caller import session_of
from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.requests import parse
from inferwire_server.transport.v1.codec import decode_stored, decode_tensor


class TensorCalls:
    """Answers the calls of TensorService."""

    def __init__(self, services: Services, max_message_bytes: int) -> None:
        self._services = services
        self._max_message_bytes = max_message_bytes

    async def create_tensor(self, request: pb.CreateTensorRequest, context: Context) -> pb.CreateTensorResponse:
        """Make a tensor of zeros."""
        described = decode_tensor(request.tensor, b"")
        stored = self._stored(request.tensor.stored, context)
        self._services.tensors.create(stored, described.element_type, described.shape)
        return pb.CreateTensorResponse()

    async def put_tensor(self, data: bytes, context: Context) -> bytes:
        """Write a tensor, or a box in it."""
        request, raw = raw_fields.split(pb.PutTensorRequest, data, most_beside=MANY_SHORT_FIELDS)
        if len(raw) != 1:
            raise invalid_input(f"the call writes one tensor, but the message has bytes of {len(raw)}")
        stored = self._stored(request.tensor.stored, context)
        await self._services.tensors.put(stored, decode_tensor(request.tensor, raw[0]))
        return pb.PutTensorResponse().SerializeToString()

    async def get_tensor(self, data: bytes, context: Context) -> bytes:
        """Read a tensor, or a box of it."""
        request = parse(pb.GetTensorRequest, data)
        tensor = await self._services.tensors.read(self._stored(request.tensor, context))
        header = types_pb2.TensorHeader(
            element_type=types_pb2.ElementType.ValueType(tensor.element_type.wire), shape=tensor.shape
        )
        response = pb.GetTensorResponse(tensor=header).SerializeToString()
        return joined(response, (tensor.data,), self._max_message_bytes)

    async def lend_memory(self, request: pb.LendMemoryRequest, context: Context) -> pb.LendMemoryResponse:
        """Read a client's memory in place from now on."""
        session = session_of(self._services.sessions, context)
        if not request.id:
            raise invalid_input("the call lends memory 0, expected an id from 1 up")
        if request.byte_size > self._max_message_bytes:
            raise ServingError(
                Code.TOO_LARGE,
                f"the lent memory has {request.byte_size} bytes, at most {self._max_message_bytes} are taken, as many "
                "as of a message; start the server with a larger --max-grpc-message-mb",
            )
        loan = Loan(request.pid, request.descriptor, request.byte_size, request.nonce)
        self._services.tensors.lent.lend(session, request.id, loan)
        return pb.LendMemoryResponse()

    def _stored(self, stored: types_pb2.StoredTensor, context: Context) -> StoredTensor:
        return decode_stored(stored, session_of(self._services.sessions, context))
