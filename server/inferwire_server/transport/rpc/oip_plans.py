"""Heads of inference requests, decoded once and kept: what is asked for, apart from the tensors' bytes.

Clients send the same head again and again, with other bytes: so what a head says is worked out once, and kept for the
next request that has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from inferwire_proto.element_types import ElementType
from inferwire_server.core.specs import ModelSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import invalid_input
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.service import Services
from inferwire_server.service.values import Inference, OutputForm, ServedModel, SharedPlace, SharedTensor, Wanted
from inferwire_server.transport.message_limits import check_few
from inferwire_server.transport.oip.datatypes import input_type
from inferwire_server.transport.oip.inference import output_form, wanted_of
from inferwire_server.transport.oip.shared_memory import beside_region, place_of
from inferwire_server.transport.raw_inputs import RawInput
from inferwire_server.transport.rpc.oip_contents import typed_tensor

_LONGEST_KEPT = 2048
"""The longest head that is kept, in bytes: a longer one has its tensors in it."""

_MOST_KEPT = 512

LONG_CONTENTS = 64 * 1024
"""From how many bytes on a request without raw tensors is read on a thread: its elements are in its head."""

_Input: TypeAlias = pb.ModelInferRequest.InferInputTensor


_Planned: TypeAlias = RawInput | Tensor | SharedTensor


@dataclass(frozen=True, slots=True)
class Plan:
    """What the head of a request says.

    Attributes:
        wanted: All but the inputs.
        inputs: The inputs, each as far as the head has it.
    """

    wanted: Wanted
    inputs: tuple[tuple[str, _Planned], ...]

    @classmethod
    def of(cls, request: pb.ModelInferRequest, raw_count: int) -> Plan:
        """Read the head of a request with `raw_count` raw tensors.

        Raises:
            ServingError: INVALID_INPUT.
        """
        _check_few_ports(request)
        inputs = _inputs(request, raw_count)
        model = ServedModel(request.model_name, request.model_version)
        outputs = tuple([output.name for output in request.outputs])
        return cls(wanted_of(model, outputs, decode_parameters(request.parameters), _forms(request)), inputs)

    def inference(self, raw: Sequence[bytes | memoryview]) -> Inference:
        """Say what is to run, on the raw tensors of a request."""
        data = iter(raw)
        return Inference(self.wanted, tuple([(name, _filled(given, data)) for name, given in self.inputs]))


def plan_of(head: pb.ModelInferRequest, raw_count: int) -> Plan:
    """Give what the head of a request with `raw_count` raw tensors says.

    Raises:
        ServingError: INVALID_INPUT.
    """
    data = head.SerializeToString()
    return _kept_plan(data, raw_count) if len(data) <= _LONGEST_KEPT else Plan.of(head, raw_count)


async def long_plan(services: Services, head: pb.ModelInferRequest) -> Plan:
    """Give what the long head of a request without raw tensors says; read it on a thread, not on the event loop.

    Raises:
        ServingError: If the model is not there; INVALID_INPUT, for inputs that cannot fit before any element is read.
    """
    _check_few_ports(head)
    spec = services.models.resolve(ServedModel(head.model_name, head.model_version)).spec
    return await services.gil_thread.run(_fitting_plan, spec, head)


def _check_few_ports(request: pb.ModelInferRequest) -> None:
    check_few("inputs", len(request.inputs))
    check_few("outputs", len(request.outputs))


def _fitting_plan(spec: ModelSpec, head: pb.ModelInferRequest) -> Plan:
    for given in head.inputs:
        spec.check_input(given.name, _type_of(given, head.model_name), tuple(given.shape))
    return Plan.of(head, 0)


@lru_cache(_MOST_KEPT)
def _kept_plan(head: bytes, raw_count: int) -> Plan:
    return Plan.of(pb.ModelInferRequest.FromString(head), raw_count)


def _filled(given: _Planned, data: Iterator[bytes | memoryview]) -> Tensor | SharedTensor:
    return Tensor(given.element_type, given.shape, next(data)) if isinstance(given, RawInput) else given


def decode_parameters(parameters: Mapping[str, pb.InferParameter | pb.ModelRepositoryParameter]) -> dict[str, Any]:
    """Read parameters of a request, a tensor or a load; pass over those without a value.

    Raises:
        ServingError: INVALID_INPUT for more parameters than any request needs.
    """
    check_few("parameters", len(parameters))
    decoded: dict[str, Any] = {}
    for name, parameter in parameters.items():
        field = parameter.WhichOneof("parameter_choice")
        if field is not None:
            decoded[name] = getattr(parameter, field)
    return decoded


def _inputs(request: pb.ModelInferRequest, raw_count: int) -> tuple[tuple[str, _Planned], ...]:
    """Find each input's elements: in shared memory, in its contents, or among the raw ones, which skip those shared."""
    model = request.model_name
    places = [_place_of(given) for given in request.inputs]
    if raw_count:
        for given in request.inputs:
            if given.HasField("contents"):
                raise invalid_input(
                    f"contents field must not be specified when using raw_input_contents for '{given.name}' "
                    f"for model '{model}'"
                )
    expected = places.count(None)
    if raw_count not in (0, expected):
        raise invalid_input(f"expected {expected} entries in raw_input_contents for model '{model}', got {raw_count}")
    inputs: list[tuple[str, _Planned]] = []
    for given, place in zip(request.inputs, places, strict=True):
        if place is not None:
            tensor = SharedTensor(_type_of(given, model), tuple(given.shape), place)
        elif not raw_count:
            tensor = typed_tensor(_type_of(given, model), given, model)
        else:
            tensor = RawInput(_type_of(given, model), tuple(given.shape))
        inputs.append((given.name, tensor))
    return tuple(inputs)


def _place_of(given: _Input) -> SharedPlace | None:
    if not given.parameters:
        return None
    what = f"input '{given.name}'"
    place = place_of(decode_parameters(given.parameters), what)
    if place is not None and given.HasField("contents"):
        raise beside_region(what, "contents")
    return place


def _forms(request: pb.ModelInferRequest) -> dict[int, OutputForm]:
    forms = {
        position: output_form(decode_parameters(output.parameters), output.name)
        for position, output in enumerate(request.outputs)
        if output.parameters
    }
    return {position: form for position, form in forms.items() if form is not None}


def _type_of(given: _Input, model_name: str) -> ElementType:
    return input_type(given.datatype, given.name, model_name)
