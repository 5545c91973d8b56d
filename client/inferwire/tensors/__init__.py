"""Tensors and the memory behind them, here or on the server.

- `tensor` is what programs hold, made from what `tensor_sources` takes; `tensor_vector` holds several.
- `memory` is what is behind it: `dense_memory` here, or `remote_memory` on the server. `lendable_memory` is of the kind
  that a server on this host reads in place; `element_arrays` are its elements as arrays.
- `remote_context` makes a `remote_tensor`; `kept_tensors` are the tensors that the server keeps, by their ids.
"""
