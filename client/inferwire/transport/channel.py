"""gRPC's channel to a server, and what it is told of how to behave. Knows no calls and no session."""

from __future__ import annotations

import sys
from typing import Any, cast

import grpc
from grpc.experimental.gevent import init_gevent

from inferwire.transport.address import Address
from inferwire.transport.credentials import Credentials
from inferwire.transport.timeouts import Timeouts

_OPTIONS = (
    # The server says in its welcome what it takes, which is checked with a better sentence than gRPC's.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    # However long an inference takes, gRPC goes on asking whether the server is there.
    ("grpc.http2.max_pings_without_data", 0),
    # A session on a socket leaves no call open. The channel stays with the process that has the session all the same,
    # where gRPC would connect anew, to another behind a balancer.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
)


def open_channel(address: Address, timeouts: Timeouts, credentials: Credentials) -> grpc.Channel:
    """Open a channel; it connects with its first call."""
    _let_greenlets_run()
    options = (*_OPTIONS, *timeouts.options)
    if address.is_local:
        # gRPC would take even this machine's own servers through the environment's proxy.
        options = (*options, ("grpc.enable_http_proxy", 0))
    if address.is_secure:
        trusting = grpc.ssl_channel_credentials(root_certificates=credentials.root_certificates)
        return grpc.secure_channel(address.target, trusting, options)
    return grpc.insecure_channel(address.target, options)


def _let_greenlets_run() -> None:
    """Have gRPC's waits let other greenlets run, where gevent has made threads greenlets; in each process anew.

    Without it gRPC waits for threads of its own that cannot run while it does.
    """
    monkey = cast("Any", sys.modules.get("gevent.monkey"))
    if monkey is not None and monkey.is_module_patched("threading"):
        init_gevent()
