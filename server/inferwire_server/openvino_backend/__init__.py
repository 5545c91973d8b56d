"""OpenVINO as the engine's backend: all of the server that imports openvino.

- `backend` is the runtime and its compiled models. `sources` reads a model's files and does to it what its source
  says, with `preprocessing` and `added_outputs`; `screening` mends or keeps out what would end the process or mix up
  callers, and `edges` steps through graphs. `compile_cache` keeps what is compiled, and `device_check` says whether it
  was the device that failed, or which property.
- `slots` run inferences, `bound_slots` those on a caller's states. `brief` is the model once more, for those that run
  on the event loop in `brief_slots`. `empty_inputs` are those that a model cannot take, `text_inputs` those that have
  to be UTF-8, and `attention_states` the states that go together.
- `graphs` has another graph made where an inference has failed in one, and `failures` what failed lately.
- `tensors`, `specs`, `layers`, `properties` and `errors` are between OpenVINO's values and the server's. `tokenizers`
  finds the library of the extra.
"""
