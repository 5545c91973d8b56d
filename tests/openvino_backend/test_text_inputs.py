"""Texts that regular expressions read are refused unless they are UTF-8; other strings may be anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import openvino
import pytest

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.backend import Slot
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.text_inputs import text_inputs_of
from inferwire_server.openvino_backend.tokenizers import tokenizers_library

MAKE = """
import sys
import numpy as np
import openvino as ov
from openvino import opset13 as op
from openvino_tokenizers import _get_factory

create = _get_factory().create

def constant(text):
    return op.constant(np.frombuffer(text.encode(), np.uint8)).output(0)

def parts_of(text):
    return create("StringTensorUnpack", [text.output(0)]).outputs()

def without_dots(parts):
    return create("RegexNormalization", [*parts, constant("…"), constant(".")]).outputs()

def packed(parts):
    return op.result(create("StringTensorPack", parts).output(0))

def parameter(name):
    made = op.parameter([-1], ov.Type.string, name=name)
    made.output(0).set_names({name})
    return made

def in_a_branch(text, is_taken):
    taken, left = parameter("taken"), parameter("left")
    bodies = (ov.Model([packed(without_dots(parts_of(taken)))], [taken]), ov.Model([op.result(left)], [left]))
    branch = op.if_op(is_taken.output(0))
    branch.set_then_body(bodies[0])
    branch.set_else_body(bodies[1])
    branch.set_input(text.output(0), taken, left)
    return op.result(branch.set_output(bodies[0].results[0], bodies[1].results[0]))

kind, path = sys.argv[1:]
choice, text, other = op.parameter([], ov.Type.boolean), parameter("text"), parameter("other")
first = {
    "read": lambda: packed(without_dots(parts_of(text))),
    "validated": lambda: packed(without_dots(create("UTF8Validate", parts_of(text), {"replace_mode": True}).outputs())),
    "branched": lambda: in_a_branch(text, choice),
}[kind]()
ov.save_model(ov.Model([first, op.result(other)], [choice, other, text], "m"), path)
"""

NOT_UTF_8 = (b"\xff", b"abc\xfc", b"caf\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80")


def made(kind: str, folder: Path) -> Path:
    """Make a model elsewhere: the package changes openvino as it is imported."""
    path = folder / f"{kind}.xml"
    subprocess.run([sys.executable, "-c", MAKE, kind, str(path)], check=True)
    return path


def slot_of(path: Path) -> Slot:
    backend = OpenVinoBackend(tokenizers=tokenizers_library())
    return backend.compile(Source(path), ModelOptions("m", "CPU", {"NUM_STREAMS": "1"})).create_slot()


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Slot:
    return slot_of(made("read", tmp_path_factory.mktemp("reading")))


@pytest.fixture(scope="module")
def validating(tmp_path_factory: pytest.TempPathFactory) -> Slot:
    return slot_of(made("validated", tmp_path_factory.mktemp("validating")))


def run(slot: Slot, texts: list[bytes], other: bytes = b"") -> tuple[list[bytes], list[bytes]]:
    given = (
        Tensor(BY_NAME["boolean"], (), b"\1"),
        Tensor(BY_NAME["string"], (1,), strings.pack([other])),
        Tensor(BY_NAME["string"], (len(texts),), strings.pack(texts)),
    )
    read, unread = slot.run(given, (0, 1))
    return strings.unpack(read.data, len(texts)), strings.unpack(unread.data, 1)


@pytest.mark.parametrize("wrong", NOT_UTF_8)
def test_what_a_regular_expression_reads_has_to_be_utf_8(wrong: bytes, reading: Slot) -> None:
    with pytest.raises(ServingError) as caught:
        run(reading, [b"abc", wrong])
    assert caught.value.code is Code.INVALID_INPUT
    start = "input 'text' of model 'm': string 1 is not UTF-8, as the model's regular expressions need it: "
    assert caught.value.message.startswith(start)


@pytest.mark.parametrize("wrong", NOT_UTF_8)
def test_other_strings_may_be_anything(wrong: bytes, reading: Slot) -> None:
    texts = ["wörld…".encode(), b"", "🙂\0.".encode()]
    assert run(reading, texts, wrong) == (["wörld.".encode(), b"", "🙂\0.".encode()], [wrong])


@pytest.mark.parametrize("wrong", [b"\xff", b"abc\xfc", b"caf\xc3"])
def test_what_a_model_mends_itself_may_be_anything(wrong: bytes, validating: Slot) -> None:
    assert run(validating, [wrong])[0] == [wrong.decode(errors="replace").encode()]


def test_regular_expressions_in_a_branch_count(tmp_path: Path) -> None:
    core = openvino.Core()
    core.add_extension(str(tokenizers_library()))
    model = core.read_model(made("branched", tmp_path))
    assert [model.inputs[at].get_any_name() for at in text_inputs_of(model)] == ["text"]
