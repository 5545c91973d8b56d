"""Makes the two small models beside it, which do on the server what would otherwise be done with what it sent.

Needs openvino; run it again only to change them: `python make_models.py`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13

op: Any = opset13

HERE = Path(__file__).parent
TEXT_THRESHOLD = 0.3


def save(name: str, given: Any, outputs: dict[str, Any]) -> None:
    for output_name, output in outputs.items():
        output.get_tensor().set_names({output_name})
    make: Any = openvino.Model
    model = make([op.result(output) for output in outputs.values()], [given], name)
    openvino.save_model(model, HERE / f"{name}.xml")


def text_mask() -> None:
    """Where a text detector is sure enough: probabilities f32 [?,1,?,?] to u8 of the same shape."""
    probabilities = op.parameter([-1, 1, -1, -1], np.float32, name="probabilities")
    is_text = op.greater(probabilities, op.constant(np.float32(TEXT_THRESHOLD)))
    save("text_mask", probabilities, {"mask": op.convert(is_text, "u8").output(0)})


def best_letters() -> None:
    """The likeliest letter at each place of a line: f32 [?,?,letters] to scores f32 and numbers i32, both [?,?,1]."""
    letters = op.parameter([-1, -1, -1], np.float32, name="letters")
    best = op.topk(letters, op.constant(np.int32(1)), axis=-1, mode="max", sort="value")
    save("best_letters", letters, {"score": best.output(0), "letter": best.output(1)})


if __name__ == "__main__":
    text_mask()
    best_letters()
