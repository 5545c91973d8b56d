"""What `Model.add_outputs` does where the server, an older one, does not know of it. Mirror tests have the rest."""

from __future__ import annotations

from typing import Any

import pytest

import inferwire as ov


def test_a_server_that_adds_none_is_told_of_and_the_model_stays_as_it_was(transport: Any) -> None:
    core = ov.Core(transport=transport)
    model = core.read_model(b"onnx")
    with pytest.raises(ov.InferwireError, match=r"^the server at .+, an older one, adds no outputs to models$"):
        model.add_outputs(("inner", 0))
    core.compile_model(model, "CPU")
    ((source, _, _),) = transport.compiles
    assert source.preprocessing == ()
