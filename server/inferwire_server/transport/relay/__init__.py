"""Calls that one worker of several cannot answer alone, and how the workers of a server ask each other.

What a crew, a lead and a follower are is said in `inferwire_server.crew`.

- `audiences` says which calls those are, and `routing` who answers; `sums` adds up the answers of all workers.
- `front` puts this around the calls of both ports, which are relayed in `rpc_calls` and in `http_calls`, there as
  `http_messages`. `other_workers` are the channels to the others.
- `session_calls` has gRPC calls that use what a session owns answered where the session is.
- `connections` hands over whole connections, to the worker that has their session.
"""
