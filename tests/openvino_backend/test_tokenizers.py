"""Models made of the tokenizers' operations: they run where the extra is, and say what is missing where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from inferwire_proto import strings
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.openvino_backend.backend import OpenVinoBackend
from inferwire_server.openvino_backend.tokenizers import explained, tokenizers_library

MAKE = """
import sys
import openvino as ov
from openvino import opset13 as op
from openvino_tokenizers import _get_factory

factory = _get_factory()
text = op.parameter([-1], ov.Type.string, name="text")
text.output(0).set_names({"text"})
parts = factory.create("StringTensorUnpack", [text.output(0)]).outputs()
folded = factory.create("CaseFold", parts, {"encoding": "utf-8"}).outputs()
lower = factory.create("StringTensorPack", folded).output(0)
lower.set_names({"lower"})
ov.save_model(ov.Model([lower], [text], "lower"), sys.argv[1])
"""


@pytest.fixture
def lower(tmp_path: Path) -> Source:
    """A model that folds case. It is made elsewhere: the package changes openvino as it is imported."""
    path = tmp_path / "lower.xml"
    subprocess.run([sys.executable, "-c", MAKE, str(path)], check=True)
    return Source(path)


def test_a_model_of_theirs_runs(lower: Source) -> None:
    backend = OpenVinoBackend(tokenizers=tokenizers_library())
    assert backend.extensions == ("libopenvino_tokenizers.so",)
    compiled = backend.compile(lower, ModelOptions("lower", "CPU"))
    given = Tensor(BY_NAME["string"], (2,), strings.pack(["HeLLo WÖRLD".encode(), b""]))
    (folded,) = compiled.create_slot().run((given,), (0,))
    assert strings.unpack(folded.data, 2) == ["hello wörld".encode(), b""]


def test_without_them_it_names_the_extra(lower: Source) -> None:
    backend = OpenVinoBackend()
    for refused in (lambda: backend.read(lower), lambda: backend.compile(lower, ModelOptions("lower", "CPU"))):
        with pytest.raises(ServingError, match=r"StringTensorUnpack.*extra inferwire\[tokenizers\]") as caught:
            refused()
        assert caught.value.code is Code.MODEL_FAILED


def test_other_failures_do_not_name_it() -> None:
    assert explained("Unable to read the model") == "Unable to read the model"


def test_a_library_that_cannot_be_loaded_is_logged_and_passed_over(tmp_path: Path) -> None:
    library = tmp_path / "libopenvino_tokenizers.so"
    library.write_text("no library")
    with capture_logs() as logged:
        assert OpenVinoBackend(tokenizers=library).extensions == ()
    assert [entry["event"] for entry in logged] == ["the tokenizers are of no use"]
