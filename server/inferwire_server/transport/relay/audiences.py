"""Which workers answer which call, by three tables. What is not named in them is answered where it arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from starlette.routing import compile_path

from inferwire_proto.inferwire.v1 import inference_pb2 as pb
from inferwire_server.open_inference.stubs.grpc_service_pb2 import LogSettingsRequest
from inferwire_server.transport.relay.sums import (
    Sum,
    sum_devices,
    sum_json,
    sum_metrics,
    sum_statistics,
)
from inferwire_server.transport.rpc.oip_codec import split_request
from inferwire_server.transport.rpc.requests import parse


class Reach(Enum):
    """Which one worker has to answer a call.

    Attributes:
        OWNER: The worker that has made what the call names.
        STATES: The lead, if the model that the call names keeps states: they have to be in one place.
    """

    OWNER = auto()
    STATES = auto()


class Everywhere(Enum):
    """Every worker has to answer, the lead first. Each kind is named after what its calls change in all workers.

    Changes of one kind are made one after the other, but do not wait for those of another kind.
    """

    MODELS = auto()
    LOGS = auto()
    SHARED_MEMORY = auto()


@dataclass(frozen=True, slots=True)
class Summed:
    """Every worker has to answer, and the caller gets the sum."""

    add: Sum


Audience: TypeAlias = Reach | Everywhere | Summed


class RpcAudience(NamedTuple):
    """The audience of a gRPC call, and how what it names is read from its message.

    Attributes:
        reads: Tells whether a message only asks for what is the same in every worker: then it is answered where it
            arrives. None if no message of the call does.
    """

    audience: Audience
    subject: Callable[[bytes], str] = lambda _: ""
    reads: Callable[[bytes], bool] | None = None


class HttpAudience(NamedTuple):
    """The audience of an HTTP call, and what its path names."""

    audience: Audience
    subject: str


def _job(request: type[pb.WaitRequest | pb.GetResultRequest | pb.CancelRequest]) -> Callable[[bytes], str]:
    return lambda data: parse(request, data).job_id


def _model(data: bytes) -> str:
    _, head, _ = split_request(data)
    return head.model_name


def _sets_nothing(data: bytes) -> bool:
    return not parse(LogSettingsRequest, data).settings


RPC: Mapping[str, RpcAudience] = {
    "inference.GRPCInferenceService.ModelInfer": RpcAudience(Reach.STATES, _model),
    "inference.GRPCInferenceService.ModelStatistics": RpcAudience(Summed(sum_statistics)),
    "inference.GRPCInferenceService.RepositoryModelLoad": RpcAudience(Everywhere.MODELS),
    "inference.GRPCInferenceService.RepositoryModelUnload": RpcAudience(Everywhere.MODELS),
    "inference.GRPCInferenceService.LogSettings": RpcAudience(Everywhere.LOGS, reads=_sets_nothing),
    "inference.GRPCInferenceService.SystemSharedMemoryRegister": RpcAudience(Everywhere.SHARED_MEMORY),
    "inference.GRPCInferenceService.SystemSharedMemoryUnregister": RpcAudience(Everywhere.SHARED_MEMORY),
    "inferwire.v1.InferenceService.Wait": RpcAudience(Reach.OWNER, _job(pb.WaitRequest)),
    "inferwire.v1.InferenceService.GetResult": RpcAudience(Reach.OWNER, _job(pb.GetResultRequest)),
    "inferwire.v1.InferenceService.Cancel": RpcAudience(Reach.OWNER, _job(pb.CancelRequest)),
    "inferwire.v1.ModelService.LoadModel": RpcAudience(Everywhere.MODELS),
    "inferwire.v1.ModelService.UnloadModel": RpcAudience(Everywhere.MODELS),
    "inferwire.v1.DeviceService.ListDevices": RpcAudience(Summed(sum_devices)),
}
"""Calls with one message each way."""

SESSIONS = frozenset(
    {
        "inferwire.v1.InferenceService.Infer",
        "inferwire.v1.InferenceService.StartAsync",
        "inferwire.v1.InferenceService.Session",
        "inferwire.v1.StateService.GetStates",
        "inferwire.v1.StateService.SetStates",
        "inferwire.v1.StateService.ResetStates",
        "inferwire.v1.TensorService.CreateTensor",
        "inferwire.v1.TensorService.PutTensor",
        "inferwire.v1.TensorService.GetTensor",
        "inferwire.v1.TensorService.LendMemory",
        "inferwire.v1.ModelService.HasBlobs",
        "inferwire.v1.ModelService.Upload",
        "inferwire.v1.ModelService.Read",
        "inferwire.v1.ModelService.ListNodes",
        "inferwire.v1.ModelService.DescribePreprocessing",
        "inferwire.v1.ModelService.Compile",
        "inferwire.v1.ModelService.Query",
        "inferwire.v1.ModelService.Import",
        "inferwire.v1.ModelService.Export",
        "inferwire.v1.ModelService.ListLayers",
        "inferwire.v1.ModelService.GetRuntimeModel",
        "inferwire.v1.ModelService.Release",
    }
)
"""gRPC calls that use what a session owns: the worker that has the session answers, if their metadata names one."""

HTTP: tuple[tuple[str, str, Audience], ...] = (
    ("POST", "/v2/models/{subject}/infer", Reach.STATES),
    ("POST", "/v2/models/{subject}/versions/{version}/infer", Reach.STATES),
    ("POST", "/inferwire/v1/models/{subject}/jobs", Reach.STATES),
    ("POST", "/inferwire/v1/models/{subject}/versions/{version}/jobs", Reach.STATES),
    ("GET", "/inferwire/v1/jobs/{subject}", Reach.OWNER),
    ("DELETE", "/inferwire/v1/jobs/{subject}", Reach.OWNER),
    ("GET", "/inferwire/v1/jobs/{subject}/result", Reach.OWNER),
    ("POST", "/v2/repository/models/{model}/load", Everywhere.MODELS),
    ("POST", "/v2/repository/models/{model}/unload", Everywhere.MODELS),
    ("POST", "/v1/config/reload", Everywhere.MODELS),
    ("POST", "/v2/logging", Everywhere.LOGS),
    ("POST", "/v2/systemsharedmemory/region/{region:path}/register", Everywhere.SHARED_MEMORY),
    ("POST", "/v2/systemsharedmemory/region/{region:path}/unregister", Everywhere.SHARED_MEMORY),
    ("POST", "/v2/systemsharedmemory/unregister", Everywhere.SHARED_MEMORY),
    ("GET", "/v2/models/stats", Summed(sum_json)),
    ("GET", "/v2/models/{model}/stats", Summed(sum_json)),
    ("GET", "/v2/models/{model}/versions/{version}/stats", Summed(sum_json)),
    ("GET", "/inferwire/v1/devices", Summed(sum_json)),
    ("GET", "/metrics", Summed(sum_metrics)),
)
"""Calls by method and path; a path's `subject` is what the audience is about."""

_PATTERNS = tuple((method, compile_path(path)[0].match, audience) for method, path, audience in HTTP)


@lru_cache(256)
def http_audience(method: str, path: str) -> HttpAudience | None:
    """Give the audience of an HTTP call; None for one that is answered where it arrives."""
    method = "GET" if method == "HEAD" else method
    for wanted, match, audience in _PATTERNS:
        if method == wanted and (found := match(path)) is not None:
            return HttpAudience(audience, found.groupdict().get("subject", ""))
    return None
