"""`OVDict` and `tensor_from_file`, where openvino has them. Mirrors `openvino.utils.data_helpers.wrappers`."""

from __future__ import annotations

import os

import numpy as np

from inferwire.requests.ov_dict import OVDict as OVDict
from inferwire.tensors.tensor import Tensor


def tensor_from_file(path: str | os.PathLike[str]) -> Tensor:
    """Read a file as a tensor of bytes. Mirrors `openvino.tensor_from_file`.

    Raises:
        OSError: If it cannot be read.
    """
    return Tensor(np.fromfile(path, dtype=np.uint8))
