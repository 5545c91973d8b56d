"""What both faces of the Open Inference Protocol share: names, metadata, parameters, answers.

It knows neither protobuf nor JSON. Where clients match on a sentence, that sentence is the protocol's
reference server's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from inferwire_proto.element_types import BY_NAME, BY_OIP, ElementType
from inferwire_server.core.job import Job
from inferwire_server.core.specs import ModelSpec, PortSpec
from inferwire_server.core.tensor_checks import MOST_DIMENSIONS, check_shape
from inferwire_server.core.tensors import Tensor, write_shape
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service import Services
from inferwire_server.service.values import (
    Inference,
    OutputForm,
    ServedModel,
    SharedPlace,
    SharedTensor,
    TopClasses,
)
from inferwire_server.transport.oip_parameters import (
    NO_PARAMETERS,
    Parameters,
    priority_of,
    refuse_reserved,
    sequence_of,
    timeout_s_of,
)
from inferwire_server.transport.oip_shared_memory import beside_region, place_of

OipInputs: TypeAlias = tuple[tuple[str, Tensor | SharedTensor], ...]
"""The inputs of a request, each by its name."""

PLATFORM = "openvino"

EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "logging",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "sequence",
    "statistics",
)
"""The extensions that every server offers."""

FINAL_RESPONSE = "triton_final_response"
"""The parameter that says whether an answer on a stream is its request's last."""

_NAMES_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "bfloat16": "BF16",
        "float16": "FP16",
        "half": "FP16",
        "float32": "FP32",
        "float": "FP32",
        "float64": "FP64",
        "double": "FP64",
        "str": "BYTES",
    }
)
"""What numpy and others call a datatype, which neither the protocol nor OpenVINO calls so."""

_NO_FORMS: Mapping[int, OutputForm] = MappingProxyType({})


class OipCall(NamedTuple):
    """One inference as a face of the protocol has decoded it, but for its inputs. One call serves any number of them.

    Attributes:
        wanted: What is to run, without the inputs.
    """

    model: ServedModel
    wanted: Inference

    @classmethod
    def of(
        cls,
        model: ServedModel,
        outputs: tuple[str, ...] = (),
        parameters: Parameters = NO_PARAMETERS,
        forms: Mapping[int, OutputForm] = _NO_FORMS,
    ) -> OipCall:
        """Say what a request asks for with these parameters.

        Raises:
            ServingError: INVALID_INPUT for a parameter.
        """
        refuse_reserved(parameters)
        wanted = Inference(
            target=model,
            inputs=(),
            outputs=outputs,
            priority=priority_of(parameters),
            timeout_s=timeout_s_of(parameters),
            sequence=sequence_of(parameters, model.name),
            forms=forms,
            check_outputs=check_outputs,
        )
        return cls(model, wanted)

    def inference(self, inputs: OipInputs) -> Inference:
        """Say what is to run on these inputs."""
        return self.wanted._replace(inputs=inputs)


class OipOutput(NamedTuple):
    """One output of an answer. One that has a place was written there, and is no part of the answer itself."""

    name: str
    datatype: str
    tensor: Tensor
    place: SharedPlace | None = None


class OipAnswer(NamedTuple):
    """The answer of an inference."""

    model_name: str
    model_version: str
    outputs: tuple[OipOutput, ...]


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """One input or output of a model; -1 for a dimension of any length."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What the protocol says of a model, and beside it, as OpenVINO Model Server does over REST, what its file says."""

    name: str
    versions: tuple[str, ...]
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    rt_info: Mapping[str, Any]
    platform: str = PLATFORM


def extensions(services: Services) -> tuple[str, ...]:
    """List the extensions of this server; a client may call only what is listed."""
    return (*EXTENSIONS, "system_shared_memory") if services.shared_memory.is_offered else EXTENSIONS


def metadata(services: Services, name: str, version: str) -> ModelMetadata:
    """Describe a served model.

    Raises:
        ServingError: If there is none, or it is not ready.
    """
    spec = services.models.resolve(ServedModel(name, version)).spec
    return ModelMetadata(
        name=name,
        versions=services.models.versions(name),
        inputs=tuple(map(_tensor_metadata, spec.inputs)),
        outputs=tuple(map(_tensor_metadata, spec.outputs)),
        rt_info=spec.rt_info,
    )


def answer(services: Services, call: OipCall, job: Job) -> OipAnswer:
    """Name the outputs of an ended job.

    Raises:
        ServingError: Why the job has none, or that the protocol cannot carry one.
    """
    tensors = job.result()
    model = services.models.of(job)
    spec, forms = model.spec, call.wanted.forms
    outputs = [
        _output(spec, spec.outputs[index], tensor, forms.get(position))
        for position, (index, tensor) in enumerate(zip(job.work.outputs, tensors, strict=True))
    ]
    return OipAnswer(call.model.name, model.version, tuple(outputs))


