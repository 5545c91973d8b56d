"""The two modules that one test body must not be able to tell apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from inferwire_cli.server_process import running_server

make_model: Any = openvino.Model
"""Makes a model; the stub of the constructor does not fit its own class."""

PROPERTY_MODULES = ["properties"] + [
    each.name.removeprefix("openvino.")
    for each in walk_packages(openvino.properties.__path__, "openvino.properties.")
    if not each.name.endswith("._properties")
]
"""Every module of openvino's with properties, by its name in openvino and in inferwire."""


@pytest.fixture(params=["openvino", "inferwire"])
def ov(request: pytest.FixtureRequest) -> Any:
    """The module under test, under the name users import it by."""
    return import_module(request.param)


@dataclass(frozen=True, slots=True)
class Runtime:
    """One of the two implementations, ready to run models.

    Attributes:
        name: "openvino" runs in this process, "inferwire" on a server over a real socket.
        ov: Its module.
        core: Its `Core`.
        new_core: Makes another one.
        models: The model files of `mirror_models`, by name.
    """

    name: str
    ov: Any
    core: Any
    new_core: Callable[[], Any]
    models: Mapping[str, Path]

    @property
    def is_remote(self) -> bool:
        return self.name == "inferwire"

    def compile(self, model: str, **config: Any) -> Any:
        """Compile a model as f32, which both compute alike."""
        return self.core.compile_model(self.models[model], "CPU", {"INFERENCE_PRECISION_HINT": "f32"} | config)


@pytest.fixture(scope="session")
def server_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that takes uploads, for the whole run."""
    with running_server(tmp_path_factory.mktemp("repository"), "--allow-uploads", "--allow-imports") as server:
        yield server.grpc_address


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session", params=["openvino", "inferwire"])
def runtime(request: pytest.FixtureRequest, models: Mapping[str, Path]) -> Runtime:
    """The implementation under test, which one test body must not be able to tell apart."""
    ov = import_module(request.param)
    is_remote = request.param == "inferwire"
    new_core = partial(ov.Core, request.getfixturevalue("server_address")) if is_remote else ov.Core
    return Runtime(request.param, ov, new_core(), new_core, models)


def save_models(folder: Path) -> Mapping[str, Path]:
    paths = {name: folder / f"{name}.xml" for name in MODELS}
    for name, path in paths.items():
        openvino.save_model(MODELS[name](), path, compress_to_fp16=False)
    return paths


def _parameter(name: str, shape: Any, element_type: Any = np.float32) -> Any:
    parameter = op.parameter(shape, element_type, name=name)
    parameter.output(0).get_tensor().set_names({name})
    return parameter


def _model(inputs: Sequence[Any], outputs: Mapping[str, Any]) -> openvino.Model:
    for name, node in outputs.items():
        node.output(0).get_tensor().set_names({name})
    return make_model([op.result(node) for node in outputs.values()], list(inputs), "mirrored")


def _relu(shape: Any, element_type: Any = np.float32) -> openvino.Model:
    data = _parameter("data", shape, element_type)
    return _model([data], {"out": op.relu(data)})


def _two() -> openvino.Model:
    a, b = _parameter("a", [1, 3]), _parameter("b", [1, 3])
    return _model([a, b], {"sum": op.add(a, b), "difference": op.subtract(a, b)})


def _text() -> openvino.Model:
    data = _parameter("data", [-1], openvino.Type.string)
    indices = op.constant(np.array([0, 1], np.int64))
    return _model([data], {"out": op.gather(data, indices, op.constant(np.int64(0)))})


def _slow() -> openvino.Model:
    """A model that takes seconds; no test waits for it to end."""
    data = _parameter("data", [1])
    node = square = op.broadcast(data, op.constant(np.array([2048, 2048], np.int64)))
    for _ in range(100):
        node = op.tanh(op.matmul(node, square, False, False))
    return _model([data], {"out": op.reduce_max(node, op.constant(np.array([0, 1], np.int64)))})


def _failing() -> openvino.Model:
    """A model that fails unless `pattern` has as many elements as `data`."""
    data, pattern = _parameter("data", [6]), _parameter("pattern", [2], np.int64)
    return _model([data, pattern], {"out": op.reshape(data, pattern, special_zero=False)})


def _many_states() -> openvino.Model:
    """A model of six states, each of which adds up its inputs, times a number of its own."""
    data = _parameter("data", [1])
    zero, sinks, node = op.constant(np.zeros(1, np.float32)), [], data
    for factor, name in enumerate(STATES, 1):
        added = op.add(op.read_value(zero, name), op.multiply(data, op.constant(np.float32(factor))))
        sinks.append(op.assign(added, name))
        node = op.add(node, added)
    return make_model([op.result(node)], sinks, [data], "mirrored")


STATES = ("left", "right", "up", "down", "near", "far")
"""The states of `many_states`, by the factors 1 to 6."""

MODELS: Mapping[str, Callable[[], openvino.Model]] = {
    "relu": lambda: _relu([1, 3]),
    "integers": lambda: _relu([1, 3], np.int64),
    "scalar": lambda: _relu([]),
    "single": lambda: _relu([1]),
    "dynamic": lambda: _relu([-1, 3]),
    "rankless": lambda: _relu(openvino.PartialShape.dynamic()),
    "bounded": lambda: _relu([openvino.Dimension(1, 4), 3]),
    "two": _two,
    "text": _text,
    "slow": _slow,
    "failing": _failing,
    "many_states": _many_states,
}
"""The small models that mirror tests run."""
