"""What OpenVINO does wrong in some graphs, and how each is changed, or refused, before it is compiled.

`screen` is the list of all steps. A step is a function that takes a graph as it was read, and says in its docstring
what OpenVINO would do and since when that is known; one that is found to be missing goes into the module of its
operations and into that list, with a test that runs the graph in `tests/openvino_backend/screening`. What depends on a
model's properties, too, is no step: `refuse_narrow_states`, which is asked as the model is compiled.

- `attention`, `first_values` and `states`: models that keep something between inferences, and attention over it.
- `loops`: branches and loops. `lists`: operations that have less to give than there is room for.
- `quantization` and `compressed_weights`: models whose numbers are made smaller, and their `quantized_layers`.
- `layers`, `gathers` and `conversions`: the operations of these names. `planes`: pictures in several planes, or one.

`unforeseen` is what several of them do to keep the compiler from leaving it out.
"""
