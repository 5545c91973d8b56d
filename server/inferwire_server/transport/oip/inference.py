"""An inference as both interfaces of the Open Inference Protocol decode it, and its answer as both encode it.

Knows neither protobuf nor JSON. Where clients match on a sentence, that sentence is the protocol's reference server's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.job import Job
from inferwire_server.core.specs import ModelSpec, PortKey, PortSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import Services
from inferwire_server.service.values import OutputForm, ServedModel, SharedPlace, TopClasses, Wanted
from inferwire_server.transport.oip.parameters import (
    NO_PARAMETERS,
    Parameters,
    priority_of,
    refuse_reserved,
    sequence_of,
    timeout_s_of,
)
from inferwire_server.transport.oip.shared_memory import beside_region, place_of

FINAL_RESPONSE = "triton_final_response"
"""The parameter that says whether an answer on a stream is its request's last."""

_NO_FORMS: Mapping[int, OutputForm] = MappingProxyType({})


class OipOutput(NamedTuple):
    """One output of an answer. One that has a place was written there, and is no part of the answer itself."""

    name: str
    datatype: str
    tensor: Tensor
    place: SharedPlace | None


class OipAnswer(NamedTuple):
    """The answer of an inference."""

    model_name: str
    model_version: str
    outputs: tuple[OipOutput, ...]


def wanted_of(
    model: ServedModel,
    outputs: tuple[str, ...] = (),
    parameters: Parameters = NO_PARAMETERS,
    forms: Mapping[int, OutputForm] = _NO_FORMS,
) -> Wanted:
    """Say what a request wants with these parameters.

    Raises:
        ServingError: INVALID_INPUT for a parameter.
    """
    refuse_reserved(parameters)
    return Wanted(
        target=model,
        outputs=outputs,
        priority=priority_of(parameters),
        timeout_s=timeout_s_of(parameters),
        sequence=sequence_of(parameters, model.name),
        forms=forms,
        check_outputs=check_outputs,
    )


def answer_of(services: Services, wanted: Wanted, job: Job) -> OipAnswer:
    """Name the outputs of an ended job: by what each was asked for, since callers look for that name in the answer.

    Raises:
        ServingError: Why the job has none, or that the protocol cannot carry one.
    """
    if wanted.timeout_s is not None and job.error is not None and job.error.code is Code.DEADLINE_EXCEEDED:
        raise _late(job.error, wanted.timeout_s)
    tensors = job.result()
    model = services.models.of(job)
    spec, ports, asked, forms = model.spec, job.work.outputs, wanted.outputs, wanted.forms
    outputs = [
        _output(spec, spec.outputs[ports[position]], tensor, forms.get(position), asked[position] if asked else None)
        for position, tensor in enumerate(tensors)
    ]
    return OipAnswer(model.name, model.version, tuple(outputs))


def check_outputs(spec: ModelSpec, wanted: Sequence[int]) -> None:
    """Refuse outputs that have no datatype, before they are computed in vain.

    Raises:
        ServingError: INVALID_INPUT.
    """
    for index in wanted:
        if spec.outputs[index].element_type.oip is None:
            raise _without_datatype(spec, spec.outputs[index])


def output_form(parameters: Parameters, output_name: str) -> OutputForm | None:
    """Read the form in which an output is wanted; None for the output as it is.

    Raises:
        ServingError: INVALID_INPUT for a parameter that is not as it has to be, or forms that exclude one another.
    """
    what = f"output '{output_name}'"
    place, classes = place_of(parameters, what), _classes(parameters, what)
    if place is not None and classes is not None:
        raise beside_region(what, "classification")
    return place or classes


def _late(error: ServingError, timeout_s: float) -> ServingError:
    """Say that the time limit that has passed is a parameter in microseconds: many callers pass one in seconds."""
    sentence = f"{error.message}: parameter 'timeout' is {round(timeout_s * 1e6)} microseconds"
    return ServingError(error.code, sentence, is_of_job=True)


def _classes(parameters: Parameters, what: str) -> TopClasses | None:
    count = parameters.get("classification", 0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise invalid_input(f"parameter 'classification' of {what} is {count!r}, expected a whole number from 0 on")
    return TopClasses(count) if count else None


def _output(
    spec: ModelSpec, port: PortSpec, tensor: Tensor, form: OutputForm | None, asked: PortKey | None
) -> OipOutput:
    datatype = tensor.element_type.oip
    if datatype is None:
        # The job was started over inferwire.v1, which carries it.
        raise _without_datatype(spec, port)
    place = form if isinstance(form, SharedPlace) else None
    return OipOutput(asked if isinstance(asked, str) else port.oip_name, datatype, tensor, place)


def _without_datatype(spec: ModelSpec, port: PortSpec) -> ServingError:
    return invalid_input(
        f"output '{port.oip_name}' of model '{spec.name}' has element type {port.element_type.name}, "
        "which the Open Inference Protocol cannot carry; use inferwire.v1 for it, or ask for other outputs"
    )
