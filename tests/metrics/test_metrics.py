"""The numbers operators watch: whatever happens to jobs, they add up."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.busy_gil_thread import occupied

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.scheduling.batching import Batching
from inferwire_server.core.scheduling.job import Job, Work
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.engine import Engine, QueueOptions, Submission
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError
from inferwire_server.gil_thread import GilThread
from inferwire_server.metrics.callers import of_refusals
from inferwire_server.metrics.jobs import of_tallies
from inferwire_server.metrics.load import of_occupancies
from inferwire_server.metrics.scraping import Metrics
from inferwire_server.metrics.server import of_models, of_renewals
from inferwire_server.repository.catalogue import Served
from inferwire_server.tallies import Tallies

GOOD = Work((Tensor(BY_NAME["f32"], (1, 4), bytes(16)),), (0,))
BAD = Work((Tensor(BY_NAME["f32"], (1, 4), b"poison".ljust(16)),), (0,))
GONE = ServingError(Code.MODEL_NOT_READY, "unloaded by the test")
NOT_WANTED = ServingError(Code.CANCELLED, "not wanted")


def choke(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    if b"poison" in bytes(inputs[0].data):
        raise ServingError(Code.INFERENCE_FAILED, "poisoned")
    return tuple(inputs)


def stacked(*works: Work) -> Work:
    data = b"".join(bytes(work.inputs[0].data) for work in works)
    return Work((Tensor(BY_NAME["f32"], (len(works), 4), data),), (0,), executions=len(works))


class Scrape:
    """What the metrics say of all models together."""

    def __init__(self, metrics: Metrics) -> None:
        self.values: defaultdict[str, float] = defaultdict(float)
        self.outcomes: Counter[str] = Counter()
        for family in text_string_to_metric_families(metrics.scrape().text().decode()):
            for sample in family.samples:
                if "le" not in sample.labels:
                    self.values[sample.name.removeprefix("inferwire_")] += sample.value
                if sample.name == "inferwire_jobs_total":
                    self.outcomes[sample.labels["outcome"]] += int(sample.value)


class Client:
    """Submits jobs and waits for their ends."""

    def __init__(self, engine: Engine, model: Model) -> None:
        self.engine = engine
        self.model = model
        self.ends: list[asyncio.Future[Job]] = []

    def submit(self, work: Work = GOOD, timeout_s: float | None = None) -> Job:
        end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        job = self.engine.submit(self.model, Submission(work, 0, timeout_s), end.set_result)
        self.ends.append(end)
        return job


@pytest.mark.parametrize("batching", [None, Batching(4), Batching(4, 0.001)])
async def test_every_submitted_job_is_counted_once_more_as_it_ends(batching: Batching | None) -> None:
    tallies, fake = Tallies(), FakeModel(echo_spec("m"), choke, optimal_slots=1)
    clock = asyncio.get_running_loop().time
    async with Engine(FakeBackend({"m": fake}), QueueOptions(capacity=6), tallies.of, clock) as engine:
        metrics = Metrics(GilThread(), partial(of_tallies, tallies), lambda: of_occupancies(engine.devices))
        model = await engine.load(Source(Path("m.xml")), ModelOptions("m", batching=batching), "1")
        client = Client(engine, model)
        fake.gate.close()
        cancelled_running = client.submit()
        await asyncio.to_thread(fake.gate.wait_held, 1)
        cancelled_queued, *_ = [client.submit(work) for work in (GOOD, BAD, GOOD, GOOD)]
        client.submit(timeout_s=0.0)
        client.submit()
        with pytest.raises(ServingError, match="CPU's queue is full"):
            client.submit()
        model.device.cancel(cancelled_queued, NOT_WANTED)
        model.device.cancel(cancelled_running, NOT_WANTED)
        waiting = Scrape(metrics)
        fake.gate.open()
        await asyncio.gather(*client.ends)
        await engine.unload(model, GONE)
        with pytest.raises(ServingError, match="is unloading"):
            client.submit()
        ended = Scrape(metrics)

    assert waiting.values["submitted_jobs_total"] == 8
    assert waiting.outcomes.total() + waiting.values["queued_jobs"] == 8
    assert ended.outcomes == Counter(finished=3, failed=1, cancelled=2, expired=1, refused=2)
    assert ended.values["submitted_jobs_total"] == ended.outcomes.total() == 9
    assert ended.values["inference_seconds_count"] == ended.values["total_seconds_count"] == 3
    started = 9 - ended.outcomes["refused"] - 2
    assert ended.values["batch_jobs_sum"] == ended.values["queue_seconds_count"] == started
    assert ended.values["batch_jobs_count"] == (started if batching is None else 2)


async def test_a_stack_counts_as_its_executions_each_by_its_own_end() -> None:
    tallies, fake = Tallies(), FakeModel(echo_spec("m"), choke, optimal_slots=1)
    clock = asyncio.get_running_loop().time
    async with Engine(FakeBackend({"m": fake}), QueueOptions(), tallies.of, clock) as engine:
        metrics = Metrics(GilThread(), partial(of_tallies, tallies), lambda: of_occupancies(engine.devices))
        model = await engine.load(Source(Path("m.xml")), ModelOptions("m", batching=Batching(8)), "1")
        client = Client(engine, model)
        fake.gate.close()
        mixed = client.submit(stacked(GOOD, BAD, GOOD, GOOD))
        await asyncio.to_thread(fake.gate.wait_held, 1)
        whole = client.submit(stacked(GOOD, GOOD))
        assert Scrape(metrics).values["queued_jobs"] == 2
        model.device.drop(mixed, 0, NOT_WANTED)
        fake.gate.open()
        await asyncio.gather(*client.ends)
        engine.answered(whole, 2)
        counted = Scrape(metrics)
    assert counted.outcomes == Counter(finished=4, failed=1, cancelled=1)
    assert counted.values["submitted_jobs_total"] == counted.outcomes.total()
    assert counted.values["inference_seconds_count"] == counted.values["total_seconds_count"] == 4
    assert (counted.values["batch_jobs_sum"], counted.values["batch_jobs_count"]) == (6, 2)
    assert counted.values["queue_seconds_count"] == 6
    assert counted.values["wire_seconds_count"] == 0


async def test_executions_of_a_stack_that_run_one_by_one_are_inferences_each() -> None:
    tallies, fake = Tallies(), FakeModel(echo_spec("m"), choke, optimal_slots=1)
    metrics = Metrics(GilThread(), partial(of_tallies, tallies))
    clock = asyncio.get_running_loop().time
    async with Engine(FakeBackend({"m": fake}), QueueOptions(), tallies.of, clock) as engine:
        model = await engine.load(Source(Path("m.xml")), ModelOptions("m"), "1")
        client = Client(engine, model)
        client.submit(stacked(GOOD, BAD, GOOD)._replace(one_by_one=True))
        await asyncio.gather(*client.ends)
        values = Scrape(metrics).values
    assert (values["batch_jobs_sum"], values["batch_jobs_count"], values["inference_seconds_count"]) == (3, 3, 2)


@pytest.mark.parametrize(("batching", "rows"), [(None, (1, 1)), (Batching(2), (2,))])
async def test_slots_are_busy_for_as_long_as_inferences_run_however_many_jobs_those_have(
    batching: Batching | None, rows: tuple[int, ...]
) -> None:
    now, tallies, fake = 0.0, Tallies(), FakeModel(echo_spec("m"), optimal_slots=1)
    metrics = Metrics(GilThread(), partial(of_tallies, tallies))
    async with Engine(FakeBackend({"m": fake}), QueueOptions(), tallies.of, lambda: now) as engine:
        model = await engine.load(Source(Path("m.xml")), ModelOptions("m", batching=batching), "1")
        client = Client(engine, model)
        for _ in rows:
            fake.gate.close()
            client.submit(stacked(*[GOOD] * (2 // len(rows))))
            await asyncio.to_thread(fake.gate.wait_held, 1)
            now += 0.5
            fake.gate.open()
            await asyncio.gather(*client.ends)
        values = Scrape(metrics).values
    assert values["busy_slot_seconds_total"] == 0.5 * len(rows)
    assert values["inference_seconds_sum"] == 1.0


@pytest.mark.parametrize(("max_running", "of_both", "of_one"), [(None, 3, 2), (1, 1, 1), (4, 4, 2), (9, 5, 2)])
async def test_a_device_may_run_as_many_inferences_as_it_has_places_and_slots(
    max_running: int | None, of_both: int, of_one: int
) -> None:
    fakes = {name: FakeModel(echo_spec(name), optimal_slots=slots) for name, slots in (("a", 2), ("b", 3))}
    async with Engine(FakeBackend(fakes), QueueOptions(places=max_running), Tallies().of) as engine:
        metrics = Metrics(GilThread(), lambda: of_occupancies(engine.devices))
        _, b = [await engine.load(Source(Path(f"{name}.xml")), ModelOptions(name)) for name in fakes]
        assert Scrape(metrics).values["running_limit"] == of_both
        await engine.unload(b, GONE)
        assert Scrape(metrics).values["running_limit"] == of_one


async def test_what_inputs_of_waiting_jobs_take_is_shown_with_what_they_may() -> None:
    fake, queue = FakeModel(echo_spec("m"), optimal_slots=1), QueueOptions(most_bytes=100)
    async with Engine(FakeBackend({"m": fake}), queue, Tallies().of) as engine:
        metrics = Metrics(GilThread(), lambda: of_occupancies(engine.devices))
        client = Client(engine, await engine.load(Source(Path("m.xml")), ModelOptions("m")))
        fake.gate.close()
        for carried_bytes in (16, 16, 0, 48):
            client.submit(GOOD._replace(carried_bytes=carried_bytes))
        values = Scrape(metrics).values
        assert (values["queued_bytes"], values["queued_bytes_limit"]) == (64, 100)
        fake.gate.open()
        await asyncio.gather(*client.ends)
        assert Scrape(metrics).values["queued_bytes"] == 0


async def test_a_model_is_counted_from_its_load_on_in_all_ways_that_jobs_end() -> None:
    tallies = Tallies()
    metrics = Metrics(GilThread(), partial(of_tallies, tallies))
    async with Engine(FakeBackend({"m": FakeModel(echo_spec("m"))}), QueueOptions(), tallies.of) as engine:
        await engine.load(Source(Path("m.xml")), ModelOptions("m"))
        assert set(Scrape(metrics).outcomes) == {"finished", "failed", "cancelled", "expired", "invalid", "refused"}
        assert Scrape(metrics).outcomes.total() == 0


async def test_a_model_is_counted_under_its_name_whatever_signs_that_has() -> None:
    name, tallies = 'a\\n"b"\nc\\', Tallies()
    metrics = Metrics(GilThread(), partial(of_tallies, tallies))
    async with Engine(FakeBackend({name: FakeModel(echo_spec(name))}), QueueOptions(), tallies.of) as engine:
        await engine.load(Source(Path("m.xml")), ModelOptions(name), "1")
        families = [*text_string_to_metric_families(metrics.scrape().text().decode())]
    named = {family.name: {sample.labels.get("model") for sample in family.samples} for family in families}
    assert {family for family, names in named.items() if names == {name}} >= {
        *("inferwire_submitted_jobs", "inferwire_jobs", "inferwire_batch_jobs"),
        *(f"inferwire_{what}_seconds" for what in ("queue", "inference", "total", "wire")),
    }


async def test_buckets_have_what_is_below_their_bounds() -> None:
    tallies = Tallies()
    tally = tallies.of("CPU", "uploaded")
    for rows in (1, 2, 3, 4, 300):
        tally.batch_sizes.observe(rows)
    metrics = Metrics(GilThread(), partial(of_tallies, tallies))
    families = text_string_to_metric_families(metrics.scrape().text().decode())
    (found,) = (family for family in families if family.name == "inferwire_batch_jobs")
    buckets = [(sample.labels["le"], sample.value) for sample in found.samples if "le" in sample.labels]
    assert buckets[:4] == [("1.0", 1), ("2.0", 2), ("4.0", 4), ("8.0", 4)]
    assert buckets[-2:] == [("256.0", 4), ("+Inf", 5)]
    assert (found.type, [sample.value for sample in found.samples[-2:]]) == ("histogram", [5, 310])


async def test_a_scrape_is_of_one_moment_and_is_written_on_a_thread() -> None:
    tallies, fake = Tallies(), FakeModel(echo_spec("m"), optimal_slots=1)
    versions, refusals, refused = [Served("m", "1")], Counter({("rest", "INVALID_INPUT"): 1}), {"the keys": False}
    async with GilThread() as thread, Engine(FakeBackend({"m": fake}), QueueOptions(), tallies.of) as engine:
        model = await engine.load(Source(Path("m.xml")), ModelOptions("m"), "1")
        metrics = Metrics(
            thread,
            partial(of_tallies, tallies),
            lambda: of_occupancies(engine.devices),
            partial(of_models, versions),
            partial(of_refusals, refusals),
            partial(of_renewals, refused, None),
        )
        asked_at = of_all(metrics.scrape().text())
        async with occupied(thread) as wait_for:
            writing = asyncio.ensure_future(metrics.text())
            await wait_for(1)
            fake.gate.close()
            client = Client(engine, model)
            client.submit()
            tally = tallies.of("CPU", model)
            tally.refuse(1)
            tally.end_runs(1, 0.5)
            tally.wire.observe(0.5)
            versions[0] = versions[0].fails("the test says so")
            refusals["rest", "INVALID_INPUT"] += 1
            refused["the keys"] = True
        assert of_all(await writing) == asked_at
        later = {*of_all(metrics.scrape().text())} - {*asked_at}
        assert {line.partition(b"{")[0].removeprefix(b"inferwire_") for line in later} >= {
            *(b"submitted_jobs_total", b"jobs_total", b"busy_slot_seconds_total", b"wire_seconds_sum", b"busy_slots"),
            *(b"model_load_failed", b"refused_requests_total", b"renewal_refused"),
        }
        fake.gate.open()
        await asyncio.gather(*client.ends)


def of_all(text: bytes) -> list[bytes]:
    """Give the lines of the sources' own metrics."""
    return text.partition(b"# HELP process_")[0].splitlines()


