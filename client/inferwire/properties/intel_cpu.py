"""Properties of CPUs. Mirrors `openvino.properties.intel_cpu`."""

from inferwire.properties.declaration import Property, flag, number, one_of
from inferwire.tab_completion import offered
from inferwire.values.enumerations import OrderedChoice


class TbbPartitioner(OrderedChoice):
    """How loops are split over threads. Mirrors openvino's enumeration of this name."""

    STATIC = 1
    AUTO = 2


denormals_optimization = Property("CPU_DENORMALS_OPTIMIZATION", flag)
sparse_weights_decompression_rate = Property("CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE", number)
tbb_partitioner = Property("TBB_PARTITIONER", one_of(TbbPartitioner))

__dir__ = offered(globals())
