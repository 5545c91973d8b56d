"""Models as programs hold them: files that were read, models compiled from them, graphs that a device runs.

- `model` is one that was read: `readable_model` is what can be read of it, `graph_nodes` its nodes, `rt_info` what its
  file says beside the graph; `model_batch` and `added_outputs` change it.
- `compiled_model` is one that can run, `compiled_blobs` are its bytes, and `runtime_model` is its graph.
- Where models come from: `model_files`, `onnx_files` with others beside them, and `local_models` of an openvino that is
  installed.
"""
