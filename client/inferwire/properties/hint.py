"""Hints of what an application wants, from which devices choose their settings. Mirrors `openvino.properties.hint`."""

from inferwire.properties.declaration import (
    Property,
    element_type,
    flag,
    number,
    one_of,
    some_of,
    uint32,
    uint64,
)
from inferwire.tab_completion import offered
from inferwire.tensors.tensor import Tensor, as_tensor
from inferwire.values.enumerations import OrderedChoice


class ExecutionMode(OrderedChoice):
    """Whether speed or exactness comes first. Mirrors openvino's enumeration of this name."""

    PERFORMANCE = 1
    ACCURACY = 2


class ModelDistributionPolicy(OrderedChoice):
    """How a model is spread over devices. Mirrors openvino's enumeration of this name."""

    TENSOR_PARALLEL = 0
    PIPELINE_PARALLEL = 1


class PerformanceMode(OrderedChoice):
    """Whether latency or throughput matters. Mirrors openvino's enumeration of this name."""

    LATENCY = 1
    THROUGHPUT = 2
    CUMULATIVE_THROUGHPUT = 3


class Priority(OrderedChoice):
    """How urgent a model is. Mirrors openvino's enumeration of this name."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    DEFAULT = 1


class SchedulingCoreType(OrderedChoice):
    """Which cores run the inference. Mirrors openvino's enumeration of this name."""

    ANY_CORE = 0
    PCORE_ONLY = 1
    ECORE_ONLY = 2


def _tensor(value: object) -> Tensor:
    """Take a tensor."""
    tensor = as_tensor(value)
    if tensor is None:
        raise TypeError
    return tensor


activations_scale_factor = Property("ACTIVATIONS_SCALE_FACTOR", number)
allow_auto_batching = Property("ALLOW_AUTO_BATCHING", flag)
compiled_blob = Property("COMPILED_BLOB", _tensor)
dynamic_quantization_group_size = Property("DYNAMIC_QUANTIZATION_GROUP_SIZE", uint64)
enable_cpu_pinning = Property("ENABLE_CPU_PINNING", flag)
enable_cpu_reservation = Property("ENABLE_CPU_RESERVATION", flag)
enable_hyper_threading = Property("ENABLE_HYPER_THREADING", flag)
execution_mode = Property("EXECUTION_MODE_HINT", one_of(ExecutionMode))
inference_precision = Property("INFERENCE_PRECISION_HINT", element_type)
kv_cache_precision = Property("KV_CACHE_PRECISION", element_type)
model = Property("MODEL_PTR")
model_distribution_policy = Property("MODEL_DISTRIBUTION_POLICY", some_of(ModelDistributionPolicy))
model_priority = Property("MODEL_PRIORITY", one_of(Priority))
num_requests = Property("PERFORMANCE_HINT_NUM_REQUESTS", uint32)
performance_mode = Property("PERFORMANCE_HINT", one_of(PerformanceMode))
scheduling_core_type = Property("SCHEDULING_CORE_TYPE", one_of(SchedulingCoreType))

__dir__ = offered(globals())
