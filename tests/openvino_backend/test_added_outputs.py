"""What a model is to give beside its own outputs has the same names each time that it is read."""

from __future__ import annotations

from pathlib import Path

import openvino.opset13 as ops
from tests.openvino_backend.small_models import compiled, parameter, saved

from inferwire_proto.added_outputs import AddedOutput
from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.model_options import Preprocessing, Source
from inferwire_server.openvino_backend.backend import OpenVinoBackend


def with_added(source: Source, *added: AddedOutput) -> Source:
    return Source(source.path, preprocessing=(Preprocessing(added_outputs=added),))


def test_an_output_without_a_name_is_called_after_its_node(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], (1, 2))
    source = with_added(saved(tmp_path, [("y", ops.relu(ops.negative(x, name="minus")))], [x]), ("minus", 0))
    for spec in (backend.read(source), compiled(backend, source).spec, backend.read(source)):
        port = spec.outputs[1]
        assert (set(port.names), port.oip_name, port.node_name) == ({"minus:0"}, "minus:0", "minus/sink_port_0")


def test_where_another_tensor_has_that_name_it_gets_another(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], (1, 2))
    source = with_added(saved(tmp_path, [("minus:0", ops.relu(ops.negative(x, name="minus")))], [x]), ("minus", 0))
    assert [set(port.names) for port in compiled(backend, source).spec.outputs] == [{"minus:0"}, {"minus:0_"}]


def test_one_with_names_keeps_them(backend: OpenVinoBackend, tmp_path: Path) -> None:
    x = parameter(BY_NAME["f32"], (1, 2))
    minus = ops.negative(x, name="minus")
    minus.output(0).get_tensor().set_names({"negated"})
    source = with_added(saved(tmp_path, [("y", ops.relu(minus))], [x]), "negated")
    assert [set(port.names) for port in compiled(backend, source).spec.outputs] == [{"y"}, {"negated"}]
