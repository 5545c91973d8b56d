"""Inference in JSON: what is understood, what is answered, and what is refused in which sentence."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from tests.busy_gil_thread import occupied
from tests.transport.rest.conftest import Rest, X, sentence, tensor
from tests.waiting import LIMIT_S

from inferwire_proto.element_types import BY_NAME
from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.core.tensors import Tensor
from inferwire_server.engine.engine import AT_ONCE
from inferwire_server.engine.fake_backend import FakeModel, FakeSlot, Gate, echo_spec
from inferwire_server.transport.rest.json_elements import unpack


async def test_an_answer_has_the_outputs_and_echoes_what_the_request_named(rest: Rest) -> None:
    response = await rest.infer("echo", X, id="42")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "model_name": "echo",
        "model_version": "1",
        "id": "42",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.0, 3.0, 4.0]}],
    }


@pytest.mark.parametrize("more", [{}, {"id": ""}, {"outputs": []}])
async def test_an_id_is_echoed_only_if_given_and_not_empty(rest: Rest, more: dict[str, Any]) -> None:
    answer = (await rest.infer("echo", X, **more)).json()
    assert "id" not in answer
    assert [output["name"] for output in answer["outputs"]] == ["y"]


@pytest.mark.parametrize("data", [[[1, 2, 3, 4]], [[[1], [2], [3], [4]]], [1, 2.0, 3, 4]])
async def test_data_is_flat_or_nested(rest: Rest, data: list[Any]) -> None:
    answer = (await rest.infer("echo", X | {"data": data})).json()
    assert answer["outputs"][0]["data"] == [1.0, 2.0, 3.0, 4.0]


async def test_an_empty_batch_is_a_batch(rest: Rest) -> None:
    (output,) = (await rest.infer("echo", tensor("x", "FP32", [0, 4], []))).json()["outputs"]
    assert (output["shape"], output["data"]) == ([0, 4], [])


async def test_a_version_may_be_named_and_the_content_type_is_not_looked_at(rest: Rest) -> None:
    content = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}'
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = await rest.client.post("/v2/models/echo/versions/1/infer", content=content, headers=headers)
    assert response.json()["outputs"][0]["data"] == [1.0, 2.0, 3.0, 4.0]


async def test_outputs_come_in_the_order_asked_for(rest: Rest) -> None:
    inputs = tensor("b", "INT32", [2], [1, 2]), tensor("a", "FP32", [2], [3, 4])
    both = (await rest.infer("two", *inputs)).json()["outputs"]
    assert [(output["name"], output["data"]) for output in both] == [("a_out", [3.0, 4.0]), ("b_out", [1, 2])]
    asked = (await rest.infer("two", *inputs, outputs=[{"name": "b_out"}, {"name": "a_out"}])).json()["outputs"]
    assert [output["name"] for output in asked] == ["b_out", "a_out"]


async def test_an_output_has_the_name_that_it_was_asked_for_by(rest: Rest) -> None:
    x = tensor("x", "FP32", [2], [1, 2])
    for name in ("y", "scores"):
        (output,) = (await rest.infer("alias", x, outputs=[{"name": name}])).json()["outputs"]
        assert output == {"name": name, "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}
    (output,) = (await rest.infer("alias", x)).json()["outputs"]
    assert output["name"] == "scores"


@pytest.mark.parametrize(
    ("model", "datatype", "data"),
    [
        ("boolean", "BOOL", [True, False]),
        ("i8", "INT8", [-128, 127]),
        ("i16", "INT16", [-32768, 32767]),
        ("i32", "INT32", [-(2**31), 2**31 - 1]),
        ("i64", "INT64", [-(2**63), 2**63 - 1]),
        ("u8", "UINT8", [0, 255]),
        ("u16", "UINT16", [0, 65535]),
        ("u32", "UINT32", [0, 2**32 - 1]),
        ("u64", "UINT64", [0, 2**64 - 1]),
        ("f16", "FP16", [0.5, -65504.0]),
        ("bf16", "BF16", [0.5, -3.0]),
        ("f32", "FP32", [0.1, -3.4028235e38]),
        ("f64", "FP64", [0.1, 1e300]),
        ("string", "BYTES", ["", "grüße"]),
    ],
)
async def test_every_type_of_the_protocol_goes_there_and_back(
    rest: Rest, model: str, datatype: str, data: list[Any]
) -> None:
    (output,) = (await rest.infer(model, tensor("x", datatype, [2], data))).json()["outputs"]
    assert (output["datatype"], output["data"]) == (datatype, data)


class Opening(FakeModel):
    """A model whose opening the test holds."""

    def create_slot(self, *, keeps_states: bool = False) -> FakeSlot:
        self.gate.pass_through(lambda: False)
        return super().create_slot(keeps_states=keeps_states)


async def test_long_json_is_answered_while_more_models_are_opened_than_there_are_threads(rest: Rest) -> None:
    model = rest.models["opening"] = Opening(echo_spec("opening"), gate=Gate(is_open=False))
    load = partial(rest.composition.engine.load, Source(Path("opening.onnx")), ModelOptions("opening"))
    loads = [asyncio.ensure_future(load()) for _ in range(AT_ONCE + 1)]
    try:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.to_thread(model.gate.wait_held, AT_ONCE)
            answer = await rest.infer("echo", tensor("x", "FP32", [10_000, 4], [0.5] * 40_000))
        assert answer.status_code == 200
        assert not any(loading.done() for loading in loads)
    finally:
        model.gate.open()
    await asyncio.gather(*loads)


async def test_long_json_is_read_and_written_on_the_thread_for_it_and_short_json_where_it_comes(rest: Rest) -> None:
    rows = 10_000
    head = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,4],"parameters":{"binary_data_size":%d}}]}'
    head %= rows, rows * 16
    is_binary = {"inference-header-content-length": str(len(head))}
    async with occupied(rest.services.gil_thread) as wait_for:
        long = tensor("x", "FP32", [rows, 4], [0.5] * 4 * rows)
        reading = asyncio.ensure_future(rest.infer("echo", long, parameters={"binary_data_output": True}))
        await wait_for(1)
        writing = asyncio.ensure_future(rest.post("echo", head + bytes(rows * 16), is_binary))
        await wait_for(2)
        assert (await rest.infer("echo", X)).status_code == 200
    assert (await reading).content.endswith(np.full(4 * rows, 0.5, np.float32).tobytes())
    assert (await writing).json()["outputs"][0]["data"] == [0.0] * 4 * rows


async def test_long_json_is_the_same_json(rest: Rest) -> None:
    rows = 10_000
    (output,) = (await rest.infer("echo", tensor("x", "FP32", [rows, 4], [0.25] * 4 * rows))).json()["outputs"]
    assert output["shape"] == [rows, 4]
    assert output["data"] == [0.25] * 4 * rows


@pytest.mark.parametrize(("type_name", "dtype"), [("f32", np.float32), ("u8", np.uint8), ("boolean", np.bool_)])
@pytest.mark.parametrize("count", [2**16 + 1, 2**17, 2**17 + 7])
def test_many_numbers_are_written_in_pieces_to_the_same_json(type_name: str, dtype: type, count: int) -> None:
    numbers = (np.arange(count) % 3).astype(dtype)
    written = unpack(Tensor(BY_NAME[type_name], (count,), numbers.tobytes()), "output")
    assert isinstance(written, orjson.Fragment)
    assert orjson.loads(orjson.dumps(written)) == numbers.tolist()


async def test_bf16_is_rounded_to_the_nearest(rest: Rest) -> None:
    (output,) = (await rest.infer("bf16", tensor("x", "BF16", [3], [1.003, 1.00390625, 1.01171875]))).json()["outputs"]
    assert output["data"] == [1.0, 1.0, 1.015625]


@pytest.mark.parametrize(
    ("model", "datatype", "data", "expected"),
    [
        ("i8", "INT8", [1, 300], "300 at position 1, expected an integer from -128 to 127 for INT8"),
        ("u8", "UINT8", [-1, 0], "-1 at position 0, expected an integer from 0 to 255 for UINT8"),
        ("i64", "INT64", [2**63, 0], f"{2**63} at position 0, expected an integer"),
        ("u64", "UINT64", [0, 2**64], "1.8446744073709552e+19 at position 1, expected an integer"),
        ("i32", "INT32", [0, 1.5], "1.5 at position 1, expected an integer"),
        ("i32", "INT32", [0, True], "true at position 1, expected an integer"),
        ("f32", "FP32", [1e39, 0], "1e+39 at position 0, expected a number that fits FP32"),
        ("f16", "FP16", [0, 70000], "70000 at position 1, expected a number that fits FP16"),
        ("bf16", "BF16", [0, 3.4028235e38], "3.4028235e+38 at position 1, expected a number that fits BF16"),
        ("f32", "FP32", [0, "1"], "a string at position 1, expected a number that fits FP32"),
        ("f32", "FP32", [None, 0], "null at position 0, expected a number that fits FP32"),
        ("f32", "FP32", [0, False], "false at position 1, expected a number"),
        ("f32", "FP32", [0, [1]], "an array at position 1, expected a number"),
        ("boolean", "BOOL", [True, 1], "1 at position 1, expected true or false for BOOL"),
        ("string", "BYTES", ["a", 1], "1 at position 1, expected a string for BYTES"),
    ],
)
async def test_an_element_the_type_cannot_hold_is_named(
    rest: Rest, model: str, datatype: str, data: list[Any], expected: str
) -> None:
    assert f"input 'x' of model '{model}' has {expected}" in await rest.refusal(model, tensor("x", datatype, [2], data))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"data": [1, 2, 3]}, "has 3 elements, expected 4 for FP32[1,4]"),
        ({"data": [[1, 2, 3]]}, "has 3 elements, expected 4 for FP32[1,4]"),
        ({"data": [[1], [2], [3], [4]]}, "has data nested as [4,1], expected [1,4] or a flat array"),
        ({"data": [[1, 2, 3], [4]]}, "has ragged data"),
        ({"data": [[1, 2, 3], 4]}, "mixes arrays and values"),
        ({"data": 5}, "has data of a number, expected an array"),
        ({"data": {}}, "has data of an object, expected an array"),
        ({"shape": [1, -4]}, "has -4, expected integers from 0 on"),
        ({"shape": [1, 4.0]}, "has 4.0, expected integers from 0 on"),
        ({"shape": [1, "4"]}, "has a string, expected integers from 0 on"),
        ({"shape": 4}, "is a number, expected an array of integers"),
        ({"shape": [2**32, 2**32]}, f"has 4 elements, expected {2**64} for FP32"),
        ({"shape": [2**63 - 1] * 300}, "has 300 dimensions, expected at most 64"),
        ({"shape": [2**63 - 1] * 300, "datatype": "BYTES", "data": ["a"]}, "has 300 dimensions, expected at most 64"),
        ({"shape": [2, 2]}, "has shape [2,2], expected [?,4]"),
        ({"shape": [4]}, "has shape [4], expected [?,4]"),
        ({"datatype": "FP31"}, "has datatype 'FP31', expected one of"),
        ({"datatype": "STRING"}, "has datatype 'STRING', expected one of BOOL BF16 FP16 FP32 FP64 INT8 INT16 INT32 "),
        ({"datatype": "FLOAT32"}, "UINT64 BYTES; did you mean FP32?"),
        ({"datatype": "f32"}, "UINT64 BYTES; did you mean FP32?"),
        ({"datatype": "int64"}, "UINT64 BYTES; did you mean INT64?"),
        ({"datatype": "TYPE_FP16"}, "UINT64 BYTES; did you mean FP16?"),
        ({"datatype": "INT32", "data": [1, 2, 3, 4]}, "has element type i32 (INT32), expected f32 (FP32)"),
        ({"datatype": 7}, "the 'datatype' of input 'x' of model 'echo' is a number, expected a string"),
        ({"name": "z"}, "input 'z' of model 'echo' is not known, expected one of 'x'"),
        ({"name": None}, "an input of the request has no 'name', expected a string"),
        ({"datatype": None}, "input 'x' of model 'echo' has no 'datatype', expected a string"),
        ({"shape": None}, "input 'x' of model 'echo' has no 'shape', expected an array of integers"),
        ({"parameters": {"nested": {}}}, "parameter 'nested' of input 'x' of model 'echo' is an object"),
        ({"parameters": [1]}, "is an array, expected an object"),
        ({"parameters": {"binary_data_size": 16}}, "has both 'data' and 'binary_data_size'"),
    ],
)
async def test_an_input_that_does_not_fit_is_refused(rest: Rest, changed: dict[str, Any], expected: str) -> None:
    assert expected in await rest.refusal("echo", X | changed)


async def test_what_is_null_is_not_there(rest: Rest) -> None:
    nulls: dict[str, None] = {"id": None, "outputs": None, "parameters": None}
    answer = await rest.infer("echo", X | {"parameters": {"binary_data_size": None}}, **nulls)
    assert answer.json() == (await rest.infer("echo", X)).json()
    output = {"name": "y", "parameters": None}
    answer = await rest.infer("echo", X | {"parameters": None}, outputs=[output], parameters={"priority": None})
    assert answer.json() == (await rest.infer("echo", X)).json()
    assert "has no 'data', expected an array" in await rest.refusal("echo", X | {"data": None})
    assert "has 0 elements" in await rest.refusal("echo", X | {"data": [], "parameters": None})
    assert "the request has no 'inputs'" in sentence(await rest.post("echo", b'{"inputs":null}'))


async def test_data_may_not_be_nested_without_end(rest: Rest) -> None:
    data: list[Any] = [1.0]
    for _ in range(150):
        data = [data]
    assert "nested deeper than 100 levels" in await rest.refusal("echo", X | {"data": data})
    content = b'{"inputs":' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert "malformed JSON" in sentence(await rest.post("echo", content))


async def test_inputs_must_be_there_once(rest: Rest) -> None:
    a, b = tensor("a", "FP32", [2], [1, 2]), tensor("b", "INT32", [2], [1, 2])
    assert await rest.refusal("two", a) == "input 'b' of model 'two' is missing"
    assert await rest.refusal("two", a, a, b) == "input 'a' of model 'two' is given twice"
    assert "input 'x' of model 'echo' is missing" in await rest.refusal("echo")


async def test_outputs_must_be_known_and_asked_for_once(rest: Rest) -> None:
    assert "output 'z' of model 'echo' is not known" in await rest.refusal("echo", X, outputs=[{"name": "z"}])
    assert "an output of the request has no 'name', expected a string" in await rest.refusal("echo", X, outputs=[{}])
    twice = [{"name": "y"}, {"name": "y"}]
    assert "output 'y' of model 'echo' is asked for twice" in await rest.refusal("echo", X, outputs=twice)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "malformed JSON"),
        (b"{", "malformed JSON"),
        (b'{"inputs":[NaN]}', "JSON has no NaN and no Infinity"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[Infinity]}]}', "JSON has no NaN"),
        (
            '{"id":"\u00e9","inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1, -Infinity]}]}'.encode(),
            "send the tensor's bytes behind the document, with binary_data_size",
        ),
        (b"[]", "the request is an array, expected an object"),
        (b"{}", "the request has no 'inputs', expected an array of tensors"),
        (b'{"inputs":{}}', "the request's 'inputs' is an object, expected an array"),
        (b'{"inputs":[1]}', "an input of the request is a number, expected an object"),
        (b'{"inputs":[],"id":7}', "the request's 'id' is a number, expected a string"),
        (b'{"inputs":[],"outputs":["y"]}', "an output of the request is a string, expected an object"),
        (b'{"inputs":[],"parameters":{"binary_data_output":1}}', "'binary_data_output' of the request is a number"),
        (b'{"inputs":[],"parameters":{"priority":-1}}', "parameter 'priority' is -1"),
        (b'{"inputs":[],"parameters":{"timeout":"x"}}', "parameter 'timeout' is 'x'"),
        (b'{"inputs":[],"parameters":{"triton_x":1}}', "starts with 'triton_'"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4]}]}', "has no 'data', expected an array"),
    ],
)
async def test_a_document_that_is_no_request_is_refused(rest: Rest, content: bytes, expected: str) -> None:
    assert expected in sentence(await rest.post("echo", content))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"inputs": [X] * 4097}, "there are 4097 inputs, expected at most 4096"),
        ({"inputs": [X], "outputs": [{"name": "y"}] * 4097}, "there are 4097 outputs, expected at most 4096"),
        (
            {"inputs": [X], "parameters": {str(number): 1 for number in range(4097)}},
            "there are 4097 parameters, expected at most 4096",
        ),
    ],
    ids=["inputs", "outputs", "parameters"],
)
async def test_what_no_request_has_is_refused_before_it_is_read(
    rest: Rest, members: dict[str, Any], expected: str
) -> None:
    assert sentence(await rest.post("echo", orjson.dumps(members))) == expected


async def test_what_is_not_offered_is_said_to_be_so(rest: Rest) -> None:
    region = {**X, "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 16}}
    del region["data"]
    assert "does not offer shared memory" in sentence(await rest.infer("echo", region), Code.UNIMPLEMENTED)


@pytest.mark.parametrize("count", [-1, 1.5, True, "3"])
async def test_a_number_of_classes_that_is_none_is_refused(rest: Rest, count: object) -> None:
    outputs = [{"name": "y", "parameters": {"classification": count}}]
    refusal = await rest.refusal("echo", X, outputs=outputs)
    assert refusal == f"parameter 'classification' of output 'y' is {count!r}, expected a whole number from 0 on"


@pytest.mark.parametrize(("count", "expected"), [(2, ["4.0:3", "3.0:2"]), (9, ["4.0:3", "3.0:2", "2.0:1", "1.0:0"])])
async def test_classes_are_strings(rest: Rest, count: int, expected: list[str]) -> None:
    outputs = [{"name": "y", "parameters": {"classification": count}}]
    (output,) = (await rest.infer("echo", X, outputs=outputs)).json()["outputs"]
    assert output == {"name": "y", "datatype": "BYTES", "shape": [len(expected)], "data": expected}
    outputs = [{"name": "y", "parameters": {"classification": 0}}]
    assert (await rest.infer("echo", X, outputs=outputs)).json()["outputs"][0]["datatype"] == "FP32"


async def test_a_model_or_version_nobody_knows_is_not_found(rest: Rest) -> None:
    unknown = sentence(await rest.infer("nope", X), Code.MODEL_NOT_FOUND)
    assert unknown == "Request for unknown model: 'nope' is not found"
    path = "/v2/models/echo/versions/{}/infer"
    absent = await rest.client.post(path.format(9), json={"inputs": [X]})
    assert sentence(absent, Code.MODEL_NOT_FOUND) == "Request for unknown model: 'echo' version 9 is not found"
    no_number = await rest.client.post(path.format("x"), json={"inputs": [X]})
    assert sentence(no_number) == "failed to get model version from specified version string 'x'"


async def test_timings_are_in_the_headers_and_add_up(rest: Rest) -> None:
    headers = (await rest.infer("echo", X)).headers
    queue, inference, total = (int(headers[f"inferwire-{part}-us"]) for part in ("queue", "inference", "total"))
    assert abs(queue + inference - total) <= 1


async def test_unknown_parameters_are_passed_over(rest: Rest) -> None:
    response = await rest.infer("echo", X, parameters={"mine": 1.5, "priority": 1, "timeout": 60_000_000})
    assert response.status_code == 200
