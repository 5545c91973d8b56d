"""Every public name of openvino is here, or stands in a table of what is not: neither side can drift unseen."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import openvino
import pytest
from tests.mirror.conftest import PROPERTY_MODULES

import inferwire
from inferwire.drop_in.stand_ins import STAND_INS, WORKING
from inferwire.graph.nodes import Parameter, Result
from inferwire.graph.ports import DescriptorTensor
from inferwire.models.graph_nodes import Constant
from inferwire.not_offered import MEMBERS, MODULES, TOP_LEVEL
from inferwire.requests.ov_dict import OVDict

IMPLEMENTATION = frozenset({"_add_openvino_libs_to_search_path", "_op_base", "_ov_api", "_pyopenvino"})
"""Names of openvino that are no part of its interface."""

_DESCRIPTOR_TENSOR = type(openvino.opset13.parameter([1]).output(0).get_tensor())
"""A class to which openvino gives no name."""

CLASSES: Mapping[str, tuple[type, type]] = {
    name: (getattr(openvino, name), getattr(inferwire, name))
    for name in sorted(dir(openvino))
    if isinstance(getattr(openvino, name), type) and name in dir(inferwire)
} | {
    "Parameter": (openvino.op.Parameter, Parameter),
    "Result": (openvino.op.Result, Result),
    "Constant": (openvino.op.Constant, Constant),
    "DescriptorTensor": (_DESCRIPTOR_TENSOR, DescriptorTensor),
}
"""Every class of openvino that is mirrored with its mirror: those of its interface, and those of nodes behind ports."""

ON_NO_OBJECT = frozenset(dir(object)) | {
    "__module__",
    "__dict__",
    "__weakref__",
    "__slots__",
    "__annotations__",
    "__slotnames__",
    # From Python 3.12 on, of a class that hands out its memory: a constant's value, which is not offered.
    "__buffer__",
    "__release_buffer__",
}

OPERATORS = frozenset(
    {
        *("__add__", "__mul__", "__radd__", "__rmul__", "__rsub__", "__rtruediv__", "__sub__", "__truediv__"),
        "__array_ufunc__",
    }
)
"""What makes a graph of nodes."""

DIFFERENT: Mapping[str, frozenset[str]] = {
    "Constant": OPERATORS,
    "Node": OPERATORS,
    "OVAny": frozenset({"__get__", "__set__"}),
    "Parameter": OPERATORS,
    "Result": OPERATORS,
    "Symbol": frozenset({"__bool__"}),
}
"""What is left out on purpose, without a sentence: arithmetic that makes graphs, and openvino's own business."""

NODES = frozenset({"described", "follow", "get_layout", "is_renamed", "layout", "rename", "set_layout", "take_labels"})
"""What every node has here and not in openvino."""

MORE: Mapping[str, frozenset[str]] = {
    "AsyncInferQueue": frozenset({"infer_async", "map_async", "set_error_callback"}),
    "CompiledModel": frozenset({"labels", "max_batch_rows", "of", "optimal_number_of_infer_requests"}),
    "ConstOutput": frozenset({"description", "facts"}),
    "DescriptorTensor": frozenset({"description", "facts", "of"}),
    "Constant": NODES,
    "Core": frozenset({"close", "served_model", "served_models"}),
    "InferRequest": frozenset(
        {"infer_async", "inputs", "of", "outputs", "postpone_outputs", "runs", "scheduling", "timings"}
    ),
    "Input": frozenset({"of"}),
    "Model": frozenset({"build_in", "contents", "describe_recording", "of"}),
    "Node": NODES,
    "Output": frozenset({"description", "facts", "follow"}),
    "Parameter": frozenset({"described", "follow", "get_shape", "is_renamed", "rename", "take_labels"}),
    "ProfilingInfo": frozenset({"of"}),
    "RemoteTensor": frozenset({"memory", "over"}),
    "Result": frozenset({"described", "follow", "is_renamed", "rename", "take_labels"}),
    "Shape": frozenset({"count", "index"}),
    "Tensor": frozenset({"memory", "over"}),
    "TensorVector": frozenset({"count", "index", "remove", "reverse"}),
}
"""What is here and not in openvino."""

