"""What an inference gives back: the outputs of a request, as `OVDict` has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from inferwire.graph.ports import ConstOutput
from inferwire.requests.ov_dict import OVDict
from inferwire.requests.request_tensors import RequestTensors
from inferwire.tensors.element_arrays import Array
from inferwire.tensors.tensor import Tensor
from inferwire.user_warnings import warn

_NOT_FETCHED = np.empty(0)


def results_of(tensors: RequestTensors, *, share: bool, decode_strings: bool) -> OVDict:
    """Give all outputs by their ports: copies, or with `share` views of the tensors.

    Those that are still on the server are fetched when they are first read. Strings are 'U', or 'S' as they came.
    """
    results: dict[ConstOutput, Array] = {}
    later: dict[ConstOutput, Callable[[], Array]] = {}
    for port, memory in zip(tensors.ports.output_ports, tensors.outputs, strict=True):
        if memory.element_type.is_string:
            if share:
                warn("Result of a string type will be copied to OVDict!", RuntimeWarning)
            tensor = Tensor.over(memory)
            results[port] = tensor.str_data if decode_strings else tensor.bytes_data
        elif (fetch := memory.fetcher(share=share)) is not None:
            results[port], later[port] = _NOT_FETCHED, fetch
        else:
            results[port] = memory.array.view() if share else memory.read().copy()
    return OVDict(results, later)
