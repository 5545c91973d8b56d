"""The protocol's shared memory extension, as both interfaces share it: the parameters of tensors, and CUDA's part.

A server without GPUs of CUDA's kind has no such regions: none is listed, none is there to be taken away.
"""

from __future__ import annotations

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.service.values import SharedPlace
from inferwire_server.transport.oip.parameters import Parameters, whole_number

REGION = "shared_memory_region"
_OFFSET = "shared_memory_offset"
_BYTE_SIZE = "shared_memory_byte_size"


def place_of(parameters: Parameters, what: str) -> SharedPlace | None:
    """Read where a tensor lies in shared memory; None for one that does not. `what` names it.

    Raises:
        ServingError: INVALID_INPUT for a parameter that is not as it has to be, or is missing.
    """
    if REGION not in parameters:
        return None
    region = parameters[REGION]
    if not isinstance(region, str) or not region:
        raise invalid_input(f"parameter '{REGION}' of {what} is {region!r}, expected a region's name")
    if _BYTE_SIZE not in parameters:
        raise invalid_input(f"{what} is in shared memory region '{region}', but has no parameter '{_BYTE_SIZE}'")
    offset, byte_size = (whole_number(parameters, name, what=what) for name in (_OFFSET, _BYTE_SIZE))
    return SharedPlace(region, offset, byte_size)


def parameters_of(place: SharedPlace, byte_size: int) -> dict[str, str | int]:
    """Say where an output has been written to, and how much of it."""
    return {REGION: place.region, _OFFSET: place.offset, _BYTE_SIZE: byte_size}


def beside_region(what: str, given: str) -> ServingError:
    """Refuse a tensor that lies in shared memory and is given in another way as well."""
    return invalid_input(f"{what} has both '{given}' and '{REGION}', expected one of them")


def check_cuda_status(name: str) -> None:
    """Refuse to describe a region of a GPU by its name. An empty name stands for all of them, of which there are none.

    Raises:
        ServingError: TENSOR_NOT_FOUND.
    """
    if name:
        raise ServingError(Code.TENSOR_NOT_FOUND, f"Unable to find cuda shared memory region: '{name}'")


def no_cuda(name: str) -> ServingError:
    """Refuse to register a region of a GPU."""
    return ServingError(
        Code.UNIMPLEMENTED,
        f"CUDA shared memory region '{name}' cannot be registered: this server runs on OpenVINO's devices, "
        "expected system shared memory",
    )
