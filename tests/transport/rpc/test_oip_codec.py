"""Requests and answers of the Open Inference Protocol: what is kept of one is right for the next."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferwire_proto.element_types import BY_NAME
from inferwire_server.core.tensors import Tensor
from inferwire_server.errors import ServingError
from inferwire_server.open_inference.stubs import grpc_service_pb2 as pb
from inferwire_server.service.values import ServedModel, SharedPlace
from inferwire_server.transport.oip.inference import OipAnswer, OipOutput
from inferwire_server.transport.rpc.oip_codec import encode_answer, split_request
from inferwire_server.transport.rpc.oip_plans import plan_of

F32 = BY_NAME["f32"]


def request(*raw: bytes, request_id: str = "", length: int = 2) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name="m", model_version="1", id=request_id, raw_input_contents=raw)
    message.inputs.add(name="x", datatype="FP32", shape=[length])
    return message


def head_of(message: pb.ModelInferRequest) -> pb.ModelInferRequest:
    return split_request(message.SerializeToString())[1]


def test_requests_that_differ_in_id_and_bytes_have_one_head() -> None:
    one = split_request(request(bytes(8), request_id="1").SerializeToString())
    other = split_request(request(bytes([1] * 8), request_id="2").SerializeToString())
    assert one[1] == other[1]
    assert (one[0], other[0]) == ("1", "2")
    assert [list(one[2]), list(other[2])] == [[bytes(8)], [bytes([1] * 8)]]


def test_a_head_that_comes_again_is_not_read_again() -> None:
    assert plan_of(head_of(request(bytes(8))), 1) is plan_of(head_of(request(bytes(8), request_id="7")), 1)


def test_each_inference_of_a_plan_has_its_own_bytes() -> None:
    plan = plan_of(head_of(request(bytes(8))), 1)
    one, other = plan.inference([b"\0" * 8]), plan.inference([b"\1" * 8])
    assert one.wanted.target == other.wanted.target == ServedModel("m", "1")
    assert one.inputs == (("x", Tensor(F32, (2,), b"\0" * 8)),)
    assert other.inputs == (("x", Tensor(F32, (2,), b"\1" * 8)),)


def test_another_number_of_raw_tensors_is_another_plan() -> None:
    message = request()
    message.inputs[0].contents.fp32_contents.extend([1, 2])
    head = head_of(message)
    assert plan_of(head, 0).inference([]).inputs == (("x", Tensor(F32, (2,), pack("<2f", 1, 2))),)
    for count in (1, 2):
        with pytest.raises(ServingError, match="contents field must not be specified when using raw_input_contents"):
            plan_of(head, count)
    head = head_of(request(bytes(8)))
    assert plan_of(head, 1).inference([bytes(8)]).inputs == (("x", Tensor(F32, (2,), bytes(8))),)
    with pytest.raises(ServingError, match="expected 1 entries in raw_input_contents for model 'm', got 2"):
        plan_of(head, 2)


def test_a_head_with_many_elements_in_it_is_not_kept() -> None:
    message = request(length=1000)
    message.inputs[0].contents.fp32_contents.extend([1] * 1000)
    head = head_of(message)
    assert plan_of(head, 0) == plan_of(head, 0)
    assert plan_of(head, 0) is not plan_of(head, 0)


places = st.none() | st.builds(SharedPlace, st.just("region"), st.integers(0, 9), st.integers(8, 9))
outputs = st.builds(
    OipOutput,
    st.sampled_from(["y", "z"]),
    st.just("FP32"),
    st.integers(0, 3).flatmap(lambda n: st.binary(min_size=4 * n, max_size=4 * n).map(lambda d: Tensor(F32, (n,), d))),
    places,
)
answers = st.builds(OipAnswer, st.sampled_from(["m", "n"]), st.sampled_from(["1", "2"]), st.lists(outputs).map(tuple))


@given(answers, st.sampled_from(["", "7", "é" * 70]), st.booleans())
def test_an_answer_is_what_protobuf_alone_would_have_written(
    answer: OipAnswer, request_id: str, is_final: bool
) -> None:
    expected = pb.ModelInferResponse(model_name=answer.model_name, model_version=answer.model_version, id=request_id)
    if is_final:
        expected.parameters["triton_final_response"].bool_param = True
    for output in answer.outputs:
        head = expected.outputs.add(name=output.name, datatype="FP32", shape=output.tensor.shape)
        expected.raw_output_contents.append(b"" if output.place else bytes(output.tensor.data))
        if output.place is not None:
            head.parameters["shared_memory_region"].string_param = "region"
            head.parameters["shared_memory_offset"].int64_param = output.place.offset
            head.parameters["shared_memory_byte_size"].int64_param = output.tensor.byte_size
    assert pb.ModelInferResponse.FromString(encode_answer(answer, request_id, is_final=is_final)) == expected
