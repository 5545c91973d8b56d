"""Triton's own HTTP client against the server: what existing programs send is understood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tests.plain_http import with_triton
from tests.transport.rest.conftest import Rest
from tritonclient.utils import InferenceServerException


def given(array: np.ndarray[Any, Any], datatype: str, *, binary: bool) -> Any:
    tensor = triton.InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
async def test_infer(rest: Rest, *, binary_in: bool, binary_out: bool, compression: str | None) -> None:
    array = np.arange(8, dtype=np.float32).reshape(2, 4)

    def use(client: Any) -> Any:
        return client.infer(
            "echo",
            [given(array, "FP32", binary=binary_in)],
            outputs=[triton.InferRequestedOutput("y", binary_data=binary_out)],
            request_id="r1",
            request_compression_algorithm=compression,
            response_compression_algorithm=compression,
        )

    result = await with_triton(rest.address, use)
    assert np.array_equal(result.as_numpy("y"), array)
    assert result.get_response()["id"] == "r1"


@pytest.mark.parametrize("binary", [True, False])
async def test_strings(rest: Rest, *, binary: bool) -> None:
    array = np.array([b"one", "zwölf".encode(), b""], np.object_)
    result = await with_triton(
        rest.address, lambda client: client.infer("string", [given(array, "BYTES", binary=binary)])
    )
    assert [bytes(text) for text in result.as_numpy("x_out")] == list(array)


@pytest.mark.parametrize("binary", [True, False])
async def test_classes(rest: Rest, *, binary: bool) -> None:
    array = np.array([[1, 0, 7, 2]], np.float32)
    outputs = [triton.InferRequestedOutput("y", binary_data=binary, class_count=2)]
    result = await with_triton(
        rest.address, lambda c: c.infer("echo", [given(array, "FP32", binary=True)], outputs=outputs)
    )
    assert result.as_numpy("y").astype("S").tolist() == [b"7.0:2", b"2.0:3"]


async def test_what_it_asks_besides(rest: Rest) -> None:
    def use(client: Any) -> None:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("echo")
        assert client.is_model_ready("echo", "1")
        assert not client.is_model_ready("broken")
        assert not client.is_model_ready("nope")
        assert client.get_server_metadata()["name"] == "inferwire"
        assert client.get_model_metadata("echo")["inputs"][0]["shape"] == [-1, 4]
        assert client.get_model_config("echo")["max_batch_size"] == 0

    await with_triton(rest.address, use)


async def test_an_error_is_read_as_one(rest: Rest) -> None:
    array = np.zeros((1, 5), np.float32)
    with pytest.raises(InferenceServerException, match=r"has shape \[1,5\], expected \[\?,4\]") as caught:
        await with_triton(rest.address, lambda client: client.infer("echo", [given(array, "FP32", binary=True)]))
    assert caught.value.status() == "400"
