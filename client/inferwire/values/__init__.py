"""Values that describe tensors, inferences, properties and plugins.

`types`, `shapes`, `dimensions`, `partial_shape` and `layout` describe tensors, `scheduling` an inference, `ov_any` with
`any_texts` a property, `plugin_version` a plugin. `enumerations` defines how members of mirrored enumerations compare.
"""
