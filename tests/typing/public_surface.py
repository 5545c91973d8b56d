"""A program that uses the public surface with every type spelled out; type checkers read it, nothing runs it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import numpy as np

import inferwire as ov
from inferwire import preprocess, properties


def setting_up(path: str) -> ov.CompiledModel:
    core = ov.Core("localhost:8001")
    assert_type(core.available_devices, list[str])
    assert_type(core.get_versions("CPU"), dict[str, ov.Version])
    model = core.read_model(path)
    assert_type(model, ov.Model)
    assert_type(model.inputs, list[ov.Output])
    assert_type(model.input(0).partial_shape, ov.PartialShape)
    model.reshape({"data": [1, 3]})
    model.reshape([1, (1, 5), -1])
    config = {properties.hint.performance_mode: properties.hint.PerformanceMode.LATENCY}
    assert_type(core.compile_model(model, "CPU", config), ov.CompiledModel)
    assert_type(ov.compile_model(path), ov.CompiledModel)
    assert_type(core.served_model("m", version=1), ov.CompiledModel)
    ov.set_batch(model, 4)
    ov.set_batch(model, dimension=ov.Dimension(1, 8))
    core.set_property("CPU", {"NUM_STREAMS": 1})
    core.set_property({properties.enable_profiling: True})
    core.set_property("CPU", properties.inference_num_threads(2))
    core.set_property("CPU", ("NUM_STREAMS", 1))
    core.set_property(("NUM_STREAMS", 1))
    print(core.get_property("CPU", properties.inference_num_threads) + 1)
    core.close()
    return core.compile_model(path)


def inferring(compiled: ov.CompiledModel) -> None:
    row = np.zeros((1, 3), np.float32)
    request = compiled.create_infer_request()
    assert_type(request, ov.InferRequest)
    results = request.infer({"data": row, 1: row}, share_inputs=True)
    for port, array in results.items():
        assert_type(port, ov.ConstOutput)
        print(array.shape)
    request.set_callback(lambda userdata: print(userdata), 1)
    request.start_async(row)
    request.wait()
    assert_type(request.wait_for(10), bool)
    assert_type(request.latency, float)
    assert_type(request.timings, ov.Timings)
    assert_type(request.get_output_tensor(0), ov.Tensor)
    assert_type(request.get_tensor("out").get_element_type(), ov.Type)
    assert_type(request.get_compiled_model(), ov.CompiledModel)
    assert_type(compiled.inputs, list[ov.ConstOutput])
    assert_type(compiled.input().get_names(), set[str])
    assert_type(compiled.export_model(), io.BytesIO)
    print(compiled(row)[compiled.output("out")].sum())


def pooling(compiled: ov.CompiledModel) -> None:
    queue = ov.AsyncInferQueue(compiled, 4)

    def show(request: ov.InferRequest, index: int) -> None:
        print(index, request.results[0].argmax())

    queue.set_callback(show)
    queue.start_async({0: [1.0, 2.0, 3.0]}, userdata=1)
    queue.wait_all()
    assert_type(queue.is_ready(), bool)
    assert_type(iter(queue), Iterator[ov.InferRequest])
    assert_type(queue[0], ov.InferRequest)


async def awaiting(queue: ov.AsyncInferQueue, request: ov.InferRequest) -> None:
    results = await request.infer_async({0: np.zeros((1, 3), np.float32)})
    print((await queue.infer_async({0: 1.0})).names(), results.to_dict())
    async for each in queue.map_async([1.0, 2.0]):
        print(each[0], each.to_tuple())


def failing(request: ov.InferRequest) -> float | None:
    try:
        request.wait()
    except ov.QueueFull as error:
        assert_type(error.retry_after_s, float | None)
        return error.retry_after_s
    except ov.SessionLost as error:
        print(error.code)
    except ov.InferwireError as error:
        assert_type(str(error), str)
    return None


def values() -> None:
    tensor = ov.Tensor(np.zeros((1, 3), np.float32))
    assert_type(tensor.shape, ov.Shape)
    assert_type(tensor.byte_size, int)
    assert_type(ov.PartialShape([1, -1]).is_dynamic, bool)
    assert_type(ov.Type.f32, ov.Type)
    assert_type(ov.get_version(), str)


def layers(request: ov.InferRequest) -> list[str]:
    rows = request.profiling_info
    assert_type(rows[0].status, ov.ProfilingInfo.Status)
    return [row.node_name for row in rows if row.status == ov.ProfilingInfo.EXECUTED]


def tensors_by_key(request: ov.InferRequest, compiled: ov.CompiledModel, tensor: ov.Tensor) -> None:
    by_name = {"data": tensor}
    by_position = {0: tensor}
    by_port = {compiled.input(): tensor}
    request.set_tensors(by_name)
    request.set_tensors(by_position)
    request.set_tensors(by_port)
    request.set_tensors({"data": tensor, 1: tensor, compiled.input(): tensor})
    request.set_input_tensors(by_position)
    request.set_output_tensors(by_position)
    request.set_tensors("data", [tensor, tensor])
    request.set_tensors(tensor_name="data", tensors=[tensor])
    request.set_tensors(port=compiled.input(), tensors=ov.TensorVector([tensor]))
    batch = [tensor, tensor]
    request.set_input_tensors(batch)
    request.set_input_tensors(0, batch)
    assert_type(request.get_input_tensor(), ov.Tensor)
    assert_type(request.get_output_tensor(index=0), ov.Tensor)


def remote_tensors(request: ov.InferRequest, tensor: ov.RemoteTensor, local: ov.Tensor) -> None:
    by_name = {"data": tensor}
    request.set_tensors(by_name)
    request.set_tensors({"data": tensor, "more": local})
    request.set_input_tensors({0: tensor, 1: local})
    batch = [tensor, tensor]
    request.set_input_tensors(batch)


def arrays_of_a_ports_shape(compiled: ov.CompiledModel, tensor: ov.Tensor) -> int:
    shape = compiled.input().shape
    array = np.zeros(shape, np.float32).reshape(tensor.shape)
    array += np.random.default_rng().random(shape, np.float32) + np.full(tensor.shape, 1.0, np.float32)
    batch, *sizes = shape
    assert_type(sizes, list[int])
    assert_type(shape[-1], int)
    assert_type(shape[1:], ov.Shape)
    return int(np.prod(shape)) + batch


def integers_of_numpy(compiled: ov.CompiledModel, request: ov.InferRequest, model: ov.Model) -> None:
    for each in np.argsort(np.zeros(2)):
        assert_type(compiled.input(each), ov.ConstOutput)
    index, rows = np.int64(0), np.int32(2)
    print(compiled.output(index), model.input(index), model.get_output_shape(index), model.parameters[0].output(index))
    tensor = ov.Tensor(ov.Type.f32, [rows, 3])
    tensor.shape = [rows]
    tensor.set_shape((rows, 1))
    print(ov.Shape([rows, 3])[index], ov.Strides([rows]), ov.Coordinate([index]), ov.Dimension(index, rows))
    shape = ov.PartialShape.dynamic(rows)
    shape[index] = rows
    print(shape[index], shape.get_dimension(index), ov.TensorVector([tensor])[index])
    request.set_input_tensor(index, tensor)
    request.set_output_tensor(index, tensor)
    request.set_input_tensors(index, [tensor])
    print(request.get_input_tensor(index), request.get_output_tensor(np.argmax(tensor.data)), request.wait_for(rows))
    print(ov.AsyncInferQueue(compiled, rows)[index], ov.Tensor(tensor, [index], [rows]))
    ov.set_batch(model, rows)
    steps = preprocess.PrePostProcessor(model).input(index).preprocess()
    steps.resize(preprocess.ResizeAlgorithm.RESIZE_LINEAR, rows, rows).crop([index], [rows])
    ov.Shape([1.5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def nodes(model: ov.Model) -> list[ov.PartialShape]:
    model.get_parameters()[0].set_layout(ov.Layout("NC"))
    assert_type(model.get_result_index(result=model.get_results()[0]), int)
    assert_type(model.get_result_index(value=model.output()), int)
    return [node.get_partial_shape() for node in model.get_parameters() if node.element_type == ov.Type.f32]


def pairs(core: ov.Core) -> tuple[str, ov.OVAny]:
    assert_type(properties.hint.performance_mode(), str)
    core.set_property("CPU", dict([properties.hint.num_requests(4)]))
    core.get_property("CPU", name=properties.device.full_name(), arguments={})
    return properties.device.priorities("GPU", "CPU")


def preprocessing(model: ov.Model) -> ov.Model:
    processor = preprocess.PrePostProcessor(model)
    assert_type(processor.input(), preprocess.InputInfo)
    processor.input("image").tensor().set_element_type(ov.Type.u8)
    processor.input(input_index=0).model().set_layout(ov.Layout("NCHW"))
    assert_type(processor.output(tensor_name="out"), preprocess.OutputInfo)
    return processor.build()


def features(model: ov.Model) -> list[ov.Output]:
    names = ["pool5", "fc6"]
    model.add_outputs(names)
    model.add_outputs(("conv1", 0))
    model.input(0).set_names({"image"})
    model.output(0).get_tensor().add_names({"scores": 1}.keys())
    return model.add_outputs([model.get_ordered_ops()[1].output(0), "fc7", ("conv2", 0)])


def reading(core: ov.Core, path: Path, content: bytes, weights: ov.Tensor) -> list[ov.Model]:
    models = [core.read_model(path), core.read_model(content, weights), core.read_model(io.BytesIO(content))]
    compiled = core.compile_model(models[0])
    assert_type(core.import_model(compiled.export_model(), "CPU"), ov.CompiledModel)
    assert_type(core.query_model(models[1], "CPU"), dict[str, str])
    return models


def named(compiled: ov.CompiledModel) -> tuple[ov.OVDict, list[ov.VariableState], ov.RuntimeModel]:
    return compiled.infer_new_request(), compiled.query_state(), compiled.get_runtime_model()


def kept(core: ov.Core, request: ov.InferRequest) -> ov.RemoteTensor:
    context = core.get_default_context("CPU")
    tensor = context.create_tensor(ov.Type.u8, [1, 8, 8, 3], {})
    assert_type(tensor, ov.RemoteTensor)
    tensor.copy_from(ov.Tensor(np.zeros((1, 8, 8, 3), np.uint8)))
    request.set_input_tensor(ov.RemoteTensor(tensor, [0, 0, 0, 0], [1, 4, 4, 3]))
    request.set_tensor("image", tensor)
    request.postpone_outputs = True
    return tensor
