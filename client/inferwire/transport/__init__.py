"""The network: everything between the objects a user holds and a server's sockets.

The objects that users hold know only `protocol` of it, and the values in `executions`, `descriptions`,
`lent_memory` and `timeouts`. Only `Core` and the commands make a transport. Protobuf and gRPC objects never leave it.

| about | modules |
|---|---|
| the seam | `protocol`, and the values |
| what implements it | `grpc_transport` with `grpc_tensors` and `grpc_states`; `fake_transport` |
| the connection | `connection`, which has a `link` over a `channel`; `address`, `credentials`, `timeouts` |
| an execution's way | `submission`, `wire_sender`, then `session` or `large_execution`; `lending` of its inputs |
| what the server has for this client | `compiled_models`, `uploads`, `releases` |
| calls beside the stream | `caller` makes them with `rpc`; why they fail: `unreachable`, `proxies` |
| what messages say | `codec`, of executions; `model_codec`, of models |
| gRPC in programs whose signal handlers may raise | `undisturbed` |
| what the commands ask besides | `operator_calls`, `served_models` |
"""
