"""Steps before and after a model, recorded here and built in on the server: `PrePostProcessor`.

Mirrors `openvino.preprocess`.
"""

from inferwire.preprocess.choices import ColorFormat, PaddingMode, ResizeAlgorithm
from inferwire.preprocess.inputs import InputInfo, InputModelInfo, InputTensorInfo
from inferwire.preprocess.outputs import OutputInfo, OutputModelInfo, OutputTensorInfo, PostProcessSteps
from inferwire.preprocess.processor import PrePostProcessor
from inferwire.preprocess.steps import PreProcessSteps
from inferwire.version import get_version

__all__ = [
    "ColorFormat",
    "InputInfo",
    "InputModelInfo",
    "InputTensorInfo",
    "OutputInfo",
    "OutputModelInfo",
    "OutputTensorInfo",
    "PaddingMode",
    "PostProcessSteps",
    "PrePostProcessor",
    "PreProcessSteps",
    "ResizeAlgorithm",
    "get_version",
]
