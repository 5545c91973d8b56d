"""ResNet-50 with random weights: its answers mean nothing, but its cost is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops


def resnet50(size: int, classes: int = 1000) -> ov.Model:
    """Build the network for square pictures."""
    random = np.random.default_rng(0)

    def convolution(x: Any, channels: int, filters: int, kernel: int, stride: int = 1, gain: float = 2.0) -> Any:
        scale = np.float32(np.sqrt(gain / (channels * kernel * kernel)))
        weights = random.standard_normal((filters, channels, kernel, kernel), dtype=np.float32) * scale
        bias = random.standard_normal((1, filters, 1, 1), dtype=np.float32) * np.float32(0.01)
        pad = [kernel // 2] * 2
        return ops.add(ops.convolution(x, weights, [stride] * 2, pad, pad, [1, 1]), bias)

    def block(x: Any, channels: int, width: int, stride: int) -> Any:
        y = ops.relu(convolution(x, channels, width, 1))
        y = ops.relu(convolution(y, width, width, 3, stride))
        y = convolution(y, width, 4 * width, 1, gain=0.2)
        projects = channels != 4 * width
        shortcut = convolution(x, channels, 4 * width, 1, stride, gain=1.0) if projects else x
        return ops.relu(ops.add(y, shortcut))

    image = ops.parameter([-1, 3, size, size], np.float32, name="image")
    image.output(0).set_names({"image"})
    y: Any = ops.relu(convolution(image, 3, 64, 7, 2))
    y = ops.max_pool(y, [2, 2], [1, 1], [1, 1], [1, 1], [3, 3], "floor").output(0)
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for index in range(blocks):
            y = block(y, channels, width, 2 if index == 0 and stage else 1)
            channels = 4 * width
    y = ops.reduce_mean(y, [2, 3], keep_dims=False)
    weights = random.standard_normal((channels, classes), dtype=np.float32) * np.float32(0.02)
    probabilities = ops.softmax(ops.matmul(y, weights, transpose_a=False, transpose_b=False), 1)
    probabilities.output(0).set_names({"probabilities"})
    runtime: Any = ov  # its stub takes another Model's place
    return runtime.Model([probabilities], [image], f"resnet50_{size}")
