"""Sockets: every call is decoded, handed to one method of a service, and its answer encoded.

- `http2` is the gRPC port, and `rpc` the calls on it; `http` is the HTTP port, and `rest` the calls on that.
- `session` is what SDK clients say, in a call of gRPC's or on a socket of their own.
- `oip` is what both interfaces of the Open Inference Protocol share, `v1` what sessions and calls of inferwire.v1 do.
- `relay` is what the workers of one server ask of each other.

Beside them is what several need:

- Connections: how they begin (`listening`, `unix_socket`, `accepting`, and `tls` with `certificate`), how long they
  sleep while they receive (`low_water`), take turns (`turns`), go on with another protocol (`protocol_switch`), become
  old (`connection_age`), and end (`open_connections`, `draining`).
- Peers that are waited for: one that is silent is pinged (`keepalive`), and one that does not go on with what it has
  begun is given up (`stall_timer`), but not for time in which this process stood still (`standstill`).
- Calls: whose they are (`peers`, `request_ids`, `trace_context`), what they carry (`raw_inputs`, `compression`),
  how much they may have (`message_limits`), and what the caller of a failed call is told (`error_translation`).
"""
