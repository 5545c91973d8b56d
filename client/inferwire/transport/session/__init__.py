"""The stream of one session: executions gathered into messages, and the gRPC stream or socket that carries those."""
