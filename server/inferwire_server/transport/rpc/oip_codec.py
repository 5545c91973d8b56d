"""Takes requests of the Open Inference Protocol apart and puts answers together, with tensors' bytes past protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from inferwire_proto import raw_fields
from inferwire_proto.openvino_errors import without_places
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.service.values import SharedPlace
from inferwire_server.transport.oip.inference import FINAL_RESPONSE, OipAnswer, OipOutput
from inferwire_server.transport.oip.shared_memory import parameters_of

RAW_INPUT_FIELD = 7
RAW_OUTPUT_FIELD = 6
_ANSWER_ID_FIELD = 3
_STREAMED_ANSWER_FIELD = 2

_MOST_HEADS = 512
"""How many heads of answers are kept."""

_Described: TypeAlias = tuple[str, str, tuple[int, ...], SharedPlace | None, int]
"""What an answer's head says of an output: name, datatype, shape, and if it is in shared memory, where and its size."""


def split_request(data: bytes) -> tuple[str, pb.ModelInferRequest, Sequence[bytes | memoryview]]:
    """Take a request apart into its id, its head (all but the id and raw bytes), and the raw bytes of its inputs.

    Raises:
        MalformedMessage: If it is no request.
    """
    head, raw = raw_fields.split(pb.ModelInferRequest, data, RAW_INPUT_FIELD)
    request_id = head.id
    head.ClearField("id")
    head.ClearField("raw_input_contents")
    return request_id, head, raw


def encode_answer(answer: OipAnswer, request_id: str, *, is_final: bool = False) -> bytes:
    """Write an answer with its outputs' bytes behind it."""
    described = tuple([_described(output) for output in answer.outputs])
    head = _answer_head(answer.model_name, answer.model_version, described, is_final)
    if request_id:
        head += raw_fields.field(_ANSWER_ID_FIELD, request_id.encode())
    # Clients find an output's bytes by its position: an output in shared memory leaves its place empty.
    buffers = [output.tensor.data if output.place is None else b"" for output in answer.outputs]
    return raw_fields.join(head, buffers, RAW_OUTPUT_FIELD, None)


def encode_streamed(answer: bytes) -> bytes:
    """Wrap an answer for the stream."""
    return raw_fields.join(b"", (answer,), _STREAMED_ANSWER_FIELD, None)


def encode_streamed_error(message: str, request_id: str) -> bytes:
    """Say on the stream that a request has failed, and which, as Triton does: its clients see nothing but the text."""
    failed = pb.ModelInferResponse(id=request_id)
    failed.parameters[FINAL_RESPONSE].bool_param = True
    reason = without_places(message)
    told = f"[request id: {request_id}] {reason}" if request_id else reason
    return pb.ModelStreamInferResponse(error_message=told, infer_response=failed).SerializeToString()


def _described(output: OipOutput) -> _Described:
    tensor, place = output.tensor, output.place
    return output.name, output.datatype, tensor.shape, place, 0 if place is None else tensor.byte_size


@lru_cache(_MOST_HEADS)
def _answer_head(model_name: str, model_version: str, outputs: tuple[_Described, ...], is_final: bool) -> bytes:
    """Write an answer without its id and its outputs' bytes, the same for all answers that differ in these alone."""
    head = pb.ModelInferResponse(
        model_name=model_name, model_version=model_version, outputs=[_output_head(*output) for output in outputs]
    )
    if is_final:
        head.parameters[FINAL_RESPONSE].bool_param = True
    return head.SerializeToString()


def _output_head(
    name: str, datatype: str, shape: tuple[int, ...], place: SharedPlace | None, byte_size: int
) -> pb.ModelInferResponse.InferOutputTensor:
    head = pb.ModelInferResponse.InferOutputTensor(name=name, datatype=datatype, shape=shape)
    if place is not None:
        for key, value in parameters_of(place, byte_size).items():
            parameter = head.parameters[key]
            if isinstance(value, str):
                parameter.string_param = value
            else:
                parameter.int64_param = value
    return head
