"""The network: everything between the objects a user holds and a server's sockets.

The objects that users hold know of it what is in `protocol`, and the values in `executions`, `descriptions` and
`lent_memory`; `Core` and the commands alone make a transport. Protobuf and gRPC objects never leave it.
"""
