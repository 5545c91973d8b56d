"""Which services answer on the gRPC port: those of both protocols, and gRPC's own."""

from __future__ import annotations

from typing import Any

from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection

from inferwire_proto.inferwire.v1 import devices_pb2, inference_pb2, models_pb2, states_pb2, tensors_pb2
from inferwire_server.open_inference.stubs import grpc_service_pb2
from inferwire_server.service import Services
from inferwire_server.transport.rpc import oip_calls
from inferwire_server.transport.rpc.device_calls import DeviceCalls
from inferwire_server.transport.rpc.health_calls import HealthCalls
from inferwire_server.transport.rpc.inference_calls import InferenceCalls
from inferwire_server.transport.rpc.methods import Around, Method, Service, methods_of
from inferwire_server.transport.rpc.model_calls import ModelCalls
from inferwire_server.transport.rpc.oip_calls import OipCalls
from inferwire_server.transport.rpc.reflection import reflecting
from inferwire_server.transport.rpc.state_calls import StateCalls
from inferwire_server.transport.rpc.tensor_calls import TensorCalls
from inferwire_server.transport.session.socket_sessions import SocketSessions
from inferwire_server.transport.trace_context import JoinTrace

_HEALTH: Any = health_pb2.DESCRIPTOR.services_by_name["Health"]


def offered(services: Services, sockets: SocketSessions, max_message_bytes: int) -> list[Service]:
    """List the services, but for gRPC's own."""
    inference = InferenceCalls(services, sockets, max_message_bytes)
    oip = OipCalls(services, sockets.drain, max_message_bytes)
    return [
        Service(
            grpc_service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"],
            oip,
            keyless=oip_calls.KEYLESS,
            is_mirror=False,
        ),
        Service(
            inference_pb2.DESCRIPTOR.services_by_name["InferenceService"],
            inference,
            keeping=frozenset({"Session"}),
            fetching=frozenset({"GetResult"}),
        ),
        Service(
            states_pb2.DESCRIPTOR.services_by_name["StateService"],
            StateCalls(services, max_message_bytes),
            fetching=frozenset({"GetStates"}),
        ),
        Service(
            tensors_pb2.DESCRIPTOR.services_by_name["TensorService"],
            TensorCalls(services, max_message_bytes),
            fetching=frozenset({"GetTensor"}),
            on_host=frozenset({"LendMemory"}),
        ),
        Service(
            models_pb2.DESCRIPTOR.services_by_name["ModelService"],
            ModelCalls(services),
            fetching=frozenset({"Export"}),
        ),
        Service(devices_pb2.DESCRIPTOR.services_by_name["DeviceService"], DeviceCalls(services)),
    ]


def health_service(health: HealthCalls) -> Service:
    """Give gRPC's own service of the server's health, which asks for no key."""
    return Service(_HEALTH, health, keyless=frozenset(_HEALTH.methods_by_name))


def methods_by_path(services: list[Service], join_trace: JoinTrace | None, around: Around | None) -> dict[str, Method]:
    """Give what answers the calls of each path: those of the services, and of gRPC's reflection of them all."""
    methods = {path: method for service in services for path, method in methods_of(service, join_trace, around)}
    methods[f"/{reflection.SERVICE_NAME}/ServerReflectionInfo"] = Method(reflecting(services), takes_stream=True)
    return methods
