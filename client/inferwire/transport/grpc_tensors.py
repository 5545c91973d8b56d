"""The calls of TensorService: tensors that the server keeps for this client's session."""

from __future__ import annotations

import itertools

from inferwire.errors import InferwireError, TensorLost, TooLarge, tensor_lost
from inferwire.transport import codec
from inferwire.transport.caller import Caller
from inferwire.transport.executions import StoredBox, WireBytes
from inferwire.transport.link import Link
from inferwire.transport.releases import Released, Releases
from inferwire_proto import raw_fields
from inferwire_proto.element_types import ElementType
from inferwire_proto.inferwire.v1 import tensors_pb2


class GrpcTensors:
    """A `TensorStore` over gRPC."""

    def __init__(self, caller: Caller, releases: Releases) -> None:
        self._caller = caller
        self._releases = releases
        self._ids = itertools.count(1)

    def __repr__(self) -> str:
        return f"<GrpcTensors of {self._caller.address}>"

    def new_id(self) -> int:
        """Give an id that no other tensor of this client has."""
        self._releases.start()
        return next(self._ids)

    def create(self, tensor_id: int, element_type: ElementType, shape: tuple[int, ...]) -> None:
        """Make a tensor of zeros, or of empty strings."""
        header = codec.encode_stored(StoredBox(tensor_id), element_type, shape)
        request = tensors_pb2.CreateTensorRequest(tensor=header)

        def create() -> None:
            self._caller.call("TensorService.CreateTensor", request, tensors_pb2.CreateTensorResponse)

        self._releases.with_room(create, TooLarge)

    def put(self, box: StoredBox, element_type: ElementType, shape: tuple[int, ...], data: WireBytes) -> None:
        """Write a tensor, or a box in it."""
        header = codec.encode_stored(box, element_type, shape)
        request = tensors_pb2.PutTensorRequest(tensor=header).SerializeToString()
        message = raw_fields.join(request, (data,))
        self._releases.with_room(lambda: self._call("TensorService.PutTensor", message), TooLarge)

    def get(self, box: StoredBox) -> WireBytes:
        """Read a tensor, or a box in it."""
        request = tensors_pb2.GetTensorRequest(tensor=codec.encode_box(box)).SerializeToString()
        answer = self._call("TensorService.GetTensor", request)
        try:
            _, (data,) = raw_fields.split(tensors_pb2.GetTensorResponse, answer)
        except ValueError as error:
            raise InferwireError(f"the answer of {self._caller.address} cannot be read: {error}") from error
        return data

    def release(self, tensor_id: int) -> None:
        """Free a tensor some time soon."""
        self._releases.put(Released(tensor=tensor_id))

    def _call(self, method: str, request: bytes) -> bytes:
        def call(link: Link) -> bytes:
            link.stream.await_cancelled()
            return self._caller.call_raw(link, method, request)

        try:
            return self._caller.repeat_if_lost(call)
        except TensorLost as error:
            raise tensor_lost(self._caller.address, error) from None
