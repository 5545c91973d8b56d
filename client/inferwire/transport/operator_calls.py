"""What an operator asks of a server, in calls that need no session.

Not part of the mirror. The `inferwire` command is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from inferwire.transport import codec, model_codec, rpc
from inferwire.transport.address import Address
from inferwire.transport.channel import close_channel, open_channel
from inferwire.transport.credentials import Credentials
from inferwire.transport.descriptions import ModelDescription, ModelStatus
from inferwire.transport.executions import Deliver, ExecutionHeader, WireBytes
from inferwire.transport.large_execution import LargeExecution
from inferwire.transport.timeouts import Timeouts
from inferwire_proto.inferwire.v1 import models_pb2 as pb

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """A model that takes jobs, the physical devices it runs on, and how many of its inferences run at once."""

    description: ModelDescription
    devices: tuple[str, ...]
    slots: int


class OperatorCalls:
    """The calls. Use as a context manager: leaving it closes the connection.

    Every method raises `InferwireError` for what the server or the network says.
    """

    def __init__(
        self,
        address: Address,
        credentials: Credentials = Credentials(),  # noqa: B008 - immutable
    ) -> None:
        self._address = str(address)
        self._metadata = credentials.metadata
        self._channel = open_channel(address, Timeouts(), credentials)

    def __enter__(self) -> OperatorCalls:
        return self

    def __exit__(self, *exc_info: object) -> None:
        close_channel(self._channel)

    def __repr__(self) -> str:
        return f"<OperatorCalls {self._address}>"

    def models(self) -> list[ModelStatus]:
        """List every version of every served model, by name, then by version."""
        response = self._call("ModelService.ListModels", pb.ListModelsRequest(), pb.ListModelsResponse)
        return model_codec.decode_statuses(response.models)

    def model(self, name: str, version: str = "") -> ModelDetails:
        """Describe a model that takes jobs."""
        request = pb.GetModelRequest(name=name, version=version)
        info = self._call("ModelService.GetModel", request, pb.GetModelResponse).model
        return ModelDetails(model_codec.decode_model(info), tuple(info.execution_devices), info.slots)

    def labels(self, name: str, version: str = "") -> tuple[str, ...]:
        """Give the names of a model's classes; empty if the operator gave none."""
        request = pb.GetLabelsRequest(name=name, version=version)
        return tuple(self._call("ModelService.GetLabels", request, pb.GetLabelsResponse).labels)

    def load(self, name: str) -> None:
        """Load a model, or load it anew; return when it is ready."""
        self._call("ModelService.LoadModel", pb.LoadModelRequest(name=name), pb.LoadModelResponse)

    def unload(self, name: str) -> None:
        """Unload a model; return when it has run the jobs it had."""
        self._call("ModelService.UnloadModel", pb.UnloadModelRequest(name=name), pb.UnloadModelResponse)

    def infer(self, header: ExecutionHeader, inputs: Sequence[WireBytes], deliver: Deliver) -> None:
        """Start an inference as a call of its own. `deliver` is called once, on a thread of gRPC's."""
        LargeExecution(self._channel, self._address, self._metadata, deliver).start(codec.encode_header(header), inputs)

    def _call(self, method: str, request: Message, response_type: type[R]) -> R:
        with rpc.as_own_errors(self._address):
            return rpc.call(self._channel, method, request, response_type, self._metadata)
