"""A program as its authors wrote it for openvino. Prints what it finds; says nothing of where it runs."""

import argparse
import sys
from pathlib import Path

import numpy as np
import openvino
import openvino as ov
import openvino.properties as props
import openvino.properties.device as device
import openvino.properties.hint as hints
from openvino import AsyncInferQueue, Dimension, InferRequest, Layout, PartialShape, Shape, Tensor, Type
from openvino import opset13 as opset  # noqa: F401 - imported as programs do, for what this one does not do
from openvino.exceptions import OVError
from openvino.helpers import pack_data, unpack_data
from openvino.properties import log, streams
from openvino.utils.data_helpers import OVDict, tensor_from_file

CONFIG = {
    hints.inference_precision: Type.f32,
    hints.performance_mode: hints.PerformanceMode.THROUGHPUT,
    props.enable_profiling: False,
}


def describe(model: ov.Model) -> None:
    """Print the ports, in every way to ask for them."""
    for port in model.inputs + model.outputs:
        print(port.any_name, port.get_partial_shape(), port.element_type, port.get_element_type().to_dtype())
    print(model.input("pixels").partial_shape[0].is_dynamic, model.is_dynamic(), model.get_parameters()[0])
    print(ov.layout_helpers.get_layout(model.input()), model.get_rt_info(["version"]).value)


def infer(compiled: ov.CompiledModel, rows: np.ndarray) -> None:
    """Run inferences in every way there is."""
    request: InferRequest = compiled.create_infer_request()
    results = request.infer({"pixels": rows})
    print(type(results).__name__, isinstance(results, OVDict), results[0].round(3).tolist())
    print(results[compiled.output(0)] is results["probabilities"], results.to_tuple()[0].shape)
    request.set_callback(lambda name: print("called back", name), "once")
    request.start_async(Tensor(rows), share_inputs=True)
    request.wait()
    print(request.get_output_tensor(), request.results[0].argmax(axis=1).tolist())
    print(compiled(rows)[0].argmax(axis=1).tolist(), compiled.infer_new_request([rows])[0].argmax(axis=1).tolist())


def queue(compiled: ov.CompiledModel, rows: np.ndarray) -> None:
    """Run one inference for each row."""
    classes: dict[int, int] = {}
    pool = AsyncInferQueue(compiled, jobs=2)
    pool.set_callback(lambda request, index: classes.update({index: int(request.get_output_tensor().data.argmax())}))
    for index, row in enumerate(rows):
        pool.start_async({0: row[None]}, index)
    pool.wait_all()
    print(sorted(classes.items()), len(pool), pool.is_ready())


def refuse(core: ov.Core, compiled: ov.CompiledModel) -> None:
    """Print what goes wrong and how."""
    attempts = (
        lambda: compiled.input("nothing"),
        lambda: compiled(np.zeros((1, 3), np.float32)),
        lambda: compiled({"nothing": 0}),
        lambda: core.read_model(3),
        lambda: Tensor(3),
        lambda: openvino.nothing,
    )
    for attempt in attempts:
        try:
            attempt()
        except (OVError, RuntimeError, TypeError, AttributeError) as error:
            print(type(error).__name__, str(error).strip().splitlines()[-1][:40])


def main() -> None:
    """Read, reshape, compile and run a model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--rows", type=int, default=4)
    options = parser.parse_args()
    rows = np.random.default_rng(0).random((options.rows, 64), dtype=np.float32)

    core = ov.Core()
    core.set_property("CPU", {props.num_streams: 1})
    print(openvino is ov, sys.modules["openvino"] is ov, "CPU" in core.available_devices, ov.__version__.split("-")[0])
    print(device.priorities("CPU", "GPU")[0], log.Level.ERR, streams.Num.AUTO.to_integer(), Layout("NCHW"))
    print(PartialShape([1, Dimension(1, 8), -1]), Shape([1, 2]), pack_data(np.array([7, 8]), Type.u4).tolist())
    print(unpack_data(np.array([120], np.uint8), Type.u4, [2]).tolist(), tensor_from_file(__file__).element_type)
    model = core.read_model(options.model)
    describe(model)
    model.reshape({"pixels": PartialShape([options.rows, 64])})
    describe(model)
    infer(core.compile_model(model, "CPU", CONFIG), rows)
    queue(ov.compile_model(options.model, "CPU", CONFIG), rows)
    refuse(core, core.compile_model(options.model, device_name="CPU", config=CONFIG))
    sys.exit(options.rows)


if __name__ == "__main__":
    main()