async def test_a_model_that_has_gone_is_not_kept_by_a_late_refusal() -> None:
    tallies = Tallies()
    metrics = Metrics(GilThread(), partial(of_tallies, tallies))
    clock = asyncio.get_running_loop().time
    async with Engine(FakeBackend({"m": FakeModel(echo_spec("m"))}), QueueOptions(), tallies.of, clock) as engine:
        model = await engine.load(Source(Path("m.xml")), ModelOptions("m"))
        await engine.unload(model, GONE)
        with pytest.raises(ServingError, match="is unloading") as refused:
            Client(engine, model).submit()
        assert refused.value.is_of_job
        assert engine.devices[0].models == ()
        assert Scrape(metrics).outcomes == Counter(refused=1)


async def test_the_wire_s_time_is_what_a_finished_job_s_call_took_besides_it() -> None:
    now, tallies = 0.0, Tallies()
    metrics = Metrics(GilThread(), partial(of_tallies, tallies))
    engine_of = partial(Engine, FakeBackend({"m": FakeModel(echo_spec("m"), choke)}), QueueOptions(), tallies.of)
    async with engine_of(lambda: now) as engine:
        model = await engine.load(Source(Path("m.xml")), ModelOptions("m"))

        async def answered(work: Work, received_at: float | None) -> None:
            nonlocal now
            end: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
            now += 0.25
            engine.submit(model, Submission(work, received_at=received_at), end.set_result)
            now += 1.0
            job = await end
            now += 0.5
            engine.answered(job)

        await answered(GOOD, received_at=0.0)
        await answered(GOOD, received_at=None)
        await answered(BAD, received_at=0.0)
        values = Scrape(metrics).values
        assert (values["wire_seconds_count"], values["wire_seconds_sum"]) == (1, 0.75)
        await engine.unload(model, GONE)
        late = Job(model, GOOD, now, received_at=now)
        late.start(now)
        late.finish((), now)
        engine.answered(late)
        assert Scrape(metrics).values["wire_seconds_count"] == 2
        assert engine.devices[0].models == ()
