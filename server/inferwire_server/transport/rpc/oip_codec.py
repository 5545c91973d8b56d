"""Inferences of the Open Inference Protocol between gRPC's messages and what both its faces share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from inferwire_proto import framing
from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import invalid_input
from inferwire_server.service.values import TopClasses
from inferwire_server.transport import oip
from inferwire_server.transport.oip import OipAnswer, OipCall, Parameter
from inferwire_server.transport.oip_stubs import grpc_service_pb2 as pb
from inferwire_server.transport.rpc.oip_contents import typed_tensor

RAW_INPUT_FIELD = 7
RAW_OUTPUT_FIELD = 6
_STREAMED_ANSWER_FIELD = 2

_Input: TypeAlias = pb.ModelInferRequest.InferInputTensor
_Raw: TypeAlias = Sequence[bytes | memoryview]


def split_request(data: bytes) -> tuple[pb.ModelInferRequest, _Raw]:
    """Take a request apart: its header, and its inputs' bytes where they are raw.

    Raises:
        MalformedMessage: If it is no request.
    """
    return framing.split(pb.ModelInferRequest, data, RAW_INPUT_FIELD)


def decode_call(request: pb.ModelInferRequest, raw: _Raw) -> OipCall:
    """Read a request.

    Raises:
        ServingError: INVALID_INPUT or UNIMPLEMENTED.
    """
    forms: dict[int, TopClasses] = {}
    for place, output in enumerate(request.outputs):
        if output.parameters:
            parameters = decode_parameters(output.parameters)
            oip.refuse_shared_memory(parameters, "output", output.name)
            if form := oip.output_form(parameters, output.name):
                forms[place] = form
    for given in request.inputs:
        if given.parameters:
            oip.refuse_shared_memory(decode_parameters(given.parameters), "input", given.name)
    return OipCall(
        model_name=request.model_name,
        model_version=request.model_version,
        inputs=_raw_inputs(request, raw) if raw else _typed_inputs(request),
        outputs=tuple([output.name for output in request.outputs]),
        parameters=decode_parameters(request.parameters) if request.parameters else {},
        forms=forms,
    )


def decode_parameters(parameters: Mapping[str, pb.InferParameter]) -> dict[str, Parameter]:
    """Read parameters; one without a value is as good as none."""
    decoded: dict[str, Parameter] = {}
    for name, parameter in parameters.items():
        field = parameter.WhichOneof("parameter_choice")
        if field is not None:
            decoded[name] = getattr(parameter, field)
    return decoded


def encode_answer(answer: OipAnswer, request_id: str, *, is_final: bool = False) -> bytes:
    """Write an answer with its outputs' bytes behind it."""
    outputs = [
        pb.ModelInferResponse.InferOutputTensor(name=output.name, datatype=output.datatype, shape=output.tensor.shape)
        for output in answer.outputs
    ]
    header = pb.ModelInferResponse(
        model_name=answer.model_name, model_version=answer.model_version, id=request_id, outputs=outputs
    )
    if is_final:
        header.parameters[oip.FINAL_RESPONSE].bool_param = True
    buffers = [output.tensor.data for output in answer.outputs]
    return framing.join(header.SerializeToString(), buffers, RAW_OUTPUT_FIELD, None)


def encode_streamed(answer: bytes) -> bytes:
    """Wrap an answer for the stream."""
    return framing.join(b"", (answer,), _STREAMED_ANSWER_FIELD, None)


def encode_streamed_error(message: str, request_id: str) -> bytes:
    """Say on the stream that a request has no answer."""
    failed = pb.ModelInferResponse(id=request_id)
    failed.parameters[oip.FINAL_RESPONSE].bool_param = True
    return pb.ModelStreamInferResponse(error_message=message, infer_response=failed).SerializeToString()


def _raw_inputs(request: pb.ModelInferRequest, raw: _Raw) -> tuple[tuple[str, Tensor], ...]:
    inputs = request.inputs
    if len(raw) != len(inputs):
        raise invalid_input(
            f"expected {len(inputs)} entries in raw_input_contents for model '{request.model_name}', got {len(raw)}"
        )
    for given in inputs:
        if given.HasField("contents"):
            raise oip.contents_beside_raw(given.name, request.model_name)
    return tuple(
        [
            (given.name, Tensor(_type_of(given, request.model_name), tuple(given.shape), data))
            for given, data in zip(inputs, raw, strict=True)
        ]
    )


def _typed_inputs(request: pb.ModelInferRequest) -> tuple[tuple[str, Tensor], ...]:
    name = request.model_name
    return tuple([(given.name, typed_tensor(_type_of(given, name), given, name)) for given in request.inputs])


def _type_of(given: _Input, model_name: str) -> ElementType:
    return oip.input_type(given.datatype, given.name, model_name)
