"""What the protocol says of a server and of its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferwire_server.core.specs import PortSpec
from inferwire_server.service import Services
from inferwire_server.service.values import ServedModel
from inferwire_server.transport.oip.datatypes import datatype_of

PLATFORM = "openvino"

EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "logging",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "sequence",
    "statistics",
    "trace",
)
"""The extensions that every server offers."""


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


def extensions_of(services: Services) -> tuple[str, ...]:
    """List the extensions of this server; a client may call only what is listed."""
    return (*EXTENSIONS, "system_shared_memory") if services.shared_memory.is_offered else EXTENSIONS


def model_metadata(services: Services, name: str, version: str) -> ModelMetadata:
    """Describe a served model: the version that is asked for, which is then listed alone, or the current one of all.

    Raises:
        ServingError: If there is none, or it is not ready.
    """
    spec = services.models.resolve(ServedModel(name, version)).spec
    return ModelMetadata(
        name=name,
        versions=(str(int(version)),) if version else services.models.versions(name),
        inputs=tuple(map(_tensor_metadata, spec.inputs)),
        outputs=tuple(map(_tensor_metadata, spec.outputs)),
        rt_info=spec.rt_info,
    )


def dimensions(port: PortSpec) -> tuple[int, ...]:
    """Give a port's dimensions as the protocol writes them; it has no words for a rank that is not known."""
    return (-1,) if port.shape is None else tuple(d.min if d.is_static else -1 for d in port.shape)


def _tensor_metadata(port: PortSpec) -> TensorMetadata:
    return TensorMetadata(port.oip_name, datatype_of(port.element_type), dimensions(port))
