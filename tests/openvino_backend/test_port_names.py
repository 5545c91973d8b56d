"""A model's inputs and outputs are called what a source says."""

from __future__ import annotations

from pathlib import Path

import openvino.opset13 as ops
import pytest
from tests.openvino_backend.small_models import compiled, parameter, saved

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_proto.port_names import PortNames
from inferwire_server.core.model_options import Preprocessing, Source
from inferwire_server.core.specs import Dimension
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend


@pytest.fixture
def source(tmp_path: Path) -> Source:
    x = parameter(BY_NAME["f32"], (-1, 2))
    return saved(tmp_path, [("y", ops.relu(x))], [x])


def named(source: Source, *names: PortNames, **reshape: tuple[Dimension, ...]) -> Source:
    return Source(source.path, preprocessing=(Preprocessing(names=names, reshape=reshape),))


def test_new_shapes_and_the_compiled_model_have_the_new_names(backend: OpenVinoBackend, source: Source) -> None:
    names = PortNames(False, 0, frozenset({"left"})), PortNames(True, 0, frozenset({"first", "second"}))
    renamed = named(source, *names, left=(Dimension(3, 3), Dimension(2, 2)))
    for spec in (backend.read(renamed), compiled(backend, renamed).spec):
        ports = (*spec.inputs, *spec.outputs)
        assert [(port.oip_name, set(port.names)) for port in ports] == [
            ("left", {"left"}),
            ("first", {"first", "second"}),
        ]
        assert [port.shape_text for port in ports] == ["[3,2]", "[3,2]"]


def test_an_input_without_names_is_given_a_shape_by_its_position(backend: OpenVinoBackend, source: Source) -> None:
    nameless, shape = PortNames(False, 0, frozenset()), (Dimension(3, 3), Dimension(2, 2))
    reshaped = Preprocessing(names=(nameless,), reshape_positions={0: shape})
    (port,) = backend.read(Source(source.path, preprocessing=(reshaped,))).inputs
    assert (port.names, port.shape_text) == (frozenset(), "[3,2]")
    past = Preprocessing(reshape_positions={1: shape})
    with pytest.raises(ServingError, match=r"^input 1 is given a shape, and the model has 1$") as raised:
        backend.read(Source(source.path, preprocessing=(past,)))
    assert raised.value.code is Code.MODEL_FAILED


def test_a_port_that_is_not_there_is_named_to_nobody(backend: OpenVinoBackend, source: Source) -> None:
    for is_output, kind in ((False, "input"), (True, "output")):
        with pytest.raises(ServingError, match=f"^{kind} 1 is named, and the model has 1$") as raised:
            backend.read(named(source, PortNames(is_output, 1, frozenset({"x"}))))
        assert raised.value.code is Code.MODEL_FAILED
