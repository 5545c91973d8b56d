"""Inferences of the Open Inference Protocol between gRPC's messages and what both its faces share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from inferwire_proto import framing
from inferwire_proto.element_types import ElementType
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import invalid_input
from inferwire_server.service.values import OutputForm, SharedPlace, SharedTensor
from inferwire_server.transport import oip, oip_shared_memory
from inferwire_server.transport.oip import OipAnswer, OipCall, OipOutput, Parameter
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
        ServingError: INVALID_INPUT.
    """
    return OipCall(
        model_name=request.model_name,
        model_version=request.model_version,
        inputs=_inputs(request, raw),
        outputs=tuple([output.name for output in request.outputs]),
        parameters=decode_parameters(request.parameters) if request.parameters else {},
        forms=_forms(request),
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
    header = pb.ModelInferResponse(
        model_name=answer.model_name,
        model_version=answer.model_version,
        id=request_id,
        outputs=map(_header_of, answer.outputs),
    )
    if is_final:
        header.parameters[oip.FINAL_RESPONSE].bool_param = True
    # Clients find an output's bytes by its position: one that is elsewhere leaves its place empty.
    buffers = [output.tensor.data if output.place is None else b"" for output in answer.outputs]
    return framing.join(header.SerializeToString(), buffers, RAW_OUTPUT_FIELD, None)


def encode_streamed(answer: bytes) -> bytes:
    """Wrap an answer for the stream."""
    return framing.join(b"", (answer,), _STREAMED_ANSWER_FIELD, None)


def encode_streamed_error(message: str, request_id: str) -> bytes:
    """Say on the stream that a request has no answer."""
    failed = pb.ModelInferResponse(id=request_id)
    failed.parameters[oip.FINAL_RESPONSE].bool_param = True
    return pb.ModelStreamInferResponse(error_message=message, infer_response=failed).SerializeToString()


def _inputs(request: pb.ModelInferRequest, raw: _Raw) -> tuple[tuple[str, Tensor | SharedTensor], ...]:
    """Find each input's elements: in shared memory, among the raw ones, which skip those, or in its contents."""
    model, buffers = request.model_name, iter(raw)
    places = [_place_of(given) for given in request.inputs]
    expected = places.count(None)
    if raw and len(raw) != expected:
        raise invalid_input(f"expected {expected} entries in raw_input_contents for model '{model}', got {len(raw)}")
    inputs: list[tuple[str, Tensor | SharedTensor]] = []
    for given, place in zip(request.inputs, places, strict=True):
        if place is not None:
            tensor = SharedTensor(_type_of(given, model), tuple(given.shape), place)
        elif not raw:
            tensor = typed_tensor(_type_of(given, model), given, model)
        elif given.HasField("contents"):
            raise oip.contents_beside_raw(given.name, model)
        else:
            tensor = Tensor(_type_of(given, model), tuple(given.shape), next(buffers))
        inputs.append((given.name, tensor))
    return tuple(inputs)


def _place_of(given: _Input) -> SharedPlace | None:
    if not given.parameters:
        return None
    what = f"input '{given.name}'"
    place = oip_shared_memory.place_of(decode_parameters(given.parameters), what)
    if place is not None and given.HasField("contents"):
        raise oip_shared_memory.beside_region(what, "contents")
    return place


def _forms(request: pb.ModelInferRequest) -> dict[int, OutputForm]:
    forms = {
        position: oip.output_form(decode_parameters(output.parameters), output.name)
        for position, output in enumerate(request.outputs)
        if output.parameters
    }
    return {position: form for position, form in forms.items() if form is not None}


def _header_of(output: OipOutput) -> pb.ModelInferResponse.InferOutputTensor:
    tensor = output.tensor
    header = pb.ModelInferResponse.InferOutputTensor(name=output.name, datatype=output.datatype, shape=tensor.shape)
    if output.place is not None:
        for name, value in oip_shared_memory.parameters_of(output.place, tensor.byte_size).items():
            parameter = header.parameters[name]
            if isinstance(value, str):
                parameter.string_param = value
            else:
                parameter.int64_param = value
    return header


def _type_of(given: _Input, model_name: str) -> ElementType:
    return oip.input_type(given.datatype, given.name, model_name)
