"""Which models labels fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.labels import check_labels
from inferwire_server.core.specs import Dimension, Shape
from inferwire_server.engine.fake_backend import echo_spec
from inferwire_server.errors import ServingError

ANY = Dimension(0, None)


@pytest.mark.parametrize("shape", [None, (ANY, ANY), (ANY, Dimension(2, 2)), (ANY, Dimension(1, 8))])
def test_they_fit_an_output_that_may_have_as_many_classes(shape: Shape) -> None:
    spec = echo_spec("m", 5)
    check_labels(replace(spec, outputs=(*spec.outputs, replace(spec.outputs[0], shape=shape))), ("a", "b"))


@pytest.mark.parametrize("shape", [(), (Dimension(2, 2), Dimension(3, 3))])
def test_others_are_refused(shape: Shape) -> None:
    spec = echo_spec("m", 5)
    second = replace(spec.outputs[0], oip_name="z", shape=shape)
    with pytest.raises(ServingError) as caught:
        check_labels(replace(spec, outputs=(*spec.outputs, second)), ("a", "b"))
    assert caught.value.code is Code.MODEL_FAILED
    assert caught.value.message == (
        "labels: there are 2 labels, expected as many as the last dimension of an output has: "
        f"'y' [?,5], 'z' {second.shape_text}"
    )
