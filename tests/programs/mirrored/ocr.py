"""Reads a page of text with rapidocr's openvino engine, and prints what it read and where."""

import sys
from pathlib import Path

import skimage
from rapidocr import EngineType, RapidOCR

STAGES = ("Det", "Cls", "Rec")
PAGE = Path(skimage.__file__).parent / "data/page.png"

engine = RapidOCR(params={f"{stage}.engine_type": EngineType.OPENVINO for stage in STAGES})
result = engine(str(PAGE))
for text, score, box in zip(result.txts, result.scores, result.boxes, strict=True):
    sys.stdout.write(f"{text} {score:.2f} {box.round().tolist()}\n")
