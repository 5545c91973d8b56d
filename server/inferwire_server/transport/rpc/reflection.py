"""gRPC's reflection, which tells tools what can be called: it shows the services of both protocols and gRPC's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection, reflection_pb2

from inferwire_server.transport.rpc.context import Context
from inferwire_server.transport.rpc.methods import RawCall, Service, requests


def reflecting(services: list[Service]) -> RawCall:
    """Make what answers gRPC's reflection."""
    names = [*(service.name for service in services), reflection.SERVICE_NAME]
    answering: Any = reflection.aio.ReflectionServicer(names, pool=_reflected(services))

    async def reflect(_: bytes, context: Context) -> None:
        answers: AsyncIterator[reflection_pb2.ServerReflectionResponse] = answering.ServerReflectionInfo(
            requests(reflection_pb2.ServerReflectionRequest, context), None
        )
        async for answer in answers:
            await context.write(answer.SerializeToString())

    return reflect


def _reflected(services: list[Service]) -> DescriptorPool:
    """Gather what reflection shows: the files of all services, from whatever pool they are in."""
    pool = DescriptorPool()
    seen: set[str] = set()
    files: list[Any] = [service.descriptor.file for service in services]
    for file in (*files, reflection_pb2.DESCRIPTOR):
        for needed in _with_dependencies(file):
            if needed.name not in seen:
                seen.add(needed.name)
                proto = FileDescriptorProto()
                needed.CopyToProto(proto)
                pool.Add(proto)
    return pool


def _with_dependencies(file: Any) -> Iterator[FileDescriptor]:
    for dependency in file.dependencies:
        yield from _with_dependencies(dependency)
    yield file
