"""The gRPC interface: inferwire.v1 and the Open Inference Protocol on one port.

- `grpc_server` opens the port; `offered_services` lists what answers there, which `reflection` tells. `methods` makes
  what answers the services' calls, from their descriptors, and the `dispatcher` finds it for each call that comes. The
  `guard` is what is done around all of them.
- A `call` on its stream: its headers (`call_head`), its `messages`, those that have come (`inbox`), its turn if it
  fetches what is kept (`fetching`), and what stands in for a call of which nothing is read (`unread`). What answers it
  sees a `context`; `caller` is the session and key that it names, `requests` reads messages without tensors, `duplex`
  reads and writes at once, and `status` is how errors are said.
- The services: `oip_calls` with `oip_stream`; `inference_calls`, `session_call`, `model_calls`, `state_calls`,
  `tensor_calls` and `device_calls` of inferwire.v1; `health_calls`.
- Their messages: `oip_codec`, `oip_plans`, `oip_contents`, `oip_descriptions` and `oip_settings`; `v1_descriptions`,
  and for inferences `transport.v1`.
"""
