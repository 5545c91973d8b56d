"""Models with states: their order, and what is read of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.openvino_backend.small_models import EXACT, STATES, f32, with_states

from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.states import ReadStates, WriteStates
from inferwire_server.openvino_backend.backend import OpenVinoBackend


def test_a_model_with_states_comes_back_from_its_blob_with_them(backend: OpenVinoBackend, tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "deploy/models/silero_vad_stateful/1/silero_vad_stateful.xml"
    options = ModelOptions("vad", "CPU", EXACT)
    original = backend.compile(Source(path), options)
    blob = tmp_path / "model.blob"
    blob.write_bytes(original.export())
    imported = backend.compile(Source(blob, is_compiled=True), options)
    assert imported.spec.states == original.spec.states
    assert imported.spec.name == "vad"
    assert imported.spec.inputs == original.spec.inputs
    assert imported.spec.outputs[0].oip_name == original.spec.outputs[0].oip_name
    row = f32(np.linspace(-1, 1, 576).reshape(1, 576))
    assert imported.create_slot().run([row], [0]) == original.create_slot().run([row], [0])


def test_states_have_one_order_however_often_a_file_is_compiled(backend: OpenVinoBackend, tmp_path: Path) -> None:
    source = with_states(tmp_path)
    orders = {backend.compile(source, ModelOptions("m", "CPU")).spec.states for _ in range(8)}
    assert [sorted(order) for order in orders] == [sorted(STATES)]


def test_states_of_a_model_that_is_read_are_sorted(backend: OpenVinoBackend, tmp_path: Path) -> None:
    source = with_states(tmp_path)
    assert {backend.read(source).states for _ in range(8)} == {tuple(sorted(STATES))}


def test_all_states_are_read_in_the_order_of_their_names(backend: OpenVinoBackend, tmp_path: Path) -> None:
    source = with_states(tmp_path)
    values = {name: f32([index]) for index, name in enumerate(STATES)}
    for _ in range(8):
        model = backend.compile(source, ModelOptions("m", "CPU"))
        slot = model.create_slot(keeps_states=True)
        slot.access(WriteStates(tuple(values.items())))
        assert slot.access(ReadStates()) == tuple(values[name] for name in model.spec.states)
