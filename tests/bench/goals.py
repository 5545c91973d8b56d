"""The goals and whether they are met: the ratios that decide whether this server is fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.bench.idle import AtRest
from tests.bench.rounds import Ratio, Rows, ratios_to_first

QUEUE = "in process: AsyncInferQueue"
INFERENCE = "in process: the inference alone"


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio of two ways of one case: of their rates, which is to be so high, or of their latencies, so low."""

    case: str
    way: str
    base: str
    limit: float
    is_latency: bool = False

    @property
    def figure(self) -> str:
        """The figure that is compared with the base's."""
        return "p50_ms" if self.is_latency else "per_second"


GOALS = (
    Goal("resnet50, 4 in flight", "SDK AsyncInferQueue, inputs sent", QUEUE, 0.96),
    Goal("resnet50_u8, 4 in flight", "SDK AsyncInferQueue", QUEUE, 0.98),
    Goal("resnet50, 4 in flight", "SDK AsyncInferQueue", QUEUE, 0.985),
    Goal("resnet50, 4 in flight", "OIP gRPC, shared memory", QUEUE, 0.985),
    Goal("resnet50, 16 in flight", "OIP gRPC", QUEUE, 0.95),
    Goal("efficientnet_lite0, 4 in flight", "SDK AsyncInferQueue, inputs sent", QUEUE, 0.87),
    Goal("efficientnet_lite0_u8, 4 in flight", "SDK AsyncInferQueue", QUEUE, 0.93),
    Goal("efficientnet_lite0, 4 in flight", "SDK AsyncInferQueue", QUEUE, 0.96),
    Goal("efficientnet_lite0, 4 in flight", "OIP gRPC, shared memory", QUEUE, 0.96),
    Goal("efficientnet_lite0, 16 in flight", "OIP gRPC", QUEUE, 0.84),
    Goal("digits_mlp_batched, 16 in flight", "SDK AsyncInferQueue", QUEUE, 2.0),
    Goal("digits_mlp_batched, 64 in flight", "SDK AsyncInferQueue", QUEUE, 6.0),
    Goal("digits_mlp_batched, 256 in flight", "SDK AsyncInferQueue", QUEUE, 15.0),
    Goal("digits_mlp, 64 in flight", "SDK AsyncInferQueue", QUEUE, 0.9),
    Goal("digits_mlp, 16 in flight", "OIP gRPC, h2load", "floor: bare gRPC call, h2load", 0.7),
    Goal("digits_mlp, 16 in flight", "OIP gRPC, h2load, 2 workers", "floor: bare gRPC call, h2load", 0.7),
    Goal("digits_mlp, 1 in flight", "SDK infer", "floor: bare gRPC stream", 1.3, is_latency=True),
)


@dataclass(frozen=True, slots=True)
class CpuGoal:
    """The most CPU time that a request of one case may take of the server, beyond that of the inference alone."""

    case: str
    way: str
    most_us: float


CPU_GOALS = (
    CpuGoal("corner, 4 in flight", "OIP gRPC, h2load", 600),
    CpuGoal("corner, 4 in flight", "OIP gRPC, shared memory", 200),
)

PEER_GOALS = (
    ("mlserver", "digits_mlp, OIP gRPC, 16 in flight", 2.0),
    ("kserve", "digits_mlp, OIP gRPC, 16 in flight", 2.0),
    ("pytriton", "digits_mlp, OIP gRPC, 16 in flight", 2.0),
    ("triton", "digits_mlp, OIP gRPC, 16 in flight", 1.0),
    ("triton", "digits_mlp_batched, REST binary, 64 in flight", 1.0),
    ("mosec", "digits_mlp, bytes over HTTP, 16 in flight", 1.5),
    ("kserve", "digits_mlp, REST binary, 16 in flight", 2.0),
    ("litserve", "digits_mlp, base64 in JSON, ours binary, 16 in flight", 2.0),
    ("bentoml", "digits_mlp, base64 in JSON, ours binary, 16 in flight", 2.0),
)
"""Peers, cases, and how many times as fast this server is to be."""

START_S = 1.5
SESSION_KB = 15.0


def cases_of_goals() -> dict[str, set[int]]:
    """Say what has to be measured: how many in flight for each network."""
    plan: dict[str, set[int]] = {}
    for goal in (*GOALS, *CPU_GOALS):
        network, _, rest = goal.case.partition(", ")
        plan.setdefault(network, set()).add(int(rest.split()[0]))
    return plan


def lines(ways: Mapping[str, Rows], peers: Mapping[str, Mapping[str, Rows]], rest: AtRest | None) -> Iterator[str]:
    """Write a line of the table for every goal that was measured."""
    for goal in GOALS:
        rows = ways.get(goal.case, {})
        if goal.way in rows and goal.base in rows:
            ratio = rows[goal.way].ratio(rows[goal.base], goal.figure)
            what = "p50 of " if goal.is_latency else ""
            yield _line(
                f"{goal.case}: {what}{goal.way} / {goal.base}",
                ratio,
                goal.limit,
                is_most=goal.is_latency,
            )
    for goal in CPU_GOALS:
        rows = ways.get(goal.case, {})
        if goal.way in rows and INFERENCE in rows:
            what = f"{goal.case}: the server's CPU us of a request beyond the inference, {goal.way}"
            yield _line(what, rows[goal.way].server_cpu_beyond_us(rows[INFERENCE]), goal.most_us, is_most=True)
    for peer, case, least in PEER_GOALS:
        if rows := peers.get(peer, {}).get(case):
            yield from (_line(f"{case}: {who}", ratio, least) for who, ratio in ratios_to_first(rows).items())
    if rest:
        yield _line("start to ready with EfficientNet-Lite0 cached, s", rest.start_s, START_S, is_most=True)
        for where, session, stream in (
            ("a shared connection", rest.shared_session, rest.shared_stream),
            ("its own connection", rest.own_session, rest.own_stream),
        ):
            what = f"idle session on {where}, KB beyond a bare stream"
            yield _line(what, (session - stream) / 1000, SESSION_KB, is_most=True)


def _line(what: str, found: float | Ratio, limit: float, *, is_most: bool = False) -> str:
    ratio = found if isinstance(found, Ratio) else Ratio(found, found, found)
    sign, shown = "at most" if is_most else "at least", found if isinstance(found, Ratio) else f"{found:.2f}"
    return f"| {what} | {sign} {limit:.3g} | {shown} | {_verdict(ratio, limit, is_most=is_most)} |"


def _verdict(ratio: Ratio, limit: float, *, is_most: bool) -> str:
    """Say whether it is met; where some rounds say so and others do not, that it cannot be told."""
    met = {(value <= limit) if is_most else (value >= limit) for value in (ratio.least, ratio.most)}
    return "noise hides it" if len(met) > 1 else "yes" if met == {True} else "**no**"
