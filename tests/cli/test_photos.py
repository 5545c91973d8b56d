"""The demo's photos reach the model as it was trained on them: local OpenVINO sees in them what is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from PIL import Image

from inferwire_cli.demo.photos import Floats, best_guesses, load_photo

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
MODEL = DEPLOY / "models" / "efficientnet_lite0"


@pytest.fixture(scope="module")
def labels() -> list[str]:
    return (MODEL / "labels.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def classifier() -> ov.CompiledModel:
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    return ov.Core().compile_model(MODEL / "1" / "efficientnet_lite0.xml", "CPU", exact)


@pytest.mark.parametrize(
    ("photo", "label", "probability"), [("coffee.png", "espresso", 0.94), ("chelsea.png", "Egyptian Mau", 0.385)]
)
def test_bundled_photos_are_recognised(
    classifier: ov.CompiledModel, labels: list[str], photo: str, label: str, probability: float
) -> None:
    logits: Floats = classifier([load_photo(DEPLOY / "images" / photo).pixels])[0]
    best = best_guesses(logits, labels)[0]
    assert best.label == label
    assert best.probability == pytest.approx(probability, abs=0.005)


def test_there_is_a_name_for_every_class(labels: list[str]) -> None:
    assert len(labels) == 1000


@pytest.mark.parametrize("size", [(451, 300), (300, 451), (16, 16)])
def test_a_photo_of_any_size_becomes_the_models_input(tmp_path: Path, size: tuple[int, int]) -> None:
    Image.new("L", size, 255).save(tmp_path / "white.png")
    photo = load_photo(tmp_path / "white.png")
    assert photo.name == "white.png"
    assert photo.pixels.dtype == np.float32
    assert np.array_equal(photo.pixels, np.ones((1, 3, 224, 224), np.float32))


def test_only_the_middle_square_counts(tmp_path: Path) -> None:
    picture = Image.new("RGB", (600, 200), "black")
    picture.paste((255, 255, 255), (200, 0, 400, 200))
    picture.save(tmp_path / "middle.png")
    assert load_photo(tmp_path / "middle.png").pixels.min() == 1.0


def test_guesses_are_a_softmax_with_the_best_first() -> None:
    logits = np.log(np.array([[0.1, 0.6, 0.3]], np.float32)) + 100
    guesses = best_guesses(logits, ["few", "most", "some"], count=2)
    assert [guess.label for guess in guesses] == ["most", "some"]
    assert [guess.probability for guess in guesses] == pytest.approx([0.6, 0.3], abs=1e-5)
