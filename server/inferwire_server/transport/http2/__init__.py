"""HTTP/2 as a server of calls speaks it (RFC 9113): frames, headers, streams and their windows. Knows nothing of gRPC.

Its core takes bytes and gives bytes, and does no I/O: `connection` reads, `outflow` writes, a `stream` is one call.
`protocol` puts a connection on a socket, and `server` the sockets on a port.
"""
