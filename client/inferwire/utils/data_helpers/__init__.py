"""Results and files as data. Mirrors `openvino.utils.data_helpers`."""

from inferwire.utils.data_helpers.wrappers import OVDict as OVDict
from inferwire.utils.data_helpers.wrappers import tensor_from_file as tensor_from_file
