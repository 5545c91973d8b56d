"""The network: everything between the objects a user holds and a server's sockets.

The client reaches this package through `protocol.Transport` alone; protobuf and gRPC objects
never leave it.
"""