def check_outputs(spec: ModelSpec, wanted: Sequence[int]) -> None:
    """Refuse outputs that have no datatype, before they are computed for nobody.

    Raises:
        ServingError: INVALID_INPUT.
    """
    for index in wanted:
        if spec.outputs[index].element_type.oip is None:
            raise _without_datatype(spec, spec.outputs[index])


def input_type(datatype: str, input_name: str, model_name: str) -> ElementType:
    """Give the element type of a datatype that an input states.

    Raises:
        ServingError: INVALID_INPUT for a name the protocol has not.
    """
    element_type = BY_OIP.get(datatype)
    if element_type is not None:
        return element_type
    prefix = f"input '{input_name}' of model '{model_name}' has datatype '{datatype}'"
    row = BY_NAME.get(datatype.lower())
    if row is not None and row.oip is None:
        raise invalid_input(f"{prefix}, which the Open Inference Protocol cannot carry; use inferwire.v1 for it")
    meant = _meant(datatype) if row is None else row.oip
    hint = "" if meant is None else f"; did you mean {meant}?"
    raise invalid_input(f"{prefix}, expected one of {' '.join(BY_OIP)}{hint}")


def check_count(count: int, shape: tuple[int, ...], datatype: str, input_name: str, model_name: str) -> None:
    """Refuse elements whose number is not the shape's, and a shape that no tensor has.

    Raises:
        ServingError: INVALID_INPUT.
    """
    if len(shape) <= MOST_DIMENSIONS and count == prod(shape) and min(shape, default=0) >= 0:
        return
    prefix = f"input '{input_name}' of model '{model_name}'"
    check_shape(prefix, shape)
    raise invalid_input(f"{prefix} has {count} elements, expected {prod(shape)} for {datatype}{write_shape(shape)}")


def contents_beside_raw(input_name: str, model_name: str) -> ServingError:
    """Refuse elements in a message whose tensors are raw."""
    return invalid_input(
        f"contents field must not be specified when using raw_input_contents for '{input_name}' "
        f"for model '{model_name}'"
    )


def output_form(parameters: Parameters, output_name: str) -> OutputForm | None:
    """Read how an output is wanted; None for as it is.

    Raises:
        ServingError: INVALID_INPUT for a parameter that is not as it has to be, or forms that exclude one another.
    """
    what = f"output '{output_name}'"
    place, classes = place_of(parameters, what), _classes(parameters, what)
    if place is not None and classes is not None:
        raise beside_region(what, "classification")
    return place or classes


def _classes(parameters: Parameters, what: str) -> TopClasses | None:
    count = parameters.get("classification", 0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise invalid_input(f"parameter 'classification' of {what} is {count!r}, expected a whole number from 0 on")
    return TopClasses(count) if count else None


def _meant(datatype: str) -> str | None:
    """Guess the protocol's name of what others write otherwise, as TensorFlow or a model configuration do."""
    name = datatype.upper().removeprefix("TYPE_")
    return name if name in BY_OIP else _NAMES_ELSEWHERE.get(name.lower())


def datatype_of(element_type: ElementType) -> str:
    """Give the protocol's name of a type, or OpenVINO's in capitals where the protocol has none."""
    return element_type.oip or element_type.name.upper()


def dimensions(port: PortSpec) -> tuple[int, ...]:
    """Give a port's dimensions as the protocol writes them; it has no words for a rank that is not known."""
    return (-1,) if port.shape is None else tuple(d.min if d.is_static else -1 for d in port.shape)


def _output(spec: ModelSpec, port: PortSpec, tensor: Tensor, form: OutputForm | None) -> OipOutput:
    datatype = tensor.element_type.oip
    if datatype is None:
        # The job was started over inferwire.v1, which carries it.
        raise _without_datatype(spec, port)
    place = form if isinstance(form, SharedPlace) else None
    return OipOutput(port.oip_name, datatype, tensor, place)


def _without_datatype(spec: ModelSpec, port: PortSpec) -> ServingError:
    return invalid_input(
        f"output '{port.oip_name}' of model '{spec.name}' has element type {port.element_type.name}, "
        "which the Open Inference Protocol cannot carry; use inferwire.v1 for it, or ask for other outputs"
    )


def _tensor_metadata(port: PortSpec) -> TensorMetadata:
    return TensorMetadata(port.oip_name, datatype_of(port.element_type), dimensions(port))
