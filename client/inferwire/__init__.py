"""OpenVINO inference on another machine, through the API its users already know.

Mirrors `openvino`: `import inferwire as ov` and name the server.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from inferwire import exceptions, helpers, layout_helpers, preprocess, properties, utils
from inferwire.conversion import convert_model, save_model, serialize
from inferwire.core import Core, compile_model
from inferwire.drop_in.finder import MirrorFinder, NotOfferedFinder, missing_from
from inferwire.errors import (
    Cancelled,
    DeadlineExceeded,
    InferenceFailed,
    InferwireError,
    InternalError,
    InvalidInput,
    ModelFailed,
    ModelNotFound,
    ModelNotReady,
    PermissionDenied,
    QueueFull,
    ServerUnavailable,
    SessionExpired,
    SessionLost,
    ShuttingDown,
    TensorLost,
    TooLarge,
    Unauthenticated,
    Unimplemented,
    UnsupportedType,
)
from inferwire.graph.nodes import Input, Node
from inferwire.graph.ports import ConstOutput, Output
from inferwire.models.compiled_model import CompiledModel
from inferwire.models.model import Model
from inferwire.models.model_batch import get_batch, set_batch
from inferwire.models.runtime_model import RuntimeModel
from inferwire.queues.infer_queue import AsyncInferQueue
from inferwire.requests.infer_request import InferRequest
from inferwire.requests.ov_dict import OVDict
from inferwire.requests.profiling import ProfilingInfo
from inferwire.requests.variable_state import VariableState
from inferwire.tensors.remote_context import RemoteContext
from inferwire.tensors.remote_tensor import RemoteTensor
from inferwire.tensors.tensor import Tensor
from inferwire.tensors.tensor_vector import TensorVector
from inferwire.transport.descriptions import ModelStatus
from inferwire.transport.executions import Timings
from inferwire.transport.timeouts import Timeouts
from inferwire.utils.data_helpers import tensor_from_file
from inferwire.values.dimensions import Dimension, Symbol
from inferwire.values.layout import Layout
from inferwire.values.ov_any import OVAny
from inferwire.values.partial_shape import PartialShape
from inferwire.values.plugin_version import Version
from inferwire.values.scheduling import Scheduling
from inferwire.values.shapes import Coordinate, Shape, Strides
from inferwire.values.types import Type
from inferwire.version import VERSION as __version__  # noqa: N811 - where programs look for it
from inferwire.version import get_version

__all__ = [
    "AsyncInferQueue",
    "Cancelled",
    "CompiledModel",
    "ConstOutput",
    "Coordinate",
    "Core",
    "DeadlineExceeded",
    "Dimension",
    "InferRequest",
    "InferenceFailed",
    "InferwireError",
    "Input",
    "InternalError",
    "InvalidInput",
    "Layout",
    "Model",
    "ModelFailed",
    "ModelNotFound",
    "ModelNotReady",
    "ModelStatus",
    "Node",
    "OVAny",
    "OVDict",
    "Output",
    "PartialShape",
    "PermissionDenied",
    "ProfilingInfo",
    "QueueFull",
    "RemoteContext",
    "RemoteTensor",
    "RuntimeModel",
    "Scheduling",
    "ServerUnavailable",
    "SessionExpired",
    "SessionLost",
    "Shape",
    "ShuttingDown",
    "Strides",
    "Symbol",
    "Tensor",
    "TensorLost",
    "TensorVector",
    "Timeouts",
    "Timings",
    "TooLarge",
    "Type",
    "Unauthenticated",
    "Unimplemented",
    "UnsupportedType",
    "VariableState",
    "Version",
    "__version__",
    "compile_model",
    "convert_model",
    "exceptions",
    "get_batch",
    "get_version",
    "helpers",
    "layout_helpers",
    "preprocess",
    "properties",
    "save_model",
    "serialize",
    "set_batch",
    "shutdown",
    "tensor_from_file",
    "utils",
]


def shutdown() -> None:
    """Do nothing: what openvino would free is the server's. Mirrors `openvino.shutdown`."""


def __dir__() -> list[str]:
    """List what programs use, for completion, and not the modules of the client's own."""
    return __all__


sys.meta_path.insert(0, MirrorFinder(__name__))
sys.meta_path.append(NotOfferedFinder(__name__))

if not TYPE_CHECKING:  # a type checker is to complain of unknown names

    def __getattr__(name: str) -> ModuleType:
        """Give a module that programs look for which were written for openvino; refuse any other name."""
        return missing_from(__name__, name)
