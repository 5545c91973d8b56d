"""Our copy of the Open Inference Protocol is, field for field, the one its clients are built from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tritonclient.grpc.model_config_pb2 as their_config
import tritonclient.grpc.service_pb2 as theirs

from inferwire_server.open_inference.stubs import grpc_service_pb2 as ours
from inferwire_server.open_inference.stubs import model_config_pb2 as our_config


def fields(message: Any) -> Iterator[tuple[Any, ...]]:
    """Describe all that goes over the wire of a message and those inside it."""
    for field in message.fields:
        kind = field.message_type or field.enum_type
        oneof = field.containing_oneof
        yield (
            message.full_name,
            field.name,
            field.number,
            field.type,
            field.is_repeated,
            kind.full_name if kind else None,
            oneof.name if oneof else None,
        )
    for nested in message.nested_types:
        yield from fields(nested)


def enums(scope: Any) -> Iterator[tuple[str, str, int]]:
    """Describe the enumerations of a file or a message."""
    for enum in scope.enum_types_by_name.values():
        yield from ((enum.full_name, value.name, value.number) for value in enum.values)


def messages(module: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (entry for message in module.DESCRIPTOR.message_types_by_name.values() for entry in fields(message)), key=str
    )


def all_enums(module: Any) -> list[tuple[str, str, int]]:
    file = module.DESCRIPTOR
    nested = [entry for message in file.message_types_by_name.values() for entry in enums(message)]
    return sorted([*enums(file), *nested])


def calls(module: Any) -> list[tuple[Any, ...]]:
    service = module.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    return sorted(
        (m.full_name, m.input_type.full_name, m.output_type.full_name, m.client_streaming, m.server_streaming)
        for m in service.methods
    )


def test_the_messages_are_the_same() -> None:
    assert messages(ours) == messages(theirs)
    assert messages(our_config) == messages(their_config)


def test_the_enumerations_are_the_same() -> None:
    assert all_enums(our_config) == all_enums(their_config) != []


def test_the_calls_are_the_same() -> None:
    assert calls(ours) == calls(theirs) != []


def test_the_two_copies_live_in_pools_of_their_own() -> None:
    assert ours.DESCRIPTOR.pool is not theirs.DESCRIPTOR.pool
