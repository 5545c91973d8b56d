"""Every way of running a model that is measured. The others are compared with the first that fits a case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import openvino as ov
from tests.bench import c_clients, python_clients, requests
from tests.bench.api_ways import async_queue, awaited, infer, infer_in_place
from tests.bench.load import Answered, KnownAnswers, Way
from tests.bench.networks import Array, Network
from tests.bench.requests import Request
from tests.bench.stage import SHARED_MEMORY, Stage

import inferwire
from inferwire.transport.lending import LEAST_BYTES

HINTS = {"PERFORMANCE_HINT": "THROUGHPUT"}
LARGEST_JSON = 100_000
"""The size of a tensor, in bytes, from which JSON numbers are left out, since they take a second."""

Client = Callable[[str, Request, KnownAnswers, int], Callable[[float], Answered]]
Prepare = Callable[[Network, Array], Request]
UseQueue = Callable[[Any, Any, Array, Array, int], Callable[[float], Answered]]


class Local:
    """A network compiled in this process, and its answers."""

    def __init__(self, network: Network) -> None:
        self.network = network

    @cached_property
    def compiled(self) -> Any:
        """The model."""
        return ov.Core().compile_model(self.network.path, "CPU", HINTS)

    @cached_property
    def expected(self) -> Array:
        """The output for the sample."""
        return self.compiled(self.network.sample)[0].copy()


@dataclass(frozen=True, slots=True)
class Case:
    """A network, how many inferences are kept in flight, and the servers."""

    local: Local
    in_flight: int
    stage: Stage

    @property
    def network(self) -> Network:
        """The network."""
        return self.local.network

    @property
    def title(self) -> str:
        """The title of the case."""
        return f"{self.network.name}, {self.in_flight} in flight"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of way: its name, how to make it, and whether it makes sense in a case."""

    name: str
    make: Callable[[Case, str], Way]
    fits: Callable[[Case], bool] = lambda _: True


def _alone(case: Case) -> bool:
    return case.in_flight == 1


def _many(case: Case) -> bool:
    return case.in_flight > 1


def _can_be_shared(case: Case) -> bool:
    """Whether there are two workers, and calls for both."""
    return _many(case) and case.stage.two_workers is not None


def _may_lend(case: Case) -> bool:
    """Whether there are many inputs, so large that the SDK does not send them to its own host."""
    return _many(case) and case.network.sample.nbytes >= LEAST_BYTES


def _is_transfer(case: Case) -> bool:
    return case.network.is_transfer


def _has_short_numbers(case: Case) -> bool:
    return case.network.sample.nbytes < LARGEST_JSON


def _in_process_infer(case: Case, name: str) -> Way:
    local = case.local
    return Way(name, infer(local.compiled, case.network.sample, local.expected))


def _in_process_inference(case: Case, name: str) -> Way:
    local = case.local
    return Way(name, infer_in_place(local.compiled, case.network.sample, local.expected))


def _in_process_queue(case: Case, name: str) -> Way:
    local = case.local
    return Way(name, async_queue(ov, local.compiled, case.network.sample, local.expected, case.in_flight))


def _sdk_infer(address: Callable[[Stage], str]) -> Callable[[Case, str], Way]:
    def make(case: Case, name: str) -> Way:
        remote = inferwire.Core(address(case.stage)).served_model(case.network.name)
        run = infer(remote, case.network.sample, case.local.expected)
        return Way(name, run, case.stage.server.process.pid)

    return make


def _sdk_queue(address: Callable[[Stage], str], use: UseQueue = async_queue) -> Callable[[Case, str], Way]:
    def make(case: Case, name: str) -> Way:
        remote = inferwire.Core(address(case.stage)).served_model(case.network.name)
        run = use(inferwire, remote, case.network.sample, case.local.expected, case.in_flight)
        return Way(name, run, case.stage.server.process.pid)

    return make


def _wire(client: Client, address: Callable[[Stage], str], prepare: Prepare) -> Callable[[Case, str], Way]:
    def make(case: Case, name: str) -> Way:
        request = prepare(case.network, case.local.expected)
        answers = KnownAnswers(request.read, case.local.expected, name)
        run = client(address(case.stage), request, answers, case.in_flight)
        return Way(name, run, case.stage.server.process.pid)

    return make


def _two_workers(make: Callable[[Case, str], Way]) -> Callable[[Case, str], Way]:
    """Have a way lead to the server of two workers."""
    return lambda case, name: make(replace(case, stage=case.stage.of_two_workers()), name)


def _shared_memory(case: Case, name: str) -> Way:
    """Leave the input in shared memory once, and name it in each call."""
    network, expected, stage = case.network, case.local.expected, case.stage
    region, sample = f"{network.name}-{case.in_flight}", network.sample.tobytes()
    key = f"{stage.memory}{region}"
    (SHARED_MEMORY / key).write_bytes(sample)
    python_clients.one_grpc_answer(_tcp(stage), requests.registration(region, f"/{key}", len(sample)))
    request = requests.oip_grpc_shared(network, expected, region)
    answers = KnownAnswers(request.read, expected, name)
    run = python_clients.grpc_unary(_tcp(stage), request, answers, case.in_flight)
    return Way(name, run, stage.server.process.pid)


