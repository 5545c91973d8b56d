"""What a member of a mirrored class says of where it comes from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from typing import Any

import openvino
import pytest

import inferwire
from inferwire.graph.nodes import Parameter, Result
from inferwire.models.graph_nodes import Constant
from inferwire.models.runtime_model import ExecutionNode

SOURCE = re.compile(r"[Mm]irrors `openvino\.([\w.]+)[`(]|\b[Nn]ot in openvino\b")
"""What says where a member comes from, or that it comes from nowhere."""

ALIAS = re.compile(r"(Give|Set) `(\w+)`[.:]")
"""What a member begins with that openvino has beside another one of another name."""

EXPORTED = [getattr(module, name) for module in (inferwire, inferwire.preprocess) for name in module.__all__]
KINDS = [
    kind
    for kind in (*EXPORTED, Parameter, Result, Constant, ExecutionNode)
    if inspect.isclass(kind) and "Mirrors " in (kind.__doc__ or "")
]
"""The mirrored classes, and those of nodes, which are not exported."""


WHERE = {"VariableState": import_module("openvino._pyopenvino")}
"""Where openvino has what it does not export."""


def members() -> Iterator[tuple[str, Any, type]]:
    """Yield the public members that classes of inferwire add to their bases, by name, each once."""
    seen = set[int]()
    for kind in KINDS:
        for owner in kind.__mro__:
            if owner.__module__.partition(".")[0] != "inferwire":
                continue
            for name, member in vars(owner).items():
                is_documented = isinstance(member, property | classmethod) or inspect.isfunction(member)
                if is_documented and not name.startswith("_") and id(member) not in seen:
                    seen.add(id(member))
                    yield f"{kind.__name__}.{name}", member, kind


MEMBERS = {name: (member, kind) for name, member, kind in members()}


def is_in_openvino(path: str, name: str) -> bool:
    """Tell whether openvino has what a docstring names, under the member's own name."""
    *above, last = path.split(".")
    found = reduce(lambda owner, each: getattr(owner, each, None), above, WHERE.get(above[0], openvino))
    return last == name and hasattr(found, name)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_says_what_it_mirrors(name: str) -> None:
    member, kind = MEMBERS[name]
    said = " ".join((inspect.getdoc(member) or "").split())
    alias, source = ALIAS.match(said), SOURCE.search(said)
    if alias is not None:
        assert alias[2] in dir(kind), said
    else:
        assert source is not None, said
        assert source[1] is None or is_in_openvino(source[1], name.split(".")[1]), said


def test_every_kind_of_member_is_looked_at() -> None:
    looked_at = {"Tensor.copy_from", "Tensor.shape", "InferRequest.infer", "PreProcessSteps.pad", "OVDict.names"}
    assert looked_at <= set(MEMBERS)
