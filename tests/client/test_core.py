"""What a core and a compiled model say to the server, and when."""

from __future__ import annotations

import gc
import io
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import count
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import inferwire as ov
from inferwire import core_properties
from inferwire.errors import error_of
from inferwire.graph.described import PortDescription
from inferwire.transport.descriptions import CompiledDescription, ModelContents, ModelDescription
from inferwire.transport.fake_transport import FakeTransport
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.properties import EnumValue, PropertyValue

XML, WEIGHTS = b"<net/>", b"weights"


@pytest.fixture
def core(transport: FakeTransport) -> ov.Core:
    return ov.Core(transport=transport)


def save(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(XML if name.endswith((".xml", ".onnx", ".pdmodel")) else WEIGHTS)
    return folder / names[0]


class ReadsNothing(FakeTransport):
    """A server of which nobody may ask more than to compile."""

    def read(self, contents: ModelContents) -> ModelDescription:
        raise AssertionError(f"{contents.source} is read before it is compiled")

    def compile(
        self, contents: ModelContents, device: str, properties: Mapping[str, PropertyValue]
    ) -> CompiledDescription:
        if contents.blobs[0].content == b"<nonsense/>":
            raise ov.ModelFailed('Unable to read the model: "model.xml" it is nonsense')
        return super().compile(contents, device, properties)


def test_files_are_compiled_in_one_call(transport: FakeTransport, tmp_path: Path) -> None:
    core = ov.Core(transport=ReadsNothing(transport.model))
    assert core.compile_model(save(tmp_path, "model.xml"), "CPU").inputs
    assert core.compile_model(XML, "CPU").inputs
    bad = tmp_path / "bad.xml"
    bad.write_bytes(b"<nonsense/>")
    with pytest.raises(ov.ModelFailed, match=re.escape(f'the model: "{bad}" it is nonsense')):
        core.compile_model(bad, "CPU")


@pytest.mark.parametrize(
    ("names", "suffix"),
    [
        (("model.xml", "model.bin"), ".xml"),
        (("model.pdmodel", "model.pdiparams"), ".pdmodel"),
        (("model.onnx",), ".onnx"),
    ],
)
def test_a_models_files_are_uploaded_by_their_hashes(
    transport: FakeTransport, core: ov.Core, tmp_path: Path, names: tuple[str, ...], suffix: str
) -> None:
    core.compile_model(save(tmp_path, *names), "CPU")
    source, device, properties = transport.compiles[0]
    assert (source.suffix, device, properties) == (suffix, "CPU", {})
    assert transport.uploads[source.model] == XML
    assert source.model == sha256(XML).digest()
    assert source.weights == (sha256(WEIGHTS).digest() if len(names) == 2 else b"")


@pytest.mark.parametrize("given", [8001, b"host:8001", ["host:8001"], 0])
def test_what_is_no_address_is_told_what_one_is(given: Any) -> None:
    with pytest.raises(TypeError, match='expected the address of a server as text, such as "host:8001"'):
        ov.Core(given)


def test_a_with_statement_closes_the_connection_at_its_end_and_lets_errors_pass(
    transport: FakeTransport, core: ov.Core
) -> None:
    with core as opened:
        assert opened is core
        assert transport.closed_at == -inf
    assert transport.closed_at > -inf
    with pytest.raises(ValueError, match="of the block"), core:
        raise ValueError("of the block")


def test_what_is_served_is_listed(core: ov.Core) -> None:
    assert core.served_models() == [ov.ModelStatus("double", "1", "ready", "")]


def test_contents_are_hashed_once(transport: FakeTransport, core: ov.Core) -> None:
    """Weights may have gigabytes. Equal hashes of two calculations would be two objects."""
    model = core.read_model(XML, WEIGHTS)
    model.reshape(model.input().partial_shape)
    core.compile_model(model)
    core.compile_model(model.clone())
    first, second = (source for source, _, _ in transport.compiles)
    assert first.model is second.model
    assert first.weights is second.weights
    assert all(any(uploaded is digest for uploaded in transport.uploads) for digest in (first.model, first.weights))


def test_an_input_without_names_is_reshaped_by_its_position(transport: FakeTransport, core: ov.Core) -> None:
    model = core.read_model(XML, WEIGHTS)
    model.input().set_names(set())
    nameless = PortDescription(frozenset(), ov.Type.f32, ov.PartialShape([2, 3]), "data", "Parameter", "data")
    transport.model = replace(transport.model, inputs=(nameless,))
    model.reshape([2, 3])
    core.compile_model(model)
    (edit,) = transport.compiles[0][0].preprocessing
    assert (edit.reshape, edit.reshape_positions) == ({}, {0: ov.PartialShape([2, 3])})


def test_a_server_that_passes_over_positions_is_told_of_and_the_model_stays_as_it_was(
    transport: FakeTransport, core: ov.Core
) -> None:
    model = core.read_model(XML, WEIGHTS)
    model.input().set_names(set())
    with pytest.raises(ov.InferwireError, match=r"^the server at .+, an older one, reshapes no inputs without names"):
        model.reshape([2, 3])
    core.compile_model(model)
    (edit,) = transport.compiles[0][0].preprocessing
    assert (edit.reshape, edit.reshape_positions) == ({}, {})


def test_a_model_in_memory(transport: FakeTransport, core: ov.Core) -> None:
    for model, weights in ((XML, WEIGHTS), (io.BytesIO(XML), io.BytesIO(WEIGHTS)), (XML.decode(), WEIGHTS)):
        core.compile_model(model, weights=weights)
        source, device, _ = transport.compiles[-1]
        assert (source.suffix, device) == (".xml", "AUTO")
        assert source.weights == sha256(WEIGHTS).digest()
    for onnx, weights in ((b"\x08\x07onnx", None), (b"\x08\x07onnx", b"more"), (b"\nmodel", b"")):
        core.compile_model(core.read_model(onnx, weights))
        assert transport.compiles[-1][0].suffix == ".onnx"
    core.compile_model(b"\npaddle", weights=WEIGHTS)
    assert transport.compiles[-1][0].suffix == ".pdmodel"


def test_a_saved_model_is_uploaded_with_its_variables(transport: FakeTransport, core: ov.Core, tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    for name, content in (("variables.index", b"index"), ("variables.data-00000-of-00001", b""), ("notes", b"notes")):
        (tmp_path / "variables" / name).write_bytes(content)
    (tmp_path / "saved_model.pb").write_bytes(b"model")
    (tmp_path / "fingerprint.pb").write_bytes(b"fingerprint")
    core.compile_model(tmp_path, "CPU")
    source = transport.compiles[0][0]
    assert (source.suffix, transport.uploads[source.model], source.weights) == ("saved_model.pb", b"model", b"")
    assert {path: transport.uploads[digest] for path, digest in source.variables.items()} == {
        "variables/variables.index": b"index",
        "variables/variables.data-00000-of-00001": b"",
    }


def test_properties_travel_with_their_types(transport: FakeTransport, core: ov.Core) -> None:
    hint = ov.properties.hint
    core.set_property({"NUM_STREAMS": 1, "WEIGHTS": Path("file")})
    core.set_property("CPU", hint.inference_precision(ov.Type.f32))
    core.set_property("GPU", {"NUM_STREAMS": 8})
    config = {hint.performance_mode: hint.PerformanceMode.LATENCY, "NUM_STREAMS": 2}
    core.compile_model(XML, "CPU", config)
    assert transport.compiles[0][2] == {
        "NUM_STREAMS": 2,
        "WEIGHTS": "file",
        "INFERENCE_PRECISION_HINT": BY_NAME["f32"],
        "PERFORMANCE_HINT": EnumValue("hint.PerformanceMode", "LATENCY"),
    }


def test_the_cache_is_the_servers_operators(transport: FakeTransport, core: ov.Core) -> None:
    core.set_property({"CACHE_DIR": "cache"})
    assert core.get_property("CACHE_DIR") == core.get_property("CPU", "CACHE_DIR") == "cache"
    core.set_property("CPU", {"CACHE_DIR": "cache", "NUM_STREAMS": 1})
    for device in ("CPU", "AUTO"):
        with pytest.warns(RuntimeWarning, match="CACHE_DIR is a property of the server's process") as caught:
            core.compile_model(XML, device)
        assert caught[0].filename == __file__
    assert [properties for _, _, properties in transport.compiles] == [
        {"NUM_STREAMS": 1},
        {"DEVICE_PROPERTIES": {"CPU": {"NUM_STREAMS": 1}}},
    ]


def test_a_device_over_others_takes_what_was_set_for_them(transport: FakeTransport, core: ov.Core) -> None:
    core.set_property("CPU", {"NUM_STREAMS": 1})
    core.set_property("GPU", {"NUM_STREAMS": 2})
    core.set_property("AUTO", {"PERFORMANCE_HINT": "LATENCY"})
    core.compile_model(XML, "AUTO:GPU,CPU", {"DEVICE_PROPERTIES": {"GPU": {"NUM_STREAMS": 3}}})
    core.compile_model(XML, "BATCH:CPU(4)")
    core.compile_model(XML, "GPU.1")
    core.compile_model(XML, "HETERO:CPU")
    devices = {"CPU": {"NUM_STREAMS": 1}, "GPU": {"NUM_STREAMS": 2}}
    assert [properties for _, _, properties in transport.compiles] == [
        {"PERFORMANCE_HINT": "LATENCY", "DEVICE_PROPERTIES": {**devices, "GPU": {"NUM_STREAMS": 3}}},
        {"NUM_STREAMS": 1},
        {"NUM_STREAMS": 2},
        {"DEVICE_PROPERTIES": devices},
    ]


def test_what_is_no_map_for_a_device_is_openvinos_to_refuse(transport: FakeTransport, core: ov.Core) -> None:
    core.set_property("CPU", {"NUM_STREAMS": 1})
    core.compile_model(XML, "AUTO", {"DEVICE_PROPERTIES": {"CPU": "NUM_STREAMS=2"}})
    assert transport.compiles[0][2] == {"DEVICE_PROPERTIES": {"CPU": "NUM_STREAMS=2"}}


def test_properties_may_be_set_at_any_step_of_reading_them(transport: FakeTransport, core: ov.Core) -> None:
    def set_another(frame: FrameType, event: str, called: object) -> None:
        del event, called
        if frame.f_code.co_filename == core_properties.__file__:
            core.set_property("CPU", {f"P{next(numbers)}": 1})

    numbers = count()
    core.set_property("CPU", {"NUM_STREAMS": 2})
    sys.setprofile(set_another)
    try:
        core.compile_model(XML, "AUTO")
    finally:
        sys.setprofile(None)
    assert next(numbers) > 1
    assert transport.compiles[0][2].keys() == {"DEVICE_PROPERTIES"}


def test_what_was_set_for_all_of_a_kind_is_each_ones(transport: FakeTransport, core: ov.Core) -> None:
    core.set_property({"NUM_STREAMS": 1, "PERF_COUNT": True})
    core.set_property("GPU", {"NUM_STREAMS": 2, "INFERENCE_PRECISION_HINT": ov.Type.f16})
    core.set_property("GPU.1", {"NUM_STREAMS": 3})
    names = ("NUM_STREAMS", "PERF_COUNT", "INFERENCE_PRECISION_HINT")
    assert [core.get_property("GPU.0", name) for name in names] == [2, True, ov.Type.f16]
    assert [core.get_property("GPU.1", name) for name in names] == [3, True, ov.Type.f16]
    core.compile_model(XML, "GPU.1")
    assert transport.compiles[0][2] == dict(zip(names, (3, True, BY_NAME["f16"]), strict=True))


def test_what_batches_goes_with_a_model_for_the_device_alone_for_which_it_was_set(
    transport: FakeTransport, core: ov.Core
) -> None:
    core.set_property("CPU", {"INFERWIRE_MAX_BATCH": 16, "NUM_STREAMS": 1})
    core.compile_model(XML, "CPU")
    core.compile_model(XML, "AUTO")
    assert [properties for _, _, properties in transport.compiles] == [
        {"INFERWIRE_MAX_BATCH": 16, "NUM_STREAMS": 1},
        {"DEVICE_PROPERTIES": {"CPU": {"NUM_STREAMS": 1}}},
    ]


def test_what_a_model_was_told_of_batching_is_told_again(description: ModelDescription) -> None:
    core = ov.Core(transport=FakeTransport(replace(description, max_batch_rows=16)))
    compiled = core.compile_model(XML, "CPU", {"INFERWIRE_MAX_BATCH": "16", "INFERWIRE_PREFERRED_BATCHES": [4, 8]})
    assert compiled.get_property("INFERWIRE_MAX_BATCH") == 16
    assert compiled.get_property("INFERWIRE_PREFERRED_BATCHES") == [4, 8]
    with pytest.raises(RuntimeError, match=r"^Unsupported property: INFERWIRE_MAX_BATCH_DELAY_US$"):
        compiled.get_property("INFERWIRE_MAX_BATCH_DELAY_US")
    assert core.served_model("double").get_property("INFERWIRE_MAX_BATCH") == 16


def test_a_property_of_openvinos_is_told_as_the_model_has_it_alone(core: ov.Core) -> None:
    compiled = core.compile_model(XML, "CPU", {"NUM_STREAMS": 2})
    assert compiled.get_property("INFERWIRE_MAX_BATCH") == 0
    with pytest.raises(RuntimeError, match=r"^Unsupported property: NUM_STREAMS$"):
        compiled.get_property("NUM_STREAMS")


def test_a_property_of_a_type_that_none_has(core: ov.Core) -> None:
    with pytest.raises(TypeError, match="a property's value cannot be of type object"):
        core.compile_model(XML, "CPU", {"NUM_STREAMS": object()})
    with pytest.raises(TypeError, match="a property's value cannot be of type object"):
        core.set_property({"CACHE_DIR": object()})


@pytest.mark.parametrize("error", [TypeError("a mistake of the client's own"), ov.UnsupportedType("no such type")])
def test_what_goes_wrong_as_a_model_is_read_is_told_as_it_is(description: ModelDescription, error: Exception) -> None:
    class Failing(FakeTransport):
        def read(self, contents: ModelContents) -> ModelDescription:
            raise error

        def compile(
            self, contents: ModelContents, device: str, properties: Mapping[str, PropertyValue]
        ) -> CompiledDescription:
            raise error

    core = ov.Core(transport=Failing(description))
    for use in (core.read_model, core.compile_model):
        with pytest.raises(type(error)) as raised:
            use(XML)
        assert raised.value is error


def test_properties_of_a_device_come_with_openvinos_types(transport: FakeTransport, core: ov.Core) -> None:
    transport.properties["CPU", "MODE"] = EnumValue("hint.PerformanceMode", "LATENCY")
    transport.properties["CPU", "NEWER"] = EnumValue("hint.Unheard", "OF")
    assert core.get_property("CPU", "MODE") is ov.properties.hint.PerformanceMode.LATENCY
    assert core.get_property("CPU", "NEWER") == "OF"


@pytest.mark.parametrize(
    ("path", "shown"),
    [("<net>" + "x" * 9000, "<net>" + "x" * 250 + "..."), ("model\0.xml", "model\0.xml")],
    ids=["too long", "with a zero"],
)
def test_what_no_path_can_be_is_an_error_that_shows_no_more_of_it_than_a_path_has(
    core: ov.Core, path: str, shown: str
) -> None:
    with pytest.raises(RuntimeError, match=rf'^Could not open the file: "{re.escape(shown)}": [a-zA-Z ]+$'):
        core.read_model(path)


def test_a_compiled_model_is_freed_once_nothing_uses_it(transport: FakeTransport, core: ov.Core) -> None:
    compiled = core.compile_model(XML, "CPU")
    request = compiled.create_infer_request()
    del compiled
    gc.collect()
    assert not transport.released
    del request
    gc.collect()
    assert transport.released == ["compiled-1"]


def test_a_served_model_is_never_freed(transport: FakeTransport, core: ov.Core) -> None:
    core.served_model("double")
    gc.collect()
    assert not transport.released


def test_a_served_model_is_addressed_by_name_version_and_ports(transport: FakeTransport, core: ov.Core) -> None:
    core.served_model("double", 3).create_infer_request().start_async(np.ones((1, 3), np.float32))
    target = transport.executions[0].header.target
    assert (target.name, target.is_served, target.version, target.signature) == ("double", True, "3", 7)


@pytest.mark.parametrize("given", [(3,), (None,), ("double", {"PERFORMANCE_HINT": "LATENCY"}), ("double", 1.0)])
def test_a_served_model_is_asked_for_by_a_text_and_a_version(core: ov.Core, given: tuple[Any, ...]) -> None:
    with pytest.raises(
        TypeError, match=r"served_model\(\): incompatible .*\n.*version: str \| int \| None = None"
    ) as caught:
        core.served_model(*given)
    assert str(given[-1]) in str(caught.value)


def test_closing_a_core_closes_its_connection(transport: FakeTransport, core: ov.Core) -> None:
    core.close()
    assert transport.closed_at > 0


def test_plugins_are_in_the_order_of_their_devices(core: ov.Core) -> None:
    versions = core.get_versions("MULTI:AUTO,CPU")
    assert list(versions) == ["AUTO", "CPU", "MULTI"]
    assert (versions["CPU"].description, versions["CPU"].build_number) == ("fake_plugin", "1.0")


def test_reprs(core: ov.Core) -> None:
    assert repr(core) == "<Core: server fake>"
    assert repr(ov.Core("host:9")) == "<Core: server host:9>"


@pytest.mark.parametrize("code", Code)
def test_every_code_has_an_exception(code: Code) -> None:
    error = error_of(code, "because", 0.5)
    assert isinstance(error, RuntimeError)
    assert (error.code, str(error), error.retry_after_s) == (code, "because", 0.5)


def test_no_cache_and_no_cpus_of_their_own_is_what_models_are_compiled_with(core: ov.Core) -> None:
    core.set_property({"CACHE_DIR": ""})
    core.compile_model(XML, "CPU", {"ENABLE_CPU_RESERVATION": False})  # a warning would be an error