def _floor(client: Client, method: str) -> Callable[[Case, str], Way]:
    """Send the bytes of a ModelInfer call, and get as many bytes as its answer has."""

    def make(case: Case, name: str) -> Way:
        expected, floor = case.local.expected, case.stage.floor
        infer = requests.oip_grpc(case.network, expected)
        size = len(python_clients.one_grpc_answer(case.stage.server.grpc_address, infer))
        request = Request(f"/bench.Floor/{method}{size}", infer.body, lambda _: expected)
        run = client(floor.address, request, KnownAnswers(request.read, expected, name), case.in_flight)
        return Way(name, run, floor.process.pid)

    return make


def _tcp(stage: Stage) -> str:
    return stage.server.grpc_address


def _grpc_alone(stage: Stage) -> str:
    return f"grpc://{stage.server.grpc_address}"


def _as_from_elsewhere(stage: Stage) -> str:
    """Give the server's address in a form in which the SDK does not see its own host, so that it lends no memory."""
    host, _, port = _tcp(stage).rpartition(":")
    return f"[::ffff:{host}]:{port}"


def _from_elsewhere_by_grpc(stage: Stage) -> str:
    return f"grpc://{_as_from_elsewhere(stage)}"


def _unix(stage: Stage) -> str:
    return f"unix:{stage.socket}"


def _http(stage: Stage) -> str:
    return stage.server.http_address


KINDS = (
    Kind("in process: infer", _in_process_infer, _alone),
    Kind("in process: AsyncInferQueue", _in_process_queue, _many),
    Kind("in process: the inference alone", _in_process_inference, _is_transfer),
    Kind("SDK infer", _sdk_infer(_tcp), _alone),
    Kind("SDK infer, Unix socket", _sdk_infer(_unix), _alone),
    Kind("SDK infer, gRPC alone", _sdk_infer(_grpc_alone), _alone),
    Kind("SDK AsyncInferQueue", _sdk_queue(_tcp), _many),
    Kind("SDK AsyncInferQueue, inputs sent", _sdk_queue(_as_from_elsewhere), _may_lend),
    Kind("SDK AsyncInferQueue, Unix socket", _sdk_queue(_unix), _many),
    Kind("SDK AsyncInferQueue, gRPC alone", _sdk_queue(_grpc_alone), _many),
    Kind("SDK infer_async", _sdk_queue(_tcp, awaited), _many),
    Kind("OIP gRPC", _wire(python_clients.grpc_unary, _tcp, requests.oip_grpc)),
    Kind("OIP gRPC, Unix socket", _wire(python_clients.grpc_unary, _unix, requests.oip_grpc)),
    Kind("OIP gRPC, shared memory", _shared_memory),
    Kind("OIP gRPC stream", _wire(python_clients.grpc_stream, _tcp, requests.oip_grpc_stream)),
    Kind("OIP gRPC, h2load", _wire(c_clients.h2load, _tcp, requests.oip_grpc)),
    Kind("OIP gRPC, h2load, 2 workers", _two_workers(_wire(c_clients.h2load, _tcp, requests.oip_grpc)), _can_be_shared),
    Kind("REST binary", _wire(python_clients.http, _http, requests.rest_binary)),
    Kind("REST binary, wrk", _wire(c_clients.wrk, _http, requests.rest_binary)),
    Kind(
        "REST binary, wrk, 2 workers", _two_workers(_wire(c_clients.wrk, _http, requests.rest_binary)), _can_be_shared
    ),
    Kind("REST JSON", _wire(python_clients.http, _http, requests.rest_json), _has_short_numbers),
    Kind("REST JSON, wrk", _wire(c_clients.wrk, _http, requests.rest_json), _has_short_numbers),
    Kind("floor: bare gRPC call", _floor(python_clients.grpc_unary, "Unary")),
    Kind("floor: bare gRPC call, h2load", _floor(c_clients.h2load, "Unary")),
    Kind("floor: bare gRPC stream", _floor(python_clients.grpc_stream, "Stream")),
)
"""All kinds, in the order of the tables."""

FAR_KINDS = (
    Kind("floor: bare gRPC call", _floor(python_clients.grpc_unary, "Unary")),
    Kind("floor: bare gRPC stream", _floor(python_clients.grpc_stream, "Stream")),
    Kind("SDK infer", _sdk_infer(_as_from_elsewhere), _alone),
    Kind("SDK infer, gRPC alone", _sdk_infer(_from_elsewhere_by_grpc), _alone),
    Kind("SDK AsyncInferQueue", _sdk_queue(_as_from_elsewhere), _many),
    Kind("SDK AsyncInferQueue, gRPC alone", _sdk_queue(_from_elsewhere_by_grpc), _many),
    Kind("OIP gRPC", _wire(python_clients.grpc_unary, _tcp, requests.oip_grpc)),
    Kind("OIP gRPC stream", _wire(python_clients.grpc_stream, _tcp, requests.oip_grpc_stream)),
    Kind("REST binary", _wire(python_clients.http, _http, requests.rest_binary)),
)
"""The kinds that make sense from another machine."""


def ways(
    case: Case, chosen: Sequence[str], without: frozenset[str] = frozenset(), kinds: Sequence[Kind] = KINDS
) -> Iterator[Way]:
    """Make the ways of a case whose names contain one of the chosen texts, and the way that they are compared with."""
    fitting = [kind for kind in kinds if kind.fits(case)]
    for kind in fitting:
        is_chosen = not chosen or any(text.lower() in kind.name.lower() for text in chosen)
        if kind is fitting[0] or (is_chosen and not any(text in kind.name for text in without)):
            yield kind.make(case, kind.name)
