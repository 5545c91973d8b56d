"""A client that floods the server until it is killed: `python -m tests.soak.doomed ADDRESS`."""

from __future__ import annotations

import contextlib
import sys

import numpy as np

import inferwire

if __name__ == "__main__":
    jobs = inferwire.AsyncInferQueue(inferwire.Core(sys.argv[1]).served_model("digits"), 32)
    row = np.zeros((1, 64), np.float32)
    while True:
        with contextlib.suppress(inferwire.QueueFull):
            jobs.start_async(row)
