"""The HTTP port: HTTP/1.1 as uvicorn speaks it, for ASGI applications. Knows nothing of what is asked.

- `server` opens and closes the port, and looks for silent peers now and again; `protocol` is one connection, which
  `connection` describes to its requests: whether it is read, and who is told that the peer has gone.
- `request_parser` cuts requests out of bytes, on the `httptools` library; what it does not take is answered from
  `refusals`. `long_body` receives a tensor where it stays.
- `cycle` is one request and its answer, which `joined_writes` hands to the system.
- What applications may do beyond ASGI is in `exchange`; `bodies`, `request_headers`, `responses` and `caller_watch` are
  made of that. `traced` makes work part of callers' traces, and `request_timeouts` is how long peers are waited for.
"""
