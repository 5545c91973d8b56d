"""Triton's load generator against a server: a few hundred requests each way it has, and the server's own counts.

Its last package that brings the program is tritonclient 2.51.0; it needs a library of CUDA's, which PyPI has, and
Debian's libb64-0d.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.programs.environments import Environment

from inferwire_cli.server_process import ServerProcess

ENVIRONMENT = Environment("perf_analyzer", ("tritonclient==2.51.0", "nvidia-cuda-runtime-cu12<13"))
REQUESTS = 300
NOT_FOUND = 127
"""The exit code of a program whose libraries are missing."""

_DIGITS = ("-m", "digits_mlp", "--shape", "pixels:1,64")
_SEQUENCES = ("-m", "silero_vad_stateful", "--sequence-length", "5")
WAYS = {
    "gRPC": (*_DIGITS, "-i", "grpc"),
    "stream": (*_DIGITS, "-i", "grpc", "--streaming", "--async"),
    "HTTP": (*_DIGITS, "-i", "http"),
    "JSON": (*_DIGITS, "-i", "http", "--input-tensor-format", "json", "--output-tensor-format", "json"),
    "shared memory, gRPC": (*_DIGITS, "-i", "grpc", "--shared-memory", "system"),
    "shared memory, HTTP": (*_DIGITS, "-i", "http", "--shared-memory", "system"),
    "sequences, gRPC": (*_SEQUENCES, "-i", "grpc"),
    "sequences, HTTP": (*_SEQUENCES, "-i", "http"),
}


def measure(server: ServerProcess) -> tuple[bool, str]:
    """Run it each way; say whether all was answered and counted, and which ways these were."""
    python = ENVIRONMENT.python()
    (libraries,) = (python.parent.parent / "lib").glob("python*/site-packages/nvidia/cuda_runtime/lib")
    for way, arguments in WAYS.items():
        address = server.grpc_address if "grpc" in arguments else server.http_address
        load = ("-u", address, "--request-count", str(REQUESTS), "--concurrency-range", "4")
        done = _run(python.with_name("perf_analyzer"), (*arguments, *load), libraries)
        if done.returncode == NOT_FOUND:
            return False, "does not start: apt-get install libb64-0d"
        sent = re.search(r"^ *Request count: ([0-9]+)", done.stdout, re.MULTILINE)
        # Requests that end in the first and the last moment may be missing in the server's counts that it reads.
        counted = re.search(r"Successful request count: [1-9]", done.stdout)
        if done.returncode or sent is None or counted is None or int(sent[1]) != REQUESTS:
            return False, f"{way}: {done.stdout}{done.stderr}"
    return True, ", ".join(WAYS)


def _run(program: Path, arguments: tuple[str, ...], libraries: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
    return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
