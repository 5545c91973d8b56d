"""Triton with a model of its Python backend; the server is the one that PyTriton's package brings."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp

from pytriton.utils.distribution import get_libs_path, get_root_module_path, get_stub_path
from served import HOST, PROCESSES, Served, served

MOST_ROWS = 64
TYPES = {"float32": "TYPE_FP32", "uint8": "TYPE_UINT8"}


def lay_out(what: Served, folder: Path) -> Path:
    """Write the model's configuration, and give the repository."""
    version = folder / "models" / what.name / "1"
    version.mkdir(parents=True)
    for module in (Path(__file__).with_name("model.py"), Path(sys.modules["served"].__file__ or "")):
        shutil.copy(module, version)
    (version.parent / "config.pbtxt").write_text(
        f'backend: "python"\nmax_batch_size: {MOST_ROWS}\ndynamic_batching {{}}\n'
        f'input [{{ name: "{what.input}" data_type: {TYPES[what.dtype]} dims: {what.shape} }}]\n'
        f'output [{{ name: "{what.output}" data_type: TYPE_FP32 dims: {[what.classes]} }}]\n'
        f"instance_group [{{ count: {PROCESSES} kind: KIND_CPU }}]\n"
    )
    return version.parents[1]


def main() -> None:
    """Lay the model and the backend out, and become the server."""
    what, folder = served(), Path(mkdtemp(dir=os.environ["TMPDIR"]))
    shipped = get_root_module_path() / "tritonserver"
    backend = folder / "backends/python"
    shutil.copytree(shipped / "backends/python", backend)
    shutil.copy(get_stub_path(f"{sys.version_info[0]}.{sys.version_info[1]}"), backend)
    os.environ["LD_LIBRARY_PATH"] = f"{get_libs_path()}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    os.environ["PATH"] = f"{Path(sys.exec_prefix) / 'bin'}:{os.environ['PATH']}"
    flags = {
        "model-repository": lay_out(what, folder),
        "backend-directory": backend.parent,
        "http-address": HOST,
        "http-port": what.http_port,
        "grpc-address": HOST,
        "grpc-port": what.grpc_port,
        "allow-metrics": "false",
        "log-info": "false",
    }
    server = shipped / "bin/tritonserver"
    os.execv(server, [str(server), *(f"--{name}={value}" for name, value in flags.items())])


if __name__ == "__main__":
    main()