OWN_USE: Mapping[str, frozenset[str]] = {
    "CompiledModel": frozenset({"of"}),
    "ConstOutput": frozenset({"description", "facts"}),
    "DescriptorTensor": frozenset({"description", "facts", "of"}),
    "InferRequest": frozenset({"of", "runs"}),
    "Input": frozenset({"of"}),
    "Model": frozenset({"build_in", "contents", "describe_recording", "of"}),
    "Node": frozenset({"described", "follow", "is_renamed", "rename", "take_labels"}),
    "Output": frozenset({"description", "facts", "follow"}),
    "Parameter": frozenset({"described", "follow", "is_renamed", "rename", "take_labels"}),
    "ProfilingInfo": frozenset({"of"}),
    "RemoteTensor": frozenset({"memory", "over"}),
    "Result": frozenset({"described", "follow", "is_renamed", "rename", "take_labels"}),
    "Tensor": frozenset({"memory", "over"}),
}
"""What of it the client's own modules alone use, and completion does not offer."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if name not in ON_NO_OBJECT and "pybind11" not in name}


def names_of(kind: type) -> set[str]:
    """What counts for a comparison: public names, and operators."""
    return {name for name in public(kind) if not name.startswith("_") or name.startswith("__")}


def not_offered(kind: type) -> set[str]:
    return {name for each in kind.__mro__ for name in MEMBERS.get(each.__name__, ())}


def test_every_top_level_name_is_here_or_says_that_it_is_not() -> None:
    theirs = {name for name in dir(openvino) if not name.startswith("__")} - IMPLEMENTATION
    ours = set(dir(inferwire))
    assert theirs - ours - TOP_LEVEL - MODULES == set()
    assert ours & (TOP_LEVEL | MODULES) == set()


@pytest.mark.parametrize("name", CLASSES)
def test_every_member_is_here_or_says_that_it_is_not(name: str) -> None:
    theirs, ours = CLASSES[name]
    refused = not_offered(ours)
    assert names_of(theirs) - names_of(ours) - refused == DIFFERENT.get(name, frozenset())
    assert names_of(ours) & refused == set()
    assert refused - public(theirs) == set()


@pytest.mark.parametrize("name", CLASSES)
def test_nothing_is_added_unseen(name: str) -> None:
    theirs, ours = CLASSES[name]
    added = {each for each in public(ours) if not each.startswith("_")}
    assert added - public(theirs) == MORE.get(name, frozenset())


@pytest.mark.parametrize("name", OWN_USE)
def test_completion_offers_what_programs_use(name: str) -> None:
    ours = CLASSES[name][1]
    assert public(ours) - set(dir(object.__new__(ours))) == OWN_USE[name]


def test_results_have_every_member() -> None:
    theirs: Any = import_module("openvino.utils.data_helpers").OVDict
    assert {name for name in public(theirs) if not name.startswith("_")} - public(OVDict) == set()


MIRRORED_MODULES = (
    *PROPERTY_MODULES,
    "exceptions",
    "helpers",
    "layout_helpers",
    "utils.data_helpers",
)


def their_module(name: str) -> Any:
    if name == "layout_helpers":
        return openvino.layout_helpers
    return import_module(f"openvino.{name}".rstrip("."))


@pytest.mark.parametrize("name", MIRRORED_MODULES)
def test_every_name_of_a_module_is_here(name: str) -> None:
    def names(module: Any) -> set[str]:
        return {each for each in dir(module) if not each.startswith("_")}

    inner = {"packing", "data_dispatcher"}
    assert names(their_module(name)) - names(import_module(f"inferwire.{name}")) - inner == set()


@pytest.mark.parametrize("name", [*PROPERTY_MODULES, "helpers", "layout_helpers"])
def test_completion_offers_what_a_module_has_of_openvinos(name: str) -> None:
    theirs, ours = their_module(name), import_module(f"inferwire.{name}")
    offered = {each for each in dir(ours) if not each.startswith("_")}
    assert {each for each in offered if not hasattr(theirs, each)} - {"stream_count"} == set()
    defined = {each for each, value in vars(ours).items() if isinstance(value, str) and not each.startswith("_")}
    assert defined <= offered


@pytest.mark.parametrize("module", ["passes", "_offline_transformations"])
def test_every_name_of_what_changes_graphs_has_a_stand_in(module: str) -> None:
    theirs = import_module(f"openvino.{module}")
    names = {name for name in dir(theirs) if not name.startswith("_") and callable(getattr(theirs, name))}
    assert names - {"get_version"} == STAND_INS[module]


@pytest.mark.parametrize(
    "name", [name for name in dir(openvino.Type) if isinstance(getattr(openvino.Type, name), openvino.Type)]
)
def test_numpy_types_of_elements(name: str) -> None:
    def given(ov: Any, get_dtype: Any) -> object:
        try:
            return get_dtype(getattr(ov.Type, name))
        except ov.exceptions.OVTypeError as error:
            return tuple(map(str, error.args))

    theirs, ours = import_module("openvino.utils.types").get_dtype, WORKING["utils.types"]["get_dtype"]
    assert given(openvino, theirs) == given(inferwire, ours)


@pytest.mark.parametrize("module", STAND_INS)
def test_what_has_a_stand_in_is_openvino_s(module: str) -> None:
    theirs = import_module(f"openvino.{module}")
    assert [name for name in STAND_INS[module] if not callable(getattr(theirs, name, None))] == []


def mirrored_classes() -> dict[str, tuple[type, type]]:
    """Every class of openvino that is mirrored with its mirror, by its name."""
    found: dict[str, tuple[type, type]] = {}
    for module in ("", "preprocess", *MIRRORED_MODULES):
        ours = import_module(f"inferwire.{module}".rstrip("."))
        for name in dir(ours):
            their_kind, our_kind = getattr(their_module(module), name, None), getattr(ours, name)
            if isinstance(their_kind, type) and isinstance(our_kind, type):
                found[f"{module}.{name}".lstrip(".")] = their_kind, our_kind
    return found


CLASS_PAIRS = mirrored_classes()


@pytest.mark.parametrize(("theirs", "ours"), CLASS_PAIRS.values(), ids=CLASS_PAIRS.keys())
def test_weak_references_are_taken_where_openvino_takes_them(theirs: type, ours: type) -> None:
    assert bool(ours.__weakrefoffset__) == bool(theirs.__weakrefoffset__)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in MEMBERS.items() for name in sorted(names)])
def test_a_member_that_is_not_offered_says_so(kind: str, name: str) -> None:
    owner: Any = object.__new__(CLASSES[kind][1])
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert str(caught.value).startswith(f"openvino.{kind}.{name} is not offered by inferwire")
    assert not hasattr(owner, name)


def test_any_other_member_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match=r"'inferwire\.Core' object has no attribute 'nonsense'"):
        getattr(inferwire.Core("localhost:1"), "nonsense")  # noqa: B009 - the name is not one to write
