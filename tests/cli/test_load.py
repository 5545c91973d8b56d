"""What a load sends, how much of it, and what its samples say: without a server."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
from tests.clock import Clock

import inferwire as ov
from inferwire.errors import QueueFull, ServerUnavailable
from inferwire.graph.described import PortDescription
from inferwire.transport.address import parse_address
from inferwire.transport.unreachable import WHERE_ADDRESSES
from inferwire_cli.bench.figures import Bar, histogram, spreads
from inferwire_cli.bench.inputs import complete
from inferwire_cli.bench.load import Budget, Call, Sample, Samples, Tally, in_threads
from inferwire_cli.bench.measure import measure
from inferwire_cli.bench.report import bar_lines
from inferwire_cli.http_address import HttpAddress, http_address
from inferwire_cli.terminal import CommandError, MisuseError


def port(name: str, element_type: ov.Type, shape: Any) -> PortDescription:
    return PortDescription(frozenset({name}), element_type, ov.PartialShape(shape), name, "Parameter", name)


def test_a_number_is_spent_one_by_one() -> None:
    budget = Budget(2, None)
    assert [budget.take() for _ in range(3)] == [True, True, False]
    assert budget.done == 1.0


def test_time_is_spent_as_it_goes_and_a_stop_ends_all() -> None:
    clock = Clock()
    budget = Budget(None, 10.0, clock)
    assert budget.take()
    clock.now += 4.0
    assert (budget.done, budget.elapsed_s) == (0.4, 4.0)
    clock.now += 6.0
    assert not budget.take()
    unbounded = Budget(None, 10.0, Clock())
    unbounded.stop()
    assert not unbounded.take()


def test_what_fails_is_counted_by_its_reason_and_the_rest_goes_on() -> None:
    answers = iter([QueueFull("full"), Sample(3.0, 1.0, 0.5), QueueFull("full")])

    @contextmanager
    def open_call() -> Generator[Call]:
        def call() -> Sample:
            answer = next(answers)
            if isinstance(answer, QueueFull):
                raise answer
            return answer

        yield call

    tally = Tally()
    with in_threads(open_call, 1)() as spend:
        spend(Budget(3, None), tally)
    assert tally.failures == {"full": 2}
    assert tally.samples.column("wire").tolist() == [1.5]


@pytest.mark.parametrize("error", [ServerUnavailable("gone"), TypeError("a bug")], ids=["no server", "a bug"])
def test_what_ends_the_load_is_raised(error: Exception) -> None:
    @contextmanager
    def open_call() -> Generator[Call]:
        def call() -> Sample:
            raise error

        yield call

    budget = Budget(1000, None)
    with in_threads(open_call, 2)() as spend, pytest.raises(type(error), match=str(error)):
        spend(budget, Tally())
    assert not budget.take()


def test_what_was_opened_is_closed_where_one_of_the_places_does_not_open() -> None:
    opened, closed = list[None](), list[None]()

    @contextmanager
    def open_call() -> Generator[Call]:
        if len(opened) == 2:
            raise ServerUnavailable("no more connections")
        opened.append(None)
        try:
            yield lambda: Sample(3.0, 1.0, 0.5)
        finally:
            closed.append(None)

    with pytest.raises(ServerUnavailable, match="no more connections"), in_threads(open_call, 3)():
        pass
    assert len(closed) == 2


def test_only_what_is_between_opening_and_closing_is_measured() -> None:
    clock = Clock()
    calls: list[str] = []

    @contextmanager
    def open_call() -> Generator[Call]:
        def call() -> Sample:
            clock.now += 1.0
            calls.append("call")
            return Sample(3.0, 1.0, 0.5)

        clock.now += 100.0
        calls.append("open")
        yield call
        calls.append("close")
        clock.now += 100.0

    spending, is_interrupted = measure(in_threads(open_call, 1), 1, lambda: Budget(4, None, clock), "m")
    assert not is_interrupted
    assert calls == ["open", *5 * ["call"], "close"]  # of which the first warms up
    assert (len(spending.tally.samples), spending.elapsed_s, spending.per_second) == (4, 4.0, 1.0)


def test_where_every_inference_of_the_warm_up_fails_nothing_is_measured() -> None:
    def spend(_: Budget, tally: Tally) -> None:
        tally.fail("the model is not ready")

    with pytest.raises(CommandError, match="the model is not ready"):
        measure(lambda: nullcontext(spend), 1, lambda: Budget(1, None), "m")


def test_no_failure_is_lost_where_threads_count_at_once() -> None:
    class Slow(Counter[str]):
        """A count in which another thread may come between reading and writing."""

        def __getitem__(self, reason: str) -> int:
            found = super().__getitem__(reason)
            for _ in range(100):
                found = int(found)
            return found

    tally = Tally(failures=Slow())

    def fail() -> None:
        for _ in range(500):
            tally.fail("full")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(4):
                threads.submit(fail)
    finally:
        sys.setswitchinterval(interval)
    assert tally.failures == {"full": 2000}


def test_threads_that_do_not_start_end_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, begun = threading.Thread.start, list[threading.Thread]()

    def start(thread: threading.Thread) -> None:
        if len(begun) == 2:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        begin(thread)

    @contextmanager
    def open_call() -> Generator[Call]:
        yield lambda: Sample(3.0, 1.0, 0.5)

    monkeypatch.setattr(threading.Thread, "start", start)
    expected = pytest.raises(CommandError, match="no more threads can be started: give less --concurrency")
    with in_threads(open_call, 3)() as spend, expected:
        spend(Budget(1000, None), Tally())
    assert not any(thread.is_alive() for thread in begun)


def test_why_it_ended_early_names_the_flags_of_commands() -> None:
    tally = Tally()
    tally.fail(f"ended early: give its address {WHERE_ADDRESSES}")
    assert tally.failures == {"ended early: give its address as --address or in INFERWIRE_ADDRESS": 1}


def test_what_is_in_flight_is_waited_for_after_ctrl_c() -> None:
    warmed_up: list[Budget] = []

    def spend(budget: Budget, tally: Tally) -> None:
        if not warmed_up:
            warmed_up.append(budget)
            return
        nobody_sets_it = threading.Event()
        # As long as it takes to begin to wait for the end; the answer that is in flight then takes as long.
        nobody_sets_it.wait(0.5)
        signal.raise_signal(signal.SIGINT)
        nobody_sets_it.wait(0.5)
        tally.answer(Sample(3.0, 1.0, 0.5))

    spending, is_interrupted = measure(lambda: nullcontext(spend), 1, lambda: Budget(None, 60.0), "m")
    assert is_interrupted
    assert len(spending.tally.samples) == 1


def test_inputs_are_made_in_the_least_shape_that_is_taken() -> None:
    ports = [
        port("a", ov.Type.f32, [-1, 3, ov.Dimension(2, 8)]),
        port("b", ov.Type.i64, [1, -1]),
        port("c", ov.Type.boolean, []),
    ]
    values = complete({}, ports, (), None)
    assert [values[at].shape for at in range(3)] == [(1, 3, 2), (1, 1), ()]
    assert [values[at].dtype for at in range(3)] == [np.float32, np.int64, np.bool_]
    again = complete({}, ports, (), None)
    np.testing.assert_array_equal(values[0], again[0])


def test_rows_and_shapes_are_those_that_are_wanted() -> None:
    ports = [port("a", ov.Type.f32, [-1, -1]), port("b", ov.Type.f32, [-1, 2])]
    values = complete({1: np.ones((1, 2), np.float32)}, ports, ("a=4,6",), 4)
    assert (values[0].shape, values[1].shape) == ((4, 6), (4, 2))


@pytest.mark.parametrize(
    ("shape", "given", "shapes", "batch", "said"),
    [
        ([1, 2], None, (), 4, r"input 'x' would have shape \[4,2\], expected \[1,2\]"),
        ([1, 2], None, ("x=1,3",), None, r"input 'x' would have shape \[1,3\], expected \[1,2\]"),
        ([1, 2], None, ("x=1,a",), None, "--shape is '1,a', expected lengths"),
        ([-1, 2], None, (f"x={10**19},2",), None, f"--shape is '{10**19},2', expected lengths"),
        ("[...]", None, (), None, "input 'x' takes any shape: give one with --shape x=1,2,3"),
        ([-1, 2], np.ones((3, 2)), (), 4, "input 'x' has 3 rows, expected 1 or those of --batch 4"),
    ],
)
def test_what_an_input_does_not_take_is_named(
    shape: Any, given: Any, shapes: tuple[str, ...], batch: int | None, said: str
) -> None:
    values = {} if given is None else {0: given}
    with pytest.raises(MisuseError, match=said):
        complete(values, [port("x", ov.Type.f32, shape)], shapes, batch)


def test_packed_elements_are_not_made_up() -> None:
    with pytest.raises(CommandError, match="input 'x' takes i4, elements that share bytes"):
        complete({}, [port("x", ov.Type.i4, [2])], (), None)


def test_a_shape_for_no_input_is_named_by_its_flag() -> None:
    ports = [port("a", ov.Type.f32, [-1]), port("b", ov.Type.f32, [-1])]
    for shape in ("3", "c=3"):
        with pytest.raises(MisuseError, match=f"^--shape {shape} names no input, expected NAME="):
            complete({}, ports, (shape,), None)


def test_strings_are_not_made_up() -> None:
    with pytest.raises(MisuseError, match="input 'x' takes strings, which are not made up"):
        complete({}, [port("x", ov.Type.string, [-1])], (), None)


def test_the_spread_of_each_part_is_told() -> None:
    samples = Samples()
    for total in range(10, 110):
        samples.append(Sample(float(total), 1.0, 2.0))
    told = spreads(samples)
    assert list(told) == ["latency", "queue", "inference", "wire"]
    latency, wire = told["latency"], told["wire"]
    assert latency is not None
    assert latency.mean == pytest.approx(59.5)
    assert latency.percentiles[0] == pytest.approx(59.5)
    assert latency.most == 109.0
    assert wire is not None
    assert wire.most == 106.0
    assert spreads(Samples()) == {}


def test_what_a_server_does_not_say_has_no_spread() -> None:
    samples = Samples()
    samples.append(Sample(3.0, 1.0, 0.5))
    samples.append(Sample(4.0, None, 0.5))
    told = spreads(samples)
    assert [part for part, spread in told.items() if spread is None] == ["queue", "wire"]


def test_a_histogram_counts_every_sample_once() -> None:
    values = np.concatenate([np.linspace(1, 2, 1000), [50.0]])
    bars = histogram(values)
    assert sum(bar.count for bar in bars) == 1001
    assert bars[-1].most is None
    assert histogram(np.array([3.0, 3.0])) == [Bar(3.0, None, 2)]


def test_bars_are_as_long_as_they_are_high() -> None:
    lines = list(bar_lines([Bar(0.5, 1.5, 80), Bar(1.5, 10.5, 10), Bar(10.5, None, 0)], width=8))
    assert lines == ["    0.50  ████████  80", "    1.50  █         10", " ≥ 10.50            0"]


def test_what_computes_only_needs_nothing_that_reads_pictures() -> None:
    code = "import sys, inferwire_cli.bench.figures; print([name for name in sys.modules if name.startswith('PIL')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[]\n")


def test_an_address_is_said_as_it_is_given() -> None:
    assert str(HttpAddress("::1", 8000)) == "[::1]:8000"
    assert str(HttpAddress("::1", 8000, is_secure=True)) == "https://[::1]:8000"
    assert str(HttpAddress("box", 8000)) == "box:8000"


@pytest.mark.parametrize(
    ("given", "grpc", "expected"),
    [
        (None, "box:8001", HttpAddress("box", 8000)),
        (None, "[::1]", HttpAddress("::1", 8000)),
        (None, "grpcs://box:8001", HttpAddress("box", 8000, is_secure=True)),
        ("box:80", "other:8001", HttpAddress("box", 80)),
        ("http://[::1]:81/", "other:8001", HttpAddress("::1", 81)),
        ("https://box:81/", "other:8001", HttpAddress("box", 81, is_secure=True)),
        ("box:81", "grpcs://other:1", HttpAddress("box", 81, is_secure=True)),
        ("http://box:81", "grpcs://other:1", HttpAddress("box", 81)),
    ],
)
def test_http_is_beside_grpc_unless_it_is_said(given: str | None, grpc: str, expected: HttpAddress) -> None:
    assert http_address(given, parse_address(grpc)) == expected


@pytest.mark.parametrize(
    ("given", "grpc"),
    [("box", "a:1"), ("https://box", "a:1"), ("box:x", "a:1"), (":80", "a:1"), (None, "unix:/a"), (None, "a:9001")],
)
def test_where_http_is_cannot_be_told(given: str | None, grpc: str) -> None:
    with pytest.raises(MisuseError, match="--http-address"):
        http_address(given, parse_address(grpc))
