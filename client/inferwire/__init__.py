"""OpenVINO inference on another machine, through the API its users already know.

Mirrors `openvino`: `import inferwire as ov` and name the server.
"""

from inferwire import properties
from inferwire.dimensions import Dimension, Symbol
from inferwire.layout import Layout
from inferwire.ov_any import OVAny
from inferwire.partial_shape import PartialShape
from inferwire.ports import ConstOutput, Node
from inferwire.shapes import Coordinate, Shape, Strides
from inferwire.tensor import Tensor
from inferwire.types import Type

__all__ = [
    "ConstOutput",
    "Coordinate",
    "Dimension",
    "Layout",
    "Node",
    "OVAny",
    "PartialShape",
    "Shape",
    "Strides",
    "Symbol",
    "Tensor",
    "Type",
    "properties",
]
