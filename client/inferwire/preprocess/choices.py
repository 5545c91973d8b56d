"""The enumerations of preprocessing, with OpenVINO's numbers."""

from __future__ import annotations

from inferwire.values.enumerations import Choice


class ColorFormat(Choice):
    """What the channels or planes of a picture are. Mirrors `openvino.preprocess.ColorFormat`."""

    UNDEFINED = 0
    NV12_SINGLE_PLANE = 1
    NV12_TWO_PLANES = 2
    I420_SINGLE_PLANE = 3
    I420_THREE_PLANES = 4
    RGB = 5
    BGR = 6
    GRAY = 7
    RGBX = 8
    BGRX = 9

    @property
    def title(self) -> str:
        """Its name in messages; not in openvino."""
        kind, _, planes = self.name.partition("_")
        if self is ColorFormat.UNDEFINED:
            return "Unknown"
        return f"{kind} ({'single ' if self.planes == 1 else 'multi-'}plane)" if planes else kind

    @property
    def planes(self) -> int:
        """How many tensors a picture takes; not in openvino."""
        return {ColorFormat.NV12_TWO_PLANES: 2, ColorFormat.I420_THREE_PLANES: 3}.get(self, 1)


class ResizeAlgorithm(Choice):
    """How a picture is resized. Mirrors `openvino.preprocess.ResizeAlgorithm`."""

    RESIZE_LINEAR = 0
    RESIZE_CUBIC = 1
    RESIZE_NEAREST = 2
    RESIZE_BILINEAR_PILLOW = 3
    RESIZE_BICUBIC_PILLOW = 4


class PaddingMode(Choice):
    """What a border is filled with. Mirrors `openvino.preprocess.PaddingMode`."""

    CONSTANT = 0
    REFLECT = 2
    SYMMETRIC = 3
