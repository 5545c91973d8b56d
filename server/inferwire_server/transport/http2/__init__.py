"""HTTP/2 as a server of calls speaks it (RFC 9113): frames, headers, streams and their windows. Knows nothing of gRPC.

The gRPC port is served by it, and not by grpcio's server: a call of a tiny model takes less than half the CPU time.

Its core takes bytes and gives bytes, and does no I/O: `frame_reader` cuts `frames` out of bytes, `connection` says what
they mean, `outflow` writes, a `stream` is one call, and `streams` knows those of a connection. Headers are put together
in an `open_block` and read by `header_blocks`; `peer_settings` applies the peer's settings. `stalls` finds streams
whose peer does not go on, and `flood_limits` peers that only keep this side busy. `protocol` puts a connection on a
socket, and `server` the sockets on a port. Connections on which many calls or frames come at once take turns with all
others.

Left out on purpose, as the RFC allows:

- priorities are checked and not followed: streams send a frame each in turn;
- nothing is pushed, and a connection never begins as HTTP/1.1;
- headers go out without Huffman's code and without a dynamic table (RFC 7541), so that the same are the same bytes
  everywhere; those that come may have both, which the `hpack` library reads;
- trailers of a request end it, and are not read otherwise.
"""
