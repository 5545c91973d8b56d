"""What programs upload takes room on the server only while something in them needs it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op
from tests.system.proxy import Proxy
from tests.system.servers import serving

import inferwire as ov
from inferwire_cli.server_process import HOST

FLAGS = ("--allow-uploads", "--allow-imports", "--max-uploads-mb", "1")
WEIGHTS = 100_000
"""Float numbers of a model's weights: a server that takes 1 MiB has no room for three such models."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repository").mkdir()
    return tmp_path / "repository"


@pytest.fixture
def core(repository: Path, port: int) -> Iterator[ov.Core]:
    with serving(repository, port, *FLAGS):
        core = ov.Core(f"{HOST}:{port}")
        gc.disable()  # What is let go must not depend on it.
        yield core
        gc.enable()
        core.close()


def save(folder: Path, number: int) -> Path:
    """Save a model whose weights no other has, which gives its number."""
    data = op.parameter([1], np.float32, name="data")
    weights = np.full(WEIGHTS, number, np.float32) + np.arange(WEIGHTS, dtype=np.float32) % 2
    out = op.reduce_min(op.add(data, op.constant(weights)), op.constant(np.array([0], np.int64)))
    runtime: Any = openvino
    file = folder / f"{number}.xml"
    openvino.save_model(runtime.Model([out], [data], "weights"), file, compress_to_fp16=False)
    return file


def number_of(compiled: ov.CompiledModel) -> int:
    return int(compiled(np.zeros(1, np.float32))[0])


def test_weights_that_are_compiled_again_and_again_take_the_room_of_those_in_use(core: ov.Core, tmp_path: Path) -> None:
    compiled = None
    for number in range(6):
        # The model before goes only as this one is there.
        compiled = core.compile_model(save(tmp_path, number), "CPU")
        assert number_of(compiled) == number
    for number in range(6, 12):
        model = core.read_model(save(tmp_path, number))
        del compiled
        compiled = core.compile_model(model, "CPU")
        assert number_of(compiled) == number
        del model
    for number in range(12, 18):
        file = save(tmp_path, number)
        del compiled
        compiled = core.compile_model(file.read_bytes(), "CPU", weights=file.with_suffix(".bin").read_bytes())
        assert number_of(compiled) == number


def test_a_model_that_is_only_read_takes_room_until_nobody_has_it(core: ov.Core, tmp_path: Path) -> None:
    kept = [core.read_model(save(tmp_path, number)) for number in range(2)]
    with pytest.raises(ov.TooLarge, match="--max-uploads-mb"):
        core.read_model(save(tmp_path, 2))
    clone = kept.pop().clone()
    with pytest.raises(ov.TooLarge, match="--max-uploads-mb"):
        core.read_model(save(tmp_path, 3))
    del clone
    assert core.read_model(save(tmp_path, 4)).inputs


def test_imported_models_take_room_as_long_as_they_are_there(core: ov.Core, tmp_path: Path) -> None:
    for number in range(6):
        exported = core.compile_model(save(tmp_path, number), "CPU").export_model()
        assert number_of(core.import_model(exported, "CPU")) == number


def test_what_two_models_are_made_of_stays_until_the_second_goes(core: ov.Core, tmp_path: Path) -> None:
    model = core.read_model(save(tmp_path, 0))
    first, second = core.compile_model(model, "CPU"), core.compile_model(model, "CPU")
    del first
    # What is freed is freed before anything is made.
    assert core.compile_model(model, "CPU").inputs
    del model
    assert number_of(second) == 0
    others = [core.compile_model(save(tmp_path, number), "CPU") for number in (1,)]
    del second
    others.append(core.compile_model(save(tmp_path, 2), "CPU"))
    assert [number_of(other) for other in others] == [1, 2]


def test_a_model_is_uploaded_again_to_a_server_that_has_restarted(repository: Path, port: int, tmp_path: Path) -> None:
    core = ov.Core(f"{HOST}:{port}")
    with serving(repository, port, *FLAGS):
        compiled = core.compile_model(save(tmp_path, 0), "CPU")
    with serving(repository, port, *FLAGS):
        assert number_of(compiled) == 0
        for number in range(1, 5):
            del compiled
            compiled = core.compile_model(save(tmp_path, number), "CPU")
            assert number_of(compiled) == number


def test_what_is_let_go_while_the_connection_is_cut_is_freed_later(repository: Path, port: int, tmp_path: Path) -> None:
    with serving(repository, port, *FLAGS), Proxy(port) as proxy:
        core = ov.Core(f"{HOST}:{proxy.port}")
        for number in range(4):
            compiled = core.compile_model(save(tmp_path, number), "CPU")
            assert number_of(compiled) == number
            proxy.cut_after = 1
            del compiled
        core.close()
