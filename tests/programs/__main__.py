"""Runs each program twice, with openvino and with a server, and compares what they print; then the example.

Makes an environment of its own with the packages that they need, once; about 400 MB.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

from inferwire_cli.server_process import running_server

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build/programs"
PACKAGES = ("rapidocr==3.10.0", "openvino==2026.4.1", "opencv-python-headless<5", "scikit-image>=0.26")
PROGRAMS = ("ocr.py",)
EXAMPLE = ROOT / "client/examples/read_text"


def python() -> Path:
    """Give the Python that has the packages, and make it first where it is not there."""
    interpreter = ENVIRONMENT / "bin/python"
    if not (ENVIRONMENT / "complete").exists():
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        install = [interpreter, "-m", "pip", "install", "--quiet", *PACKAGES, "--editable", ROOT]
        subprocess.run(install, check=True)
        (ENVIRONMENT / "complete").touch()
    return interpreter


def run(*command: Path | str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def main() -> int:
    interpreter, different = python(), 0
    with TemporaryDirectory() as repository, running_server(Path(repository), "--allow-uploads") as server:
        for name in PROGRAMS:
            program = Path(__file__).with_name(name)
            local = run(interpreter, program)
            remote = run(interpreter, "-m", "inferwire", "--address", server.grpc_address, program)
            different += local != remote
            print(f"{name}: {'different' if local != remote else 'the same'}, {len(local.splitlines())} lines")
            if local != remote:
                print(local, remote, sep="\n--- with a server ---\n")
        picture = ("--output", ENVIRONMENT.parent / "read_text.png")
        example = subprocess.run([interpreter, EXAMPLE, "--address", server.grpc_address, *picture], check=False)
    return 1 if different or example.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
