"""The models that are measured, laid out as a model repository."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.preprocess import PrePostProcessor
from tests.bench.resnet import resnet50

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy/models"

Array = np.ndarray[Any, np.dtype[Any]]

TINY_BYTES = 1000
BATCHED = "max_batch = 64\n"


@dataclass(frozen=True, slots=True)
class Network:
    """A model, the names of its ports, and an input for it.

    Its rows may be gathered if it `is_batched`: by this server, and by a peer that can. If it `is_transfer`, nearly all
    that a request costs is the transfer of its input.
    """

    name: str
    path: Path
    input: str
    output: str
    sample: Array
    is_batched: bool = False
    is_transfer: bool = False

    @property
    def is_tiny(self) -> bool:
        """Whether an inference is so small that the work around it fills a server's process before all cores are."""
        return self.sample.nbytes < TINY_BYTES


def lay_out(folder: Path, names: Iterable[str]) -> list[Network]:
    """Lay a model repository out in a folder and describe what is in it."""
    return [NETWORKS[name](name, folder / name / "1" / f"{name}.xml") for name in names]


def _digits(name: str, path: Path, *, is_batched: bool = False) -> Network:
    _copy("digits_mlp", path)
    if is_batched:
        (path.parents[1] / "inferwire.toml").write_text(BATCHED)
    sample = np.random.default_rng(0).random((1, 64), dtype=np.float32)
    return Network(name, path, "pixels", "probabilities", sample, is_batched)


def _efficientnet(name: str, path: Path) -> Network:
    _copy("efficientnet_lite0", path)
    return Network(name, path, "image", "logits", _picture())


def _efficientnet_u8(name: str, path: Path) -> Network:
    _save(_taking_bytes(ov.Core().read_model(EXAMPLES / "efficientnet_lite0/1/efficientnet_lite0.xml")), path)
    return Network(name, path, "image", "logits", _picture_of_bytes())


def _resnet(name: str, path: Path) -> Network:
    _save(resnet50(224), path)
    return Network(name, path, "image", "probabilities", _picture())


def _resnet_u8(name: str, path: Path) -> Network:
    _save(_taking_bytes(resnet50(224)), path)
    return Network(name, path, "image", "probabilities", _picture_of_bytes())


def _corner(name: str, path: Path) -> Network:
    """A model that gives four numbers of a picture, so that nearly all its cost is the transfer of the picture."""
    image = ops.parameter([1, 3, 224, 224], np.float32, name="image")
    corner: Any = ops.strided_slice(image, [0] * 4, [1, 1, 1, 4], [1] * 4, [0] * 4, [0] * 4)
    image.output(0).set_names({"image"})
    corner.output(0).set_names({"corner"})
    runtime: Any = ov  # its stub takes another Model's place
    _save(runtime.Model([corner], [image], name), path)
    return Network(name, path, "image", "corner", _picture(), is_transfer=True)


NETWORKS: Mapping[str, Callable[[str, Path], Network]] = {
    "digits_mlp": _digits,
    "digits_mlp_batched": partial(_digits, is_batched=True),
    "efficientnet_lite0": _efficientnet,
    "efficientnet_lite0_u8": _efficientnet_u8,
    "resnet50": _resnet,
    "resnet50_u8": _resnet_u8,
    "corner": _corner,
}
"""How each network is laid out, by its name."""


def _copy(example: str, path: Path) -> None:
    path.parent.mkdir(parents=True)
    for suffix in (".xml", ".bin"):
        shutil.copy((EXAMPLES / example / "1" / example).with_suffix(suffix), path.with_suffix(suffix))


def _save(model: ov.Model, path: Path) -> None:
    path.parent.mkdir(parents=True)
    ov.save_model(model, path)


def _taking_bytes(model: ov.Model) -> ov.Model:
    """Have the model take a picture as bytes, and scale it itself."""
    steps = PrePostProcessor(model)
    steps.input().tensor().set_element_type(ov.Type.u8)
    steps.input().preprocess().convert_element_type(ov.Type.f32).scale(255.0)
    return steps.build()


def _picture() -> Array:
    return np.random.default_rng(0).random((1, 3, 224, 224), dtype=np.float32)


def _picture_of_bytes() -> Array:
    return np.random.default_rng(0).integers(0, 256, (1, 3, 224, 224), dtype=np.uint8)
