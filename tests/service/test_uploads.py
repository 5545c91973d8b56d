"""What sessions upload and compile: theirs alone, within limits, and freed with them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from tests.waiting import LIMIT_S, until

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.properties import EnumValue, Properties
from inferwire_server.composition import compose
from inferwire_server.core.model_options import Source
from inferwire_server.core.scheduling.job import JobState
from inferwire_server.core.sessions import Session
from inferwire_server.core.specs import ModelSpec
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.engine import AT_ONCE, CLIENTS_AT_ONCE
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, FakeSlot, Gate, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.server import Composition
from inferwire_server.service.uploads import Compilation, UploadedSource
from inferwire_server.service.values import Inference, UploadedModel, Wanted
from inferwire_server.settings import Settings

Serving = Callable[..., AbstractAsyncContextManager[Composition]]
Leap = Callable[[float], None]

CONTENT = b"a model"
DIGEST = sha256(CONTENT).digest()
SOURCE = UploadedSource(DIGEST, None, ".onnx")
ROW = Tensor(BY_NAME["f32"], (1, 4), bytes(16))


def the_uploaded(*, is_open: bool = True) -> FakeModel:
    """Give the model that the fake runtime finds for an uploaded file, which is called model.onnx."""
    return FakeModel(echo_spec("model"), gate=Gate(is_open=is_open))


async def upload(server: Composition, session: Session, content: bytes = CONTENT) -> bytes:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield content

    digest = sha256(content).digest()
    await server.services.uploads.upload(session, digest, len(content), chunks())
    return digest


async def compile_uploaded(server: Composition, session: Session) -> UploadedModel:
    await upload(server, session)
    compiled_id, _ = await server.services.uploads.compile(session, SOURCE, Compilation("CPU"))
    return UploadedModel(compiled_id, session)


def an_inference(target: UploadedModel) -> Inference:
    return Inference(Wanted(target), (("x", ROW),))


async def refused(call: Any) -> ServingError:
    with pytest.raises(ServingError) as caught:
        await call
    return caught.value


async def test_uploading_is_off_unless_allowed(serving: Serving) -> None:
    async with serving() as server:
        uploads, session = server.services.uploads, server.services.sessions.attach("", "c")
        for call in (upload(server, session), uploads.read(session, SOURCE),
                     uploads.compile(session, SOURCE, Compilation("CPU"))):  # fmt: skip
            error = await refused(call)
            assert error.code is Code.PERMISSION_DENIED
            assert "--allow-uploads" in error.message
        with pytest.raises(ServingError, match="uploading models is off"):
            uploads.has_blobs(session, [DIGEST])
        assert repr(uploads) == "<UploadService: off>"


async def test_an_uploaded_model_is_read_compiled_run_and_released(serving: Serving) -> None:
    async with serving(the_uploaded(), allow_uploads=True) as server:
        uploads, session = server.services.uploads, server.services.sessions.attach("", "c")
        target = await compile_uploaded(server, session)
        assert (await uploads.read(session, SOURCE)).name == "model"
        assert (await server.services.inference.infer(an_inference(target))).result() == (ROW,)
        assert repr(uploads) == "<UploadService: 1 compiled models>"
        await uploads.release(session, [target.compiled_id, "unknown"], [DIGEST, bytes(32)])
        assert repr(uploads) == "<UploadService: 0 compiled models>"
        assert uploads.has_blobs(session, [DIGEST]) == [False]
        assert (await refused(server.services.inference.infer(an_inference(target)))).code is Code.MODEL_NOT_FOUND


def shown(server: Composition) -> dict[str, float]:
    """What the metrics say of sessions, and of what they have uploaded."""
    lines = (line.rpartition(" ") for line in server.metrics.scrape().text().decode().splitlines())
    values = {name.removeprefix("inferwire_"): float(value) for name, _, value in lines if not name.startswith("#")}
    names = ("sessions", "client_models", "upload_bytes", "upload_bytes_limit")
    return {name: values[name] for name in names if name in values}


async def is_shown(server: Composition, expected: dict[str, float]) -> None:
    """Wait until the metrics say this: what is removed counts until it is gone."""
    await until(lambda: shown(server) == expected)


async def test_what_sessions_have_uploaded_is_shown_with_what_they_may(serving: Serving, leap: Leap) -> None:
    async with serving(the_uploaded(), allow_uploads=True, max_uploads_mb=1) as server:
        none: dict[str, float] = {"sessions": 0, "client_models": 0, "upload_bytes": 0, "upload_bytes_limit": 1 << 20}
        assert shown(server) == none
        session = server.services.sessions.attach("", "c")
        await compile_uploaded(server, session)
        await is_shown(server, {**none, "sessions": 1, "client_models": 1, "upload_bytes": len(CONTENT) + 4096})
        await left(server, session, leap)
        await is_shown(server, none)


async def test_where_there_are_no_uploads_nothing_is_shown_of_them(serving: Serving) -> None:
    async with serving() as server:
        assert shown(server) == {"sessions": 0, "client_models": 0}


class TellingBackend(FakeBackend):
    """A runtime that says where it reads."""

    def read(self, source: Source) -> ModelSpec:
        """Find nothing."""
        raise ServingError(Code.MODEL_FAILED, f"'{source.path}' leads out of '{source.path.parent}'")


async def test_errors_do_not_tell_where_the_files_are() -> None:
    settings = Settings(allow_uploads=True)
    async with compose(settings, TellingBackend(), asyncio.get_running_loop().time) as server:
        uploads, session = server.services.uploads, server.services.sessions.attach("", "c")
        await upload(server, session)
        error = await refused(uploads.read(session, SOURCE))
        assert error.message == "'model.onnx' leads out of '.'"


async def test_nothing_of_one_session_is_anothers(serving: Serving) -> None:
    async with serving(the_uploaded(), allow_uploads=True) as server:
        uploads = server.services.uploads
        mine, other = (server.services.sessions.attach("", "c") for _ in range(2))
        target = await compile_uploaded(server, mine)
        assert uploads.has_blobs(other, [DIGEST]) == [False]
        error = await refused(uploads.compile(other, SOURCE, Compilation("CPU")))
        assert error.message == f"blob {DIGEST.hex()} is not uploaded in this session"
        for session in (other, None):
            stolen = an_inference(UploadedModel(target.compiled_id, session))
            assert (await refused(server.services.inference.infer(stolen))).code is Code.MODEL_NOT_FOUND
        await uploads.release(other, [target.compiled_id], [DIGEST])
        assert uploads.has_blobs(mine, [DIGEST]) == [True]
        assert (await server.services.inference.infer(an_inference(target))).state is JobState.FINISHED


def remove_all_in(folder: Path) -> None:
    for path in folder.iterdir():
        rmtree(path)


async def test_a_file_that_somebody_has_removed_has_to_be_uploaded_again(
    serving: Serving, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short_folder))
    async with serving(the_uploaded(), allow_uploads=True) as server:
        uploads, session = server.services.uploads, server.services.sessions.attach("", "c")
        await compile_uploaded(server, session)
        remove_all_in(short_folder)
        assert uploads.has_blobs(session, [DIGEST]) == [False]
        assert (await refused(uploads.read(session, SOURCE))).code is Code.MODEL_FAILED
        await compile_uploaded(server, session)
        assert uploads.has_blobs(session, [DIGEST]) == [True]


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"CACHE_DIR": "/x"}, "CACHE_DIR"),
        ({"NPUW_CACHE_DIR": "/x"}, "CACHE_DIR"),
        ({"DEVICE_PROPERTIES": {"CPU": {"WEIGHTS_PATH": "/x"}}}, "WEIGHTS_PATH"),
        ({"DEVICE_PROPERTIES": "{CPU:{CACHE_DIR:/x}}"}, "CACHE_DIR"),
        ({"DEVICE_PROPERTIES": EnumValue("x", "{CPU:{CACHE_DIR:/x}}")}, "CACHE_DIR"),
        ({"DEVICE_PROPERTIES": ["{CPU:{CACHE_DIR:/x}}"]}, "CACHE_DIR"),
        ({"DEVICE_PROPERTIES": ({"CPU": {"CACHE_DIR": "/x"}},)}, "CACHE_DIR"),
        ({"DEVICE_PROPERTIES": {EnumValue("x", "{CPU:{CACHE_DIR:/x}}")}}, "CACHE_DIR"),
        ({"LOG_LEVEL": "LOG_TRACE"}, "LOG_LEVEL"),
        ({"ENABLE_CPU_RESERVATION": True}, "ENABLE_CPU_RESERVATION"),
        ({"CACHE_PATH": "/x"}, "CACHE_PATH"),
        ({"CACHE_MODEL_PATH": "/x"}, "CACHE_MODEL_PATH"),
        ({"GPU_CONV_LOOKUP_TABLE_PATH": "/x"}, "LOOKUP_TABLE_PATH"),
        ({"NPUW_DUMP_SUBS_DIR": "/x"}, "NPUW_DUMP"),
        ({"NPUW_ONLINE_DUMP_PLAN": "/x"}, "NPUW_ONLINE_DUMP_PLAN"),
    ],
)
async def test_properties_that_are_the_operators_are_refused(
    serving: Serving, properties: Properties, name: str
) -> None:
    async with serving(the_uploaded(), allow_uploads=True) as server:
        session = server.services.sessions.attach("", "c")
        await upload(server, session)
        error = await refused(server.services.uploads.compile(session, SOURCE, Compilation("CPU", properties)))
        assert error.code is Code.PERMISSION_DENIED
        assert error.message == f"property {name} is for the server's operator to set"
        allowed = Compilation("CPU", {"PERFORMANCE_HINT": "LATENCY", "DEVICE_PROPERTIES": {"CPU": {"NUM_STREAMS": 1}}})
        await server.services.uploads.compile(session, SOURCE, allowed)


class Opening(FakeModel):
    """A model whose opening the test holds."""

    def create_slot(self, *, keeps_states: bool = False) -> FakeSlot:
        self.gate.pass_through(lambda: False)
        return super().create_slot(keeps_states=keeps_states)


async def test_neither_served_models_nor_short_calls_wait_for_what_clients_compile(serving: Serving) -> None:
    opening = Gate()
    brought = Opening(echo_spec("model"), gate=opening)
    async with serving(FakeModel(echo_spec("m")), brought, allow_uploads=True) as server:
        opening.close()
        session = server.services.sessions.attach("", "test")
        await upload(server, session)
        uploads = server.services.uploads
        compilations = [uploads.compile(session, SOURCE, Compilation("CPU")) for _ in range(AT_ONCE)]
        compiling = [asyncio.ensure_future(compilation) for compilation in compilations]
        await asyncio.to_thread(opening.wait_held, CLIENTS_AT_ONCE)
        async with asyncio.timeout(LIMIT_S):
            await server.loader.load("m")
            await uploads.read(session, SOURCE)
            await uploads.query(session, SOURCE, Compilation("CPU"))
        assert not any(each.done() for each in compiling)
        opening.open()
        await asyncio.gather(*compiling)


async def test_what_is_released_while_it_is_compiled_counts_until_it_is(serving: Serving) -> None:
    opening = Gate()
    brought = Opening(echo_spec("model"), gate=opening)
    async with serving(brought, allow_uploads=True, max_uploads_mb=1) as server:
        opening.close()
        uploads, session = server.services.uploads, server.services.sessions.attach("", "test")
        digest = await upload(server, session, bytes(700_000))
        source = UploadedSource(digest, None, ".onnx")
        compiling = asyncio.ensure_future(uploads.compile(session, source, Compilation("CPU")))
        await asyncio.to_thread(opening.wait_held, 1)
        await uploads.release(session, [], [digest])
        for content in (bytes(700_000), bytes(700_001)):
            error = await refused(upload(server, session, content))
            assert error.code is Code.TOO_LARGE
            assert "--max-uploads-mb" in error.message
        opening.open()
        await compiling
        await upload(server, session, bytes(700_001))


async def test_one_upload_twice_is_held_once(serving: Serving) -> None:
    async with serving(the_uploaded(), allow_uploads=True) as server:
        uploads, session = server.services.uploads, server.services.sessions.attach("", "c")
        await upload(server, session)
        await upload(server, session)
        await uploads.release(session, [], [DIGEST])
        assert uploads.has_blobs(session, [DIGEST]) == [False]
        assert "blob" in (await refused(uploads.read(session, SOURCE))).message


async def test_a_release_whose_caller_goes_at_once_is_carried_out(serving: Serving) -> None:
    model = the_uploaded(is_open=False)
    async with serving(model, allow_uploads=True) as server:
        session = server.services.sessions.attach("", "c")
        target = await compile_uploaded(server, session)
        running = server.services.inference.submit(an_inference(target), lambda _: None)
        await asyncio.to_thread(model.gate.wait_held, 1)
        compiled = server.services.models.of(running)
        releasing = asyncio.ensure_future(server.services.uploads.release(session, [target.compiled_id]))
        asyncio.get_running_loop().call_soon(releasing.cancel)
        with pytest.raises(asyncio.CancelledError):
            await releasing
        assert repr(server.engine) == "<Engine: 1 models on CPU>"  # that of the repository
        model.gate.open()
        await until(lambda: compiled not in compiled.device.models)
        assert running.state is JobState.FINISHED


async def left(server: Composition, session: Session, leap: Leap) -> None:
    """Leave a session, and let its lease run out until it has ended."""
    server.services.sessions.detach(session)
    await asyncio.to_thread(int)
    leap(server.services.sessions.lease_s)
    await until(lambda: session.has_ended)
    await asyncio.to_thread(int)


async def test_what_a_session_owned_goes_with_it(serving: Serving, leap: Leap) -> None:
    async with serving(the_uploaded(), allow_uploads=True) as server:
        services, session = server.services, server.services.sessions.attach("", "c")
        target = await compile_uploaded(server, session)
        await left(server, session, leap)
        assert repr(services.sessions) == "<SessionService: 0 sessions>"
        assert repr(services.uploads) == "<UploadService: 0 compiled models>"
        assert services.uploads.has_blobs(session, [DIGEST]) == [False]
        assert (await refused(services.inference.infer(an_inference(target)))).code is Code.MODEL_NOT_FOUND
        with pytest.raises(ServingError, match="is not open here"):
            services.sessions.get(session.id)


async def test_a_job_that_waits_for_what_a_session_had_hears_that_it_has_ended(serving: Serving, leap: Leap) -> None:
    model = the_uploaded(is_open=False)
    async with serving(model, allow_uploads=True) as server:
        session, inference = server.services.sessions.attach("", "c"), server.services.inference
        target = await compile_uploaded(server, session)
        jobs = [inference.submit(an_inference(target), lambda _: None) for _ in range(6)]
        await left(server, session, leap)
        assert jobs[-1].error is not None
        assert jobs[-1].error.code is Code.SESSION_EXPIRED
        model.gate.open()


async def test_sessions_end_though_an_inference_on_what_another_had_goes_on(serving: Serving, leap: Leap) -> None:
    model = the_uploaded(is_open=False)
    async with serving(model, allow_uploads=True, session_grace_s=1.0) as server, asyncio.timeout(20):
        services = server.services
        stuck, other = services.sessions.attach("", "stuck"), services.sessions.attach("", "other")
        running = services.inference.submit(an_inference(await compile_uploaded(server, stuck)), lambda _: None)
        await asyncio.to_thread(model.gate.wait_held, 1)
        await left(server, stuck, leap)
        await left(server, other, leap)
        assert repr(services.sessions) == "<SessionService: 0 sessions>"
        assert repr(services.uploads) == "<UploadService: 0 compiled models>"
        assert running.state is JobState.RUNNING
        model.gate.open()


async def test_a_job_on_what_a_client_brought_has_the_server_s_time_limit_unless_it_names_its_own(
    serving: Serving, leap: Leap
) -> None:
    model = the_uploaded(is_open=False)
    async with serving(model, allow_uploads=True, time_limit_s=9.0) as server, asyncio.timeout(20):
        target = await compile_uploaded(server, server.services.sessions.attach("", "c"))
        inference = an_inference(target)
        wanted = [inference.wanted, inference.wanted._replace(timeout_s=30.0)]
        calls = [
            asyncio.ensure_future(server.services.inference.infer(inference._replace(wanted=each))) for each in wanted
        ]
        await asyncio.to_thread(model.gate.wait_held, 2)
        leap(10.0)
        job = await calls[0]
        assert job.state is JobState.EXPIRED
        assert "the time limit of 9 s passed" in str(job.error)
        model.gate.open()
        assert (await calls[1]).state is JobState.FINISHED


async def test_a_session_that_is_resumed_on_its_lease_keeps_what_it_owns(serving: Serving, leap: Leap) -> None:
    async with serving(the_uploaded(), allow_uploads=True) as server:
        services, session = server.services, server.services.sessions.attach("", "c")
        target = await compile_uploaded(server, session)
        services.sessions.detach(session)
        assert services.sessions.attach(session.id, "c") is session
        leap(1000.0)
        await asyncio.to_thread(int)
        assert (await services.inference.infer(an_inference(target))).state is JobState.FINISHED


async def test_what_arrives_after_a_sessions_end_is_not_kept(serving: Serving) -> None:
    async with serving(the_uploaded(), allow_uploads=True) as server:
        uploads, session = server.services.uploads, server.services.sessions.attach("", "c")
        await upload(server, session)
        compiling = asyncio.ensure_future(uploads.compile(session, SOURCE, Compilation("CPU")))
        session.has_ended = True
        assert (await refused(compiling)).code is Code.SESSION_EXPIRED
        assert (await refused(upload(server, session))).code is Code.SESSION_EXPIRED
        assert repr(uploads) == "<UploadService: 0 compiled models>"


async def test_where_temporary_files_have_no_place_a_server_starts_without_uploads_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(ServingError, match="--allow-uploads needs a folder for temporary files, which TMPDIR names"):
        async with compose(Settings(allow_uploads=True), FakeBackend({})):
            raise AssertionError
    async with compose(Settings(), FakeBackend({})) as server:
        assert repr(server.engine).startswith("<Engine: 0 models")
