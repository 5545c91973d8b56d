"""Reads an ONNX file's metadata, and the names of files beside it, without protobuf's classes for it.

Knows only the few fields of ONNX's messages that lead there. Reads no other file.
"""

from __future__ import annotations

from collections.abc import Iterator

from inferwire.transport.executions import WireBytes
from inferwire_proto.raw_fields import fields

_METADATA, _GRAPH = 14, 7
"""Fields of a model: pairs of strings, and its graph."""

_NODE, _INITIALIZER = 1, 5
"""Fields of a graph."""

_ATTRIBUTE = 5
"""The field of a node with what it was made with."""

_TENSORS, _GRAPHS = (5, 10), (6, 11)
"""Fields of an attribute: a tensor or several, a graph or several."""

_EXTERNAL_DATA = 13
"""The field of a tensor with pairs of strings, which say where its content is."""

_LOCATION = b"location"


def read_metadata(content: WireBytes) -> dict[str, str]:
    """Give the texts that a model's author has put into its file, by name."""
    return _pairs(memoryview(content), _METADATA)


def external_files(content: bytes) -> list[str]:
    """Name the files in which a model keeps tensors, by their paths in its folder; none if it cannot be read."""
    if _LOCATION not in content:  # so it is in most models, and their tensors need not be looked at one by one
        return []
    try:
        tensors = [each for graph in _below(memoryview(content), _GRAPH) for each in _tensors(graph)]
        found = [_pairs(tensor, _EXTERNAL_DATA).get(_LOCATION.decode()) for tensor in tensors]
    except (IndexError, UnicodeDecodeError):
        return []  # the runtime tells what is wrong with the file
    return sorted({location for location in found if location})


def _tensors(graph: memoryview) -> Iterator[memoryview]:
    """Give the tensors in a graph, those of its nodes and of graphs in them too."""
    yield from _below(graph, _INITIALIZER)
    for node in _below(graph, _NODE):
        for attribute in _below(node, _ATTRIBUTE):
            yield from _below(attribute, *_TENSORS)
            for inner in _below(attribute, *_GRAPHS):
                yield from _tensors(inner)


def _pairs(message: memoryview, number: int) -> dict[str, str]:
    """Read a field with pairs of strings, each of them a message of the fields 1 and 2."""
    entries = [dict(fields(entry)) for entry in _below(message, number)]
    return {bytes(entry.get(1, b"")).decode(): bytes(entry.get(2, b"")).decode() for entry in entries}


def _below(message: memoryview, *numbers: int) -> Iterator[memoryview]:
    return (content for number, content in fields(message) if number in numbers)
