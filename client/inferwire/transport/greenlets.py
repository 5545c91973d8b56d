"""gRPC in programs whose threads gevent has made greenlets, as gunicorn's and Locust's workers do."""

from __future__ import annotations

import sys
from typing import Any, cast

from grpc.experimental.gevent import init_gevent


def let_greenlets_run() -> None:
    """Have gRPC's waits let other greenlets run, where threads are greenlets; in each process anew.

    Without it gRPC waits for threads of its own that cannot run while it does.
    """
    monkey = cast("Any", sys.modules.get("gevent.monkey"))
    if monkey is not None and monkey.is_module_patched("threading"):
        init_gevent()
