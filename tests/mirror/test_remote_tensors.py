"""Tensors on the server; openvino has none on a CPU, so there is nothing to compare them with but themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

import inferwire as ov
from inferwire_cli.server_process import running_server

F32 = {"INFERENCE_PRECISION_HINT": "f32"}
PICTURE = np.arange(24, dtype=np.float32).reshape(8, 3)


@pytest.fixture(scope="module")
def core(server_address: str) -> ov.Core:
    return ov.Core(server_address)


@pytest.fixture
def context(core: ov.Core) -> ov.RemoteContext:
    return core.get_default_context("CPU")


@pytest.fixture
def picture(context: ov.RemoteContext) -> ov.RemoteTensor:
    tensor = context.create_tensor(ov.Type.f32, [8, 3], {})
    tensor.copy_from(ov.Tensor(PICTURE))
    return tensor


@pytest.fixture(scope="module")
def dynamic(core: ov.Core, models: dict[str, Path]) -> ov.CompiledModel:
    return core.compile_model(models["dynamic"], "CPU", F32)


def content(tensor: ov.RemoteTensor) -> list[Any]:
    here = ov.Tensor(np.zeros(1, np.float32))
    tensor.copy_to(here)
    return here.data.tolist()


def test_a_context_says_what_it_is_of(core: ov.Core) -> None:
    for context in (core.get_default_context("CPU"), core.create_context("CPU", {})):
        assert context.get_device_name() == "CPU"
        assert context.get_params() == {}
        assert "CPU" in repr(context)


def test_a_tensor_says_what_it_is(context: ov.RemoteContext) -> None:
    tensor = context.create_tensor(ov.Type.i16, ov.Shape([2, 3]), {})
    assert repr(tensor) == "<RemoteTensor: shape[2,3] type: i16>"
    assert list(tensor.get_shape()) == [2, 3]
    assert tensor.get_byte_size() == 12
    assert tensor.get_device_name() == "CPU"
    assert tensor.get_params() == {}


def test_it_is_of_zeros_at_first(context: ov.RemoteContext) -> None:
    assert content(context.create_tensor(ov.Type.f32, [2], {})) == [0, 0]
    empty = ov.Tensor(ov.Type.string, [2])
    empty.str_data = ["a", "b"]
    context.create_tensor(ov.Type.string, [2], {}).copy_to(empty)
    assert empty.str_data.tolist() == ["", ""]


def test_what_is_copied_there_comes_back(picture: ov.RemoteTensor) -> None:
    assert content(picture) == PICTURE.tolist()
    here = ov.Tensor(np.zeros((1, 1), np.float32))
    here.copy_from(picture)
    assert here.data.tolist() == PICTURE.tolist()


def test_a_copy_takes_the_shape_with_it(context: ov.RemoteContext) -> None:
    tensor = context.create_tensor(ov.Type.f32, [2, 2], {})
    tensor.copy_from(ov.Tensor(np.ones((1, 5), np.float32)))
    assert list(tensor.get_shape()) == [1, 5]
    ov.Tensor(np.zeros((3,), np.float32)).copy_to(tensor)
    assert content(tensor) == [0, 0, 0]


def test_strings_and_packed_elements_travel_too(context: ov.RemoteContext) -> None:
    texts = ov.Tensor(ov.Type.string, [2])
    texts.str_data = ["grüß", ""]
    there, back = context.create_tensor(ov.Type.string, [2], {}), ov.Tensor(ov.Type.string, [1])
    there.copy_from(texts)
    there.copy_to(back)
    assert back.str_data.tolist() == ["grüß", ""]
    packed = ov.Tensor(np.array([0x21, 0x03], np.uint8), [3], ov.Type.u4)
    nibbles, unpacked = context.create_tensor(ov.Type.u4, [3], {}), ov.Tensor(ov.Type.u4, [3])
    nibbles.copy_from(packed)
    nibbles.copy_to(unpacked)
    assert unpacked.data.tolist() == [0x21, 0x03]


def test_a_region_shares_the_elements(picture: ov.RemoteTensor) -> None:
    region = ov.RemoteTensor(picture, [2, 0], [4, 2])
    assert content(region) == [[6, 7], [9, 10]]
    region.copy_from(ov.Tensor(np.full((2, 2), -1, np.float32)))
    assert content(picture)[2] == [-1, -1, 8]
    corner = ov.RemoteTensor(region, [1, 1], [2, 2])
    picture.copy_from(ov.Tensor(PICTURE * 2))
    assert content(corner) == [[20]]


def test_a_region_stays_within_its_tensor_and_keeps_its_shape(picture: ov.RemoteTensor) -> None:
    with pytest.raises(RuntimeError, match=r"the region ends at 9 of 8"):
        ov.RemoteTensor(picture, [0, 0], [9, 3])
    region = ov.RemoteTensor(picture, [0, 0], [2, 3])
    with pytest.raises(RuntimeError, match=r"Cannot set new shape: \[1,3\].* has the shape \[2,3\]"):
        region.copy_from(ov.Tensor(np.zeros((1, 3), np.float32)))


def test_copies_need_the_same_type(picture: ov.RemoteTensor) -> None:
    with pytest.raises(RuntimeError, match=r"element types are not equal. \(src: f64 != dst: f32\)"):
        picture.copy_from(ov.Tensor(np.zeros((8, 3))))


@pytest.mark.parametrize("name", ["data", "bytes_data", "str_data"])
def test_its_elements_are_not_here(name: str, picture: ov.RemoteTensor) -> None:
    with pytest.raises(NotImplementedError, match="This function is not implemented"):
        getattr(picture, name)


REMOTE_TENSOR: Any = ov.RemoteTensor
"""For calls that its type would not let pass."""

CALLS: dict[str, Callable[[Any, Any], object]] = {
    "type": lambda context, tensor: context.create_tensor("f32", [1], {}),
    "shape": lambda context, tensor: context.create_tensor(ov.Type.f32, "3", {}),
    "properties": lambda context, tensor: context.create_tensor(ov.Type.f32, [1], 3),
    "host": lambda context, tensor: context.create_host_tensor(ov.Type.f32, None),
    "from": lambda context, tensor: tensor.copy_from(PICTURE),
    "to": lambda context, tensor: tensor.copy_to(PICTURE),
    "region": lambda context, tensor: REMOTE_TENSOR(ov.Tensor(PICTURE), [0, 0], [1, 1]),
    "corner": lambda context, tensor: REMOTE_TENSOR(tensor, 0, [1, 1]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_other_arguments_are_type_errors(
    call: Callable[[Any, Any], object], context: ov.RemoteContext, picture: ov.RemoteTensor
) -> None:
    with pytest.raises(TypeError, match=r"incompatible (function|constructor) arguments"):
        call(context, picture)


def test_properties_of_foreign_memory_are_refused(core: ov.Core, context: ov.RemoteContext) -> None:
    with pytest.raises(RuntimeError, match="'SHARED_MEM_TYPE' are about memory that exists already"):
        context.create_tensor(ov.Type.f32, [1], {"SHARED_MEM_TYPE": "USM"})
    with pytest.raises(RuntimeError, match="'VA_DEVICE' are about memory"):
        core.create_context("CPU", {"VA_DEVICE": 1})


@pytest.mark.parametrize("device", ["AUTO", "AUTO:CPU", "NOPE"])
def test_devices_without_a_context_are_refused_with_openvinos_text(device: str, core: ov.Core) -> None:
    with pytest.raises(RuntimeError) as theirs:
        openvino.Core().get_default_context(device)
    with pytest.raises(RuntimeError) as ours:
        core.get_default_context(device)
    assert str(ours.value).partition(" of the server")[0] in str(theirs.value)


def test_a_host_tensor_is_here(context: ov.RemoteContext) -> None:
    tensor = context.create_host_tensor(ov.Type.f32, ov.Shape([1, 2]))
    tensor.data[:] = 3
    assert tensor.data.tolist() == [[3, 3]]


def test_a_model_is_compiled_for_a_context(core: ov.Core, context: ov.RemoteContext, models: dict[str, Path]) -> None:
    compiled = core.compile_model(models["relu"], context, F32)
    assert compiled.get_property("EXECUTION_DEVICES") == ["CPU"]
    assert compiled(np.ones((1, 3), np.float32))[0].tolist() == [[1, 1, 1]]


def test_it_is_an_input_and_an_output_of_any_request(
    context: ov.RemoteContext, picture: ov.RemoteTensor, dynamic: ov.CompiledModel
) -> None:
    landed = context.create_tensor(ov.Type.f32, [1, 3], {})
    first, second = dynamic.create_infer_request(), dynamic.create_infer_request()
    first.set_tensor("data", picture)
    first.set_output_tensor(landed)
    second.set_input_tensor(ov.RemoteTensor(landed, [0, 0], [1, 3]))
    results = first.infer()
    assert list(landed.get_shape()) == [8, 3]
    assert content(landed) == results[0].tolist() == PICTURE.tolist()
    assert second.infer()[0].tolist() == [[0, 1, 2]]
    picture.copy_from(ov.Tensor(-PICTURE))
    first.infer()
    assert second.infer()[0].tolist() == [[0, 0, 0]]


def test_one_picture_has_many_crops(picture: ov.RemoteTensor, dynamic: ov.CompiledModel) -> None:
    queue = ov.AsyncInferQueue(dynamic, 4)
    seen: dict[int, Any] = {}
    queue.set_callback(lambda request, row: seen.update({row: request.results[0].tolist()}))
    for row in range(8):
        queue.start_async({0: ov.RemoteTensor(picture, [row, 0], [row + 1, 3])}, row)
    queue.wait_all()
    assert [seen[row] for row in range(8)] == [[row] for row in PICTURE.tolist()]


def test_a_request_gives_it_back_to_be_read_only(picture: ov.RemoteTensor, dynamic: ov.CompiledModel) -> None:
    request = dynamic.create_infer_request()
    request.set_input_tensor(picture)
    given = request.get_input_tensor()
    assert given.data.tolist() == PICTURE.tolist()
    with pytest.raises(ValueError, match="read-only"):
        given.data[0] = 1


def test_an_output_in_a_region_is_refused(picture: ov.RemoteTensor, dynamic: ov.CompiledModel) -> None:
    request = dynamic.create_infer_request()
    request.set_output_tensor(ov.RemoteTensor(picture, [0, 0], [1, 3]))
    with pytest.raises(RuntimeError, match="a region of a remote tensor cannot be an output"):
        request.infer(PICTURE[:1])
    request.set_output_tensor(ov.Tensor(np.zeros((1, 3), np.float32)))
    assert request.infer(PICTURE[:1])[0].tolist() == [[0, 1, 2]]


def test_the_wrong_type_is_refused_as_for_a_local_tensor(context: ov.RemoteContext, dynamic: ov.CompiledModel) -> None:
    with pytest.raises(RuntimeError, match="Failed to set tensor for input with precision: i32"):
        dynamic.create_infer_request().set_input_tensor(context.create_tensor(ov.Type.i32, [1, 3], {}))


def test_what_a_client_holds_is_bounded_and_freed(tmp_path: Path) -> None:
    with running_server(tmp_path, "--max-session-tensors-mb", "1") as server:
        context = ov.Core(server.grpc_address).get_default_context("CPU")
        held = context.create_tensor(ov.Type.u8, [600_000], {})
        with pytest.raises(ov.TooLarge, match=r"600000 bytes is too much for this session, which keeps 600552"):
            context.create_tensor(ov.Type.u8, [600_000], {})
        for _ in range(20):
            del held
            held = context.create_tensor(ov.Type.u8, [600_000], {})
        larger = context.create_tensor(ov.Type.u8, [1], {})
        del held
        larger.copy_from(ov.Tensor(np.ones(600_000, np.uint8)))
        assert larger.get_byte_size() == 600_000
