"""The rules, and the values that every layer knows. Time is an argument; sockets and threads are elsewhere.

- A model: what it takes and gives (`specs`, and `stated_ports` where a configuration says so), what it is loaded with
  (`model_options`, `batch_options`, `warm_up`), its `labels` and `layers`, its `versions` and what each is doing
  (`version_states`), the names of its files (`model_layout`), and how much may be asked for (`limits`).
- Tensors (`tensors`, `tensor_checks`) and parts of them (`boxes`), a model's `states`, outputs as `classes`, and
  memory that clients lend (`loans`).
- Callers (`callers`), their `api_keys`, `sessions` and named jobs (`ledger`); `lifetimes` is how either is forgotten,
  `taken` how much is taken of what they may.
- `scheduling` decides which job runs next.
"""
