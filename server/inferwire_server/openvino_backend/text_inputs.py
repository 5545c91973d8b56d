"""Which inputs are texts that regular expressions read, and so have to be UTF-8.

As of 2026.4 those of OpenVINO's tokenizers do not look whether a text is UTF-8. Where it is not, they go past its end,
which may end the process.
"""

from __future__ import annotations

from typing import Any

from inferwire_server.openvino_backend.edges import bodies, nodes, sources

_READING = frozenset(("RegexNormalization", "RegexSplit", "SpecialTokensSplit"))
"""The operations that have a regular expression read what they are given."""

_MENDING = "UTF8Validate"
"""The operation that replaces what is not UTF-8, or leaves it out."""


def text_inputs_of(model: Any) -> frozenset[int]:
    """Give the positions of the inputs that a model's regular expressions read as they are sent."""
    strings = {
        port.get_node().get_name(): at
        for at, port in enumerate(model.inputs)
        if port.get_element_type().get_type_name() == "string"
    }
    read, behind = set[int](), dict[str, set[int]]()
    for node in model.get_ordered_ops() if strings else ():
        name, kind = node.get_name(), node.get_type_name()
        taken = set[int]().union(*(behind[source.get_name()] for source in sources(node)))
        if _reads(node):
            read |= taken
        behind[name] = {strings[name]} if name in strings else set() if kind == _MENDING else taken
    return frozenset(read)


def _reads(node: Any) -> bool:
    """Whether a node, or one in its bodies, has a regular expression read something."""
    kinds = (each.get_type_name() for body in bodies(node) for each in nodes(body))
    return node.get_type_name() in _READING or any(kind in _READING for kind in kinds)
