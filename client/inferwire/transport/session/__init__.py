"""The stream of one session: gathers executions into messages, which a gRPC stream or a socket carries."""
