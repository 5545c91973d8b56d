"""gRPC's channel to a server, and its options. Knows no calls and no session."""

from __future__ import annotations

import sys

import grpc
from grpc.experimental.gevent import init_gevent

from inferwire.transport.address import Address
from inferwire.transport.credentials import Credentials
from inferwire.transport.timeouts import Timeouts
from inferwire.transport.undisturbed import undisturbed

_OPTIONS = (
    # `wire_sender` checks the limit in the server's welcome instead, with a clearer error than gRPC's.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    # gRPC keeps asking whether the server is there, however long an inference takes.
    ("grpc.http2.max_pings_without_data", 0),
    # A session on a socket leaves no call open on the channel. Without these, gRPC would drop the idle connection and
    # connect anew, behind a load balancer perhaps to another process than the one that has the session.
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


def close_channel(channel: grpc.Channel) -> None:
    """Close a channel, with all calls that are in flight on it."""
    undisturbed(channel.close)


def _let_greenlets_run() -> None:
    """Let other greenlets run while gRPC waits, if gevent has made threads greenlets; needed once in each process.

    Without it, gRPC waits for threads of its own, which cannot run while it does.
    """
    # Another thread may be importing it just now, as Triton's client over HTTP does: no thread is a greenlet then.
    is_patched = getattr(sys.modules.get("gevent.monkey"), "is_module_patched", None)
    if is_patched is not None and is_patched("threading"):
        init_gevent()
