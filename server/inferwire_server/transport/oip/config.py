"""The Open Inference Protocol's model configuration: what both of its interfaces say of a model.

It knows neither protobuf nor JSON: the protocol names the fields of both alike, and so do the values here. They say
what is true of the model here, and nothing of what is not.
"""

from __future__ import annotations

from typing import Any

from inferwire_proto.element_types import ElementType
from inferwire_server.core.labels import labels_fit
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.bindings import BindingTerms
from inferwire_server.core.scheduling.lane import Terms
from inferwire_server.core.specs import PortSpec
from inferwire_server.service import Services
from inferwire_server.service.models import Model
from inferwire_server.service.values import ServedModel
from inferwire_server.transport.oip.metadata import PLATFORM, dimensions

_FORMATS = {
    "[N,C,H,W]": "FORMAT_NCHW",
    "[C,H,W]": "FORMAT_NCHW",
    "[N,H,W,C]": "FORMAT_NHWC",
    "[H,W,C]": "FORMAT_NHWC",
}
"""The configuration's words for layouts of pictures; for others it has none."""

_KINDS = {"CPU": "KIND_CPU", "GPU": "KIND_GPU"}


def config(services: Services, name: str, version: str) -> dict[str, Any]:
    """Describe a model as its configuration.

    Raises:
        ServingError: If there is none, or it is not ready.
    """
    return describe(services.models.resolve(ServedModel(name, version)), services.models.versions(name))


def describe(model: Model, versions: tuple[str, ...]) -> dict[str, Any]:
    """Write a model's configuration.

    If the server batches the model's jobs, dimensions are those of one row. If not, the largest batch is 0, by which
    the protocol means that shapes are whole, with whatever batch is in them.
    """
    batching = model.terms.batching
    is_batched = batching is not None
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "version_policy": {"specific": {"versions": [int(version) for version in versions]}},
        "max_batch_size": 0 if batching is None else batching.max_size,
        "input": [
            {
                **_tensor(port, is_batched=is_batched),
                "format": _FORMATS.get(port.layout, "FORMAT_NONE"),
                "optional": False,
                "allow_ragged_batch": False,
            }
            for port in model.spec.inputs
        ],
        "output": [{**_tensor(port, is_batched=is_batched), **_labels(model, port)} for port in model.spec.outputs],
        **_scheduling(model.terms),
        "instance_group": [
            {
                "name": model.name,
                "kind": _KINDS.get(model.device.name.partition(".")[0], "KIND_AUTO"),
                "count": model.slots,
            }
        ],
        "model_transaction_policy": {"decoupled": False},
        "response_cache": {"enable": False},
    }


def data_type(element_type: ElementType) -> str:
    """Give a configuration's name of an element type."""
    if element_type.oip is None:
        return "TYPE_INVALID"
    return "TYPE_STRING" if element_type.is_string else f"TYPE_{element_type.oip}"


def _tensor(port: PortSpec, *, is_batched: bool) -> dict[str, Any]:
    shape = dimensions(port)
    return {
        "name": port.oip_name,
        "data_type": data_type(port.element_type),
        "dims": list(shape[1:] if is_batched and port.shape is not None else shape),
    }


def _labels(model: Model, port: PortSpec) -> dict[str, str]:
    """Name the file of the labels of an output that may have as many classes."""
    labels = model.options.labels
    return {"label_filename": model.options.label_file} if labels and labels_fit(port, labels) else {}


def _scheduling(terms: Terms) -> dict[str, Any]:
    if terms.batching is not None:
        return {"dynamic_batching": _dynamic_batching(terms.batching)}
    if terms.binding is not None:
        return {"sequence_batching": _sequence_batching(terms.binding)}
    return {}


def _dynamic_batching(batching: Batching) -> dict[str, Any]:
    return {
        "preferred_batch_size": list(batching.preferred),
        "max_queue_delay_microseconds": round(batching.max_delay_s * 1e6),
    }


def _sequence_batching(binding: BindingTerms) -> dict[str, Any]:
    """Describe sequences that each keep states of their own: how many there may be at once, and how long idle."""
    return {
        "oldest": {"max_candidate_sequences": binding.most},
        "max_sequence_idle_microseconds": round(binding.idle_s * 1e6),
    }
