"""The stream of one session: gathers executions into messages, which a gRPC stream or a socket carries.

- `session_stream` is the stream, and a `stream_execution` one execution as it sees it. `gathering` decides what goes
  into a message, `outgoing` which thread sends it, and `incoming` which thread receives the answers.
- Messages are carried as `carriers` says: by gRPC, or by a `socket_carrier`, in frames on a `shared_socket`, plain or
  with a `tls_layer`. `socket_waits` is how threads wait for that.

What is to be sent waits in two places: executions in `gathering`, until a message of them is due, and bytes for which
the system had no room in `shared_socket`. The writing thread sends what is left in either. It sleeps in `outgoing`, and
is given an empty message when there are bytes alone.
"""
