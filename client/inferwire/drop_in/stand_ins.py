"""Stand-ins for what programs import from openvino's modules that make and change graphs, and cannot use here.

Owns which modules can be imported, and what is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from inferwire.exceptions import OVTypeError
from inferwire.not_offered import OPERATIONS, refuse
from inferwire.values.types import Type

STAND_INS: Mapping[str, frozenset[str]] = {
    "_offline_transformations": frozenset(
        {
            "apply_fused_names_cleanup",
            "apply_low_latency_transformation",
            "apply_make_stateful_transformation",
            "apply_moc_legacy_transformations",
            "apply_moc_transformations",
            "apply_pruning_transformation",
            "compress_model_transformation",
            "compress_quantize_weights_transformation",
            "convert_sequence_to_tensor_iterator_transformation",
            "paged_attention_transformation",
            "stateful_to_stateless_transformation",
        }
    ),
    "frontend": frozenset(
        {
            "ConversionExtension",
            "DecoderTransformationExtension",
            "FrontEnd",
            "FrontEndManager",
            "InputModel",
            "NodeContext",
            "OpExtension",
            "Place",
            "ProgressReporterExtension",
            "TelemetryExtension",
        }
    ),
    "frontend.frontend": frozenset({"FrontEnd", "FrontEndManager"}),
    "op": frozenset({"Constant"}),
    "passes": frozenset(
        {
            "AnyInput",
            "BackwardGraphRewrite",
            "ConstantFolding",
            "ConvertFP32ToFP16",
            "GraphRewrite",
            "LowLatency2",
            "MakeStateful",
            "Manager",
            "Matcher",
            "MatcherPass",
            "ModelPass",
            "Optional",
            "Or",
            "PassBase",
            "Predicate",
            "Serialize",
            "Version",
            "VisualizeTree",
            "WrapType",
            "attrs_match",
            "consumers_count",
            "has_static_dim",
            "has_static_dims",
            "has_static_rank",
            "has_static_shape",
            "rank_equals",
            "shape_matches",
            "type_matches",
            "type_matches_any",
        }
    ),
    "tools": frozenset(),
    "tools.ovc": frozenset({"convert_model"}),
    "utils.node_factory": frozenset({"NodeFactory"}),
    "utils.types": frozenset(
        {
            "as_node",
            "as_nodes",
            "get_element_type",
            "get_element_type_str",
            "get_ndarray",
            "get_numpy_ctype",
            "get_shape",
            "make_constant_node",
        }
    ),
}
"""Functions and classes by their module. Programs import them when they start, and derive classes from some, but
rarely use them. Their stand-ins refuse to be called."""

IMPORTABLE = OPERATIONS | STAND_INS.keys()
"""Modules that can be imported although little of them can be used."""


class StandIn:
    """Stands for a function or class of openvino where a program imports it, and refuses to be called."""

    _stands_for: str

    def __new__(cls, *args: object, **kwargs: object) -> NoReturn:
        """Refuse the call.

        Raises:
            RuntimeError: Always.
        """
        del args, kwargs
        refuse(cls._stands_for)


def get_dtype(openvino_type: Type) -> np.dtype[Any]:
    """Give numpy's type for the elements of a tensor. Mirrors `openvino.utils.types.get_dtype`.

    Raises:
        OVTypeError: For a type that numpy does not have.
    """
    if openvino_type not in _NUMPY_TYPES:
        raise OVTypeError("Unidentified data type %s", openvino_type)
    return np.dtype(_NUMPY_TYPES[openvino_type])


_NUMPY_TYPES: Mapping[Type, type] = {
    Type.boolean: np.bool_,
    **{Type(kind): kind for kind in (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64)},
    **{Type(kind): kind for kind in (np.uint8, np.uint16, np.uint32, np.uint64)},
    Type.bf16: np.uint16,
    Type.string: np.str_,
}

WORKING: Mapping[str, Mapping[str, Any]] = {"utils.types": {"get_dtype": get_dtype}}
"""The functions that work without a graph, by module and name."""


def stand_ins(module: str) -> Mapping[str, type[StandIn]]:
    """Make the stand-in for each name that programs import from a module."""
    return {
        name: type(name, (StandIn,), {"_stands_for": f"openvino.{module}.{name}()", "__module__": f"openvino.{module}"})
        for name in STAND_INS.get(module, ())
    }
