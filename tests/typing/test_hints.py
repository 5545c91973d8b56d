"""Hints can be read when a program runs, as documentation, checks of calls and data models do."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

import inferwire
from inferwire.graph.nodes import Parameter, Result


def modules(module: ModuleType = inferwire) -> Iterator[ModuleType]:
    """Yield a module and those that it offers by name."""
    yield module
    for name in dir(module):
        inner = vars(module).get(name)
        if inspect.ismodule(inner) and inner.__name__.startswith(f"{module.__name__}."):
            yield from modules(inner)


def functions_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the functions behind the public members of a class, inherited ones too."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        if name != "__init__" and name.startswith("_"):
            continue
        for function in (member.fget, member.fset) if isinstance(member, property) else (member,):
            plain = getattr(function, "__func__", function)
            if inspect.isfunction(plain):
                yield name, plain


def public_surface() -> dict[str, Any]:
    """Give the classes, their members and the functions that programs can name."""
    found: dict[str, Any] = {"Parameter": Parameter, "Result": Result}
    for module in modules():
        for name in (each for each in dir(module) if not each.startswith("_")):
            found.setdefault(name, getattr(module, name))
    kinds = {name: each for name, each in found.items() if inspect.isclass(each)}
    members = {f"{name}.{member}": each for name, kind in kinds.items() for member, each in functions_of(kind)}
    plain = {name: each for name, each in found.items() if inspect.isfunction(each)}
    everything = kinds | members | plain
    return {name: each for name, each in everything.items() if each.__module__.partition(".")[0] == "inferwire"}


PUBLIC = public_surface()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_hints_can_be_read_at_run_time(name: str) -> None:
    get_type_hints(PUBLIC[name])


OF_THE_SDK = ("Memory", "ModelContents", "PortDescription", "RequestRuns")
"""What only members for the SDK's own use give."""

NAMED_BY_ANOTHER = ("ExecutionNode", "RuntimeMap")
"""What a program names `Node` and `dict`."""

WITHOUT_A_NAME = ("DescriptorTensor",)
"""What has none in openvino either."""


def named_in(hint: Any) -> Iterator[type]:
    """Yield the classes of inferwire that a hint is made of."""
    if inspect.isclass(hint) and hint.__module__.startswith("inferwire."):
        yield hint
    for each in get_args(hint):
        yield from named_in(each)


def test_what_calls_give_can_be_named() -> None:
    given = {
        kind.__name__
        for each in PUBLIC.values()
        if inspect.isfunction(each)
        for kind in named_in(get_type_hints(each).get("return"))
        if kind not in PUBLIC.values()
    }
    assert given == {*OF_THE_SDK, *NAMED_BY_ANOTHER, *WITHOUT_A_NAME}
