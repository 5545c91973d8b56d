"""The committed baseline has all of the contract: what is not in it, `make proto-lint` does not keep from changing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

PROTO = Path(__file__).resolve().parents[2] / "proto"
FOLDERS = ("inferwire_proto", "open_inference")


def of_enum(place: str, enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {place}{enum.name}"
    yield from (f"{place}{enum.name}.{value.name} = {value.number}" for value in enum.value)


def of_message(place: str, message: DescriptorProto) -> Iterator[str]:
    name = f"{place}{message.name}"
    yield f"message {name}"
    for field in message.field:
        kind = FieldDescriptorProto.Type.Name(field.type)
        yield f"{name}.{field.name} = {field.number}, {kind} {field.type_name}"
    for nested in message.nested_type:
        yield from of_message(f"{name}.", nested)
    for enum in message.enum_type:
        yield from of_enum(f"{name}.", enum)


def of_file(file: FileDescriptorProto) -> Iterator[str]:
    place = f"{file.package}."
    for message in file.message_type:
        yield from of_message(place, message)
    for enum in file.enum_type:
        yield from of_enum(place, enum)
    for service in file.service:
        yield f"service {place}{service.name}"
        for method in service.method:
            yield f"rpc {place}{service.name}.{method.name}({method.input_type}) returns ({method.output_type})"


def parts_of(files: Iterable[FileDescriptorProto]) -> set[str]:
    return {part for file in files for part in of_file(file)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_baseline_has_every_part_of_the_protos(folder: str, tmp_path: Path) -> None:
    sources = sorted(str(path.relative_to(PROTO / folder)) for path in (PROTO / folder).rglob("*.proto"))
    described = tmp_path / "described.binpb"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO / folder}", f"--descriptor_set_out={described}"]
    subprocess.run([*command, *sources], check=True)
    protos = parts_of(FileDescriptorSet.FromString(described.read_bytes()).file)
    # An image of buf's is a descriptor set with more about each file.
    baseline = parts_of(FileDescriptorSet.FromString((PROTO / "baseline.binpb").read_bytes()).file)
    missing = sorted(protos - baseline)
    assert len(protos) > 100
    assert missing == [], "the baseline of the protos is old: run `make proto-baseline`"
