"""What describes tensors and inferences, and is no more than a value.

`types`, `shapes`, `dimensions`, `partial_shape` and `layout` describe tensors, `scheduling` an inference, `ov_any` with
`any_texts` a property, `plugin_version` a plugin. `enumerations` is how members of openvino's enumerations compare.
"""
