"""The binary tensor extension, both ways, and compressed bodies."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
from tests.transport.rest.conftest import BODY_LIMIT, Rest, X, sentence, tensor

from inferwire_proto import strings
from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError
from inferwire_server.transport.http.bodies import decompress
from inferwire_server.transport.rest.oip_request import LONGEST_KNOWN, parse_known

ROW = np.array([1.5, np.nan, np.inf, -0.0], np.float32)


def binary(name: str, datatype: str, shape: list[int], size: object) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}


def document(*inputs: dict[str, Any], **more: object) -> bytes:
    return json.dumps({"inputs": list(inputs), **more}).encode()


async def post(rest: Rest, model: str, head: bytes, tail: bytes = b"", length: object = None) -> httpx.Response:
    stated = str(len(head) if length is None else length)
    return await rest.post(model, head + tail, {"inference-header-content-length": stated})


def split(response: httpx.Response) -> tuple[dict[str, Any], bytes]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/octet-stream"
    length = int(response.headers["inference-header-content-length"])
    return json.loads(response.content[:length]), response.content[length:]


async def test_bytes_go_there_and_back_whatever_they_mean(rest: Rest) -> None:
    head = document(binary("x", "FP32", [1, 4], 16), parameters={"binary_data_output": True})
    answer, tail = split(await post(rest, "echo", head, ROW.tobytes()))
    assert answer["outputs"] == [
        {"name": "y", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}
    ]
    assert tail == ROW.tobytes()


async def test_a_document_sent_again_is_that_of_other_bytes(rest: Rest) -> None:
    head = document(binary("x", "FP32", [1, 4], 16), parameters={"binary_data_output": True}, id="again")
    remembered = parse_known.cache_info().hits
    for value in (1, 2):
        row = np.full(4, value, np.float32).tobytes()
        assert split(await post(rest, "echo", head, row))[1] == row
        assert "additional bytes" in sentence(await post(rest, "echo", head, row[:-1]))
    assert "input 'x' of model 'two'" in sentence(await post(rest, "two", head, row[:-1]))
    assert parse_known.cache_info().hits == remembered + 3


async def test_a_long_document_is_not_remembered(rest: Rest) -> None:
    head = document(binary("x", "FP32", [1, 4], 16), parameters={"binary_data_output": True}, more="x" * LONGEST_KNOWN)
    kept = parse_known.cache_info().currsize
    assert split(await post(rest, "echo", head, ROW.tobytes()))[1] == ROW.tobytes()
    assert parse_known.cache_info().currsize == kept


async def test_each_tensor_is_binary_or_not_by_itself(rest: Rest) -> None:
    a, b = np.array([1, 2], np.float32).tobytes(), tensor("b", "INT32", [2], [3, 4])
    outputs = [{"name": "b_out", "parameters": {"binary_data": True}}, {"name": "a_out"}]
    answer, tail = split(await post(rest, "two", document(b, binary("a", "FP32", [2], 8), outputs=outputs), a))
    assert tail == np.array([3, 4], np.int32).tobytes()
    assert answer["outputs"][1]["data"] == [1.0, 2.0]
    outputs = [{"name": "b_out", "parameters": {"binary_data": False}}, {"name": "a_out"}]
    head = document(b, binary("a", "FP32", [2], 8), outputs=outputs, parameters={"binary_data_output": True})
    answer, tail = split(await post(rest, "two", head, a))
    assert (answer["outputs"][0]["data"], tail) == ([3, 4], a)


async def test_a_document_alone_may_state_its_length(rest: Rest) -> None:
    response = await post(rest, "echo", document(X))
    assert response.json()["outputs"][0]["data"] == X["data"]
    assert "inference-header-content-length" not in response.headers


@pytest.mark.parametrize(
    ("shape", "size", "sent", "expected"),
    [
        ([1, 4], 16, 0, "the body ends inside input 'x' of model 'echo', expecting 16 additional bytes"),
        ([1, 4], 16, 15, "expecting 1 additional bytes"),
        ([1, 4], 16, 17, "unexpected additional input data: 1 bytes follow the last input"),
        ([1, 4], 12, 12, "has 12 bytes, expected 16 for f32[1,4]"),
        ([2**31, 4], 16, 16, f"has 16 bytes, expected {2**35} for f32"),
        ([1, 4], -1, 16, "has the binary_data_size -1, expected an integer from 0 on"),
        ([1, 4], True, 16, "has the binary_data_size True"),
        ([1, 4], 16.0, 16, "has the binary_data_size 16.0"),
    ],
)
async def test_sizes_are_checked(rest: Rest, shape: list[int], size: object, sent: int, expected: str) -> None:
    head = document(binary("x", "FP32", shape, size))
    assert expected in sentence(await post(rest, "echo", head, bytes(sent)))


def unstated(name: str, datatype: str, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape}


async def test_a_size_that_is_not_stated_is_the_shape_s(rest: Rest) -> None:
    wanted = {"parameters": {"binary_data_output": True}}
    assert split(await post(rest, "echo", document(unstated("x", "FP32", [1, 4]), **wanted), ROW.tobytes()))[1] == (
        ROW.tobytes()
    )
    both = document(unstated("a", "FP32", [2]), unstated("b", "INT32", [2]), **wanted)
    assert split(await post(rest, "two", both, bytes(range(16))))[1] == bytes(range(16))
    texts = strings.pack([b"one", b"", b"three"])
    assert split(await post(rest, "string", document(unstated("x", "BYTES", [3]), **wanted), texts))[1] == texts


@pytest.mark.parametrize(
    ("shape", "sent", "expected"),
    [
        ([1, 4], 0, "input 'x' of model 'echo' has no 'data', expected an array, or bytes behind the document"),
        ([1, 4], 15, "the body ends inside input 'x' of model 'echo', expecting 1 additional bytes"),
        ([1, 4], 17, "unexpected additional input data: 1 bytes follow the last input"),
        ([2**62] * 64, 16, "the body ends inside input 'x'"),
        ([2**62] * 65, 16, "has 65 dimensions, expected at most 64"),
        ([1, 3], 12, "has shape [1,3], expected [?,4]"),
    ],
)
async def test_bytes_have_to_be_those_of_the_shape(rest: Rest, shape: list[int], sent: int, expected: str) -> None:
    head = document(unstated("x", "FP32", shape))
    assert expected in sentence(await post(rest, "echo", head, bytes(sent)))


@pytest.mark.parametrize("length", ["x", "-1", "1.5", "", "²", "9" * 5000])
async def test_a_header_length_that_is_none_is_refused(rest: Rest, length: str) -> None:
    body, headers = document(X), {b"inference-header-content-length": length.encode()}
    response = await rest.client.post("/v2/models/echo/infer", content=body, headers=headers)
    assert sentence(response).startswith("Inference-Header-Content-Length is")


async def test_zeros_before_a_header_length_change_nothing(rest: Rest) -> None:
    head = document(binary("x", "FP32", [1, 4], 16), parameters={"binary_data_output": True})
    answer = await post(rest, "echo", head, ROW.tobytes(), length=f"{len(head):023}")
    assert split(answer)[1] == ROW.tobytes()


async def test_a_header_length_beyond_the_body_is_refused(rest: Rest) -> None:
    assert "expected at most the body's" in sentence(await post(rest, "echo", document(X), length=100_000))


async def test_a_whole_body_may_be_the_tensor(rest: Rest) -> None:
    answer, tail = split(await post(rest, "echo", b"", ROW.tobytes() * 3, 0))
    assert (answer["outputs"][0]["shape"], tail) == ([3, 4], ROW.tobytes() * 3)
    answer, _ = split(await post(rest, "open", b"", ROW.tobytes(), 0))
    assert answer["outputs"][0]["shape"] == [1, 2, 2]
    answer, tail = split(await post(rest, "string", b"", b"raw text", 0))
    assert (answer["outputs"][0]["shape"], tail) == ([1], strings.pack([b"raw text"]))


async def test_a_whole_body_must_tell_its_shape(rest: Rest) -> None:
    assert "needs a model with one input, model 'two' has 2" in sentence(await post(rest, "two", b"", b"12", 0))
    assert "has the open shape [?,?,?]" in sentence(await post(rest, "very_open", b"", bytes(16), 0))
    for size in (7, 17):
        expected = f"input 'x' of model 'echo' has {size} bytes, expected a multiple of 16 for f32[?,4]"
        assert sentence(await post(rest, "echo", b"", bytes(size), 0)) == expected
    picture = b"\xff\xd8\xff\xe0" + bytes(3)
    assert "settings have encoded = true" in sentence(await post(rest, "echo", b"", picture, 0))


async def test_what_json_cannot_carry_is_to_be_asked_for_as_bytes(rest: Rest) -> None:
    numbers = sentence(await post(rest, "echo", document(binary("x", "FP32", [1, 4], 16)), ROW.tobytes()))
    assert numbers == (
        "output 'y' of model 'echo' has a value that is NaN or infinite, which JSON cannot carry; "
        "ask for it with the parameter binary_data: true"
    )
    packed = strings.pack([b"\xff"])
    text = sentence(await post(rest, "string", document(binary("x", "BYTES", [1], len(packed))), packed))
    assert "has bytes that are no UTF-8 text, which JSON cannot carry; ask for it" in text


async def test_types_the_protocol_cannot_carry_name_the_way_that_can(rest: Rest) -> None:
    assert "use inferwire.v1" in await rest.refusal("nf4", tensor("x", "NF4", [2], [1, 2]))
    assert "use inferwire.v1" in sentence(await post(rest, "nf4", b"", b"12", 0))


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_compressed_bodies_are_understood_and_answered_alike(rest: Rest, encoding: str, compress: Any) -> None:
    head = document(binary("x", "FP32", [1, 4], 16))
    headers = {"content-encoding": encoding, "inference-header-content-length": str(len(head))}
    tail = np.ones(4, np.float32).tobytes()
    response = await rest.post("echo", compress(head + tail), headers | {"accept-encoding": encoding})
    assert response.headers["content-encoding"] == encoding
    assert response.json()["outputs"][0]["data"] == [1.0] * 4
    response = await rest.post("echo", compress(head + tail), headers | {"accept-encoding": "gzip, deflate, br"})
    assert "content-encoding" not in response.headers


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip;q=1.0", "gzip"),
        ("deflate; q=0.001", "deflate"),
        ("gzip ;q=1", "gzip"),
        ("gzip;q=0", None),
        ("gzip;q=0.000", None),
        ("gzip;q=much", None),
        ("br;q=1.0", None),
        ("gzip;q=1.0, deflate;q=0.5", None),
        ("gzip, deflate;q=0.5", None),
    ],
)
async def test_one_coding_is_asked_for_with_a_weight_too(rest: Rest, accepted: str, encoding: str | None) -> None:
    response = await rest.post("echo", json.dumps({"inputs": [X]}).encode(), {"accept-encoding": accepted})
    assert response.headers.get("content-encoding") == encoding
    assert response.json()["outputs"][0]["data"] == X["data"]


@pytest.mark.parametrize(("encoding", "level_at", "fastest"), [("gzip", 8, 4), ("deflate", 1, 1)])
async def test_answers_are_compressed_fast(rest: Rest, encoding: str, level_at: int, fastest: int) -> None:
    request = rest.client.build_request(
        "POST", "/v2/models/echo/infer", json={"inputs": [X]}, headers={"accept-encoding": encoding}
    )
    response = await rest.client.send(request, stream=True)
    raw = b"".join([part async for part in response.aiter_raw()])
    assert raw[level_at] == fastest


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"no gzip", "the body is no gzip stream"),
        (gzip.compress(document(X))[:-3], "the body ends inside its gzip stream"),
        (gzip.compress(document(X)) + b"more", "4 bytes follow the gzip stream"),
    ],
    ids=["other", "cut", "more"],
)
async def test_a_broken_stream_is_refused(rest: Rest, content: bytes, expected: str) -> None:
    assert expected in sentence(await rest.post("echo", content, {"content-encoding": "gzip"}))


async def test_a_gzip_body_may_have_several_members(rest: Rest) -> None:
    content = document(X)
    members = b"".join(gzip.compress(content[at : at + 10]) for at in range(0, len(content), 10))
    assert (await rest.post("echo", members, {"content-encoding": "gzip"})).status_code == 200


def test_members_of_a_gzip_body_are_bounded_together() -> None:
    member = gzip.compress(bytes(10_000))
    assert decompress(member * 100, "gzip", 1_000_000) == bytes(1_000_000)
    with pytest.raises(ServingError, match="more than 999999 bytes when decompressed"):
        decompress(member * 100, "gzip", 999_999)
    with pytest.raises(ServingError, match="ends inside its gzip stream"):
        decompress((member * 2)[:-3], "gzip", 1_000_000)
    with pytest.raises(ServingError, match="bytes follow the deflate stream"):
        decompress(zlib.compress(b"1") * 2, "deflate", 1_000_000)


@pytest.mark.parametrize("headers", [[b"gzip", b"gzip"], [b"identity", b"gzip, deflate"]])
async def test_an_encoding_of_an_encoding_is_refused(rest: Rest, headers: list[bytes]) -> None:
    several = [(b"content-encoding", value) for value in headers]
    response = await rest.client.post("/v2/models/echo/infer", content=b"x", headers=several)
    assert "expected gzip, deflate or identity" in sentence(response, Code.UNSUPPORTED_ENCODING)


async def test_identity_beside_an_encoding_is_none(rest: Rest) -> None:
    several = [(b"content-encoding", b"identity"), (b"content-encoding", b"gzip")]
    content = gzip.compress(document(X))
    assert (await rest.client.post("/v2/models/echo/infer", content=content, headers=several)).status_code == 200


async def test_an_unknown_encoding_is_refused(rest: Rest) -> None:
    response = await rest.post("echo", b"x", {"content-encoding": "br"})
    assert "'br', expected gzip, deflate or identity" in sentence(response, Code.UNSUPPORTED_ENCODING)


async def test_a_body_over_the_limit_is_refused_however_it_comes(rest: Rest) -> None:
    body = bytes(BODY_LIMIT + 1)

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    stated = await rest.post("echo", body)
    chunked = await rest.client.post("/v2/models/echo/infer", content=chunks())
    bomb = await rest.post("echo", gzip.compress(bytes(50 * BODY_LIMIT)), {"content-encoding": "gzip"})
    assert f"the body has {len(body)} bytes, expected at most {BODY_LIMIT}" in sentence(stated, Code.TOO_LARGE)
    assert f"the body has more than {BODY_LIMIT} bytes, expected" in sentence(chunked, Code.TOO_LARGE)
    assert "when decompressed" in sentence(bomb, Code.TOO_LARGE)
    assert (await rest.infer("echo", X)).status_code == 200


def test_a_bomb_is_not_decompressed_beyond_the_limit() -> None:
    bomb = gzip.compress(bytes(50 * BODY_LIMIT))
    tracemalloc.start()
    try:
        with pytest.raises(ServingError, match="when decompressed"):
            decompress(bomb, "gzip", BODY_LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 4 * BODY_LIMIT
    finally:
        tracemalloc.stop()


async def test_a_chunked_body_is_put_together(rest: Rest) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for byte in document(X):
            yield bytes([byte])

    response = await rest.client.post("/v2/models/echo/infer", content=chunks())
    assert response.json()["outputs"][0]["data"] == X["data"]
