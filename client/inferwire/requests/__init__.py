"""The inferences of one request: what it takes along, its way to the server and back, and what it gives.

- `infer_request` is what programs hold. `inputs` brings what they pass into the request's tensors (`request_tensors`,
  with `batches` and `port_fit`), which `tensor_access` shows and sets, with `several_tensors`; `request_results` gives
  outputs back as an `ov_dict`.
- `request_runs` runs its executions, one after another: a `run` is one of them, `freight` what it takes along,
  `request_state` whether the request is busy, `remote_model` what all requests of a model share. `callbacks` has the
  threads of callbacks, `awaiting` what asyncio waits for.
- `kept_states`, as programs see them in a `variable_state` and with what they read together (`state_reads`), and
  `profiling` are beside that.

The objects that one inference is made of:

| object | made by | owned by | ends |
|---|---|---|---|
| `Run` | the call that starts it | its request | when every wait for it has been woken |
| job | a queue: a `Run` whose `holder` is the queue | `JobPool` | when it gives its request back |
| `Freight` | `RequestTensors` | the request, and each `Run` that takes it | with the last of them |
| `ExecutionHeader` | `RemoteModel`, once for equal shapes | the model, for all requests | when others take its place |
| `Execution` | `Transport.submit`: what cancels the `Run` there | the `Run` | with the outcome |
| `Submission` | `GrpcTransport`, as its `Execution` | the transport | with the outcome, however often it is sent |
| `StreamExecution` | the same object, as a stream knows it | the stream | with the answer to its latest sending |
| `LargeExecution` | `WireSender`, if inputs are too large for the stream | its `Submission` | with its unary call |
"""
