"""What the parameters of an Open Inference Protocol's request say of how it is to be run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from inferwire_server.core.limits import INT64_MAX
from inferwire_server.errors import invalid_input
from inferwire_server.service.names import check_name
from inferwire_server.service.values import SequenceCall

Parameter: TypeAlias = bool | int | float | str
Parameters: TypeAlias = Mapping[str, Parameter]

NO_PARAMETERS: Parameters = MappingProxyType({})

_OWN_TRITON_PARAMETERS = frozenset({"triton_enable_empty_final_response"})
NORMAL_PRIORITY = 2**31


def refuse_reserved(parameters: Parameters) -> None:
    """Refuse names that the protocol's reference server keeps for itself.

    Raises:
        ServingError: INVALID_INPUT.
    """
    for name in parameters:
        if name.startswith("triton_") and name not in _OWN_TRITON_PARAMETERS:
            raise invalid_input(f"parameter '{name}' starts with 'triton_', which is reserved; expected another name")


def sequence_of(parameters: Parameters, model_name: str) -> SequenceCall | None:
    """Give the sequence that a request belongs to; ids 0 and "" are none.

    An id that is a number has 64 bits and no sign. A message has only a signed field for it, so that clients write the
    larger half of them as negative numbers.

    Raises:
        ServingError: INVALID_INPUT.
    """
    sequence_id = parameters.get("sequence_id", 0)
    if isinstance(sequence_id, bool | float):
        raise invalid_input(f"parameter 'sequence_id' is {sequence_id!r}, expected a whole number or a text")
    if isinstance(sequence_id, str):
        check_name("parameter 'sequence_id'", sequence_id)
    else:
        sequence_id %= 2**64
    is_start, is_end = _flag(parameters, "sequence_start"), _flag(parameters, "sequence_end")
    if sequence_id:
        return SequenceCall(sequence_id, None, is_start, is_end)
    if is_start or is_end:
        raise invalid_input(
            f"inference request to model '{model_name}' must specify a non-zero or non-empty correlation ID"
        )
    return None


def _flag(parameters: Parameters, name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise invalid_input(f"parameter '{name}' is {value!r}, expected true or false")
    return value


def priority_of(parameters: Parameters) -> int:
    """Turn the protocol's priority round: there 1 is the most urgent, and 0 is none in particular.

    Raises:
        ServingError: INVALID_INPUT.
    """
    given = whole_number(parameters, "priority", 2 * NORMAL_PRIORITY - 1)
    return NORMAL_PRIORITY - given if given else 0


def timeout_s_of(parameters: Parameters) -> float | None:
    """Give the time that a request may take; None for any.

    Raises:
        ServingError: INVALID_INPUT.
    """
    microseconds = whole_number(parameters, "timeout")
    return microseconds / 1e6 if microseconds else None


def whole_number(parameters: Parameters, name: str, largest: int = INT64_MAX, what: str = "") -> int:
    """Give a parameter that counts something, 0 where it is not there; `what` names whose it is, if not the request's.

    Raises:
        ServingError: INVALID_INPUT.
    """
    value = parameters.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        of = f" of {what}" if what else ""
        raise invalid_input(f"parameter '{name}'{of} is {value!r}, expected a whole number from 0 to {largest}")
    return value
