"""Measure models with openvino's benchmark_app in some of its ways, and print its output without times and memory.

Called as `benchmark.py MODELS`. Lines are sorted: openvino lists a model's properties in another order.
"""

import csv
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

APP = "from openvino.tools.benchmark.main import main; main()"
DIGITS, PICTURES = "digits_mlp/1/digits_mlp.xml", "efficientnet_lite0/1/efficientnet_lite0.xml"
COUNTS = ("-nireq", "2", "-niter", "8")
WAYS = (
    (DIGITS, "-hint", "latency", "-shape", "[1,64]", "-api", "sync", "-niter", "8"),
    (DIGITS, "-hint", "none", "-nstreams", "1", "-data_shape", "[1,64][3,64]", *COUNTS),
    (PICTURES, "-b", "1", "-ip", "u8", "-op", "f16", "-layout", "[NCHW]", *COUNTS),
    (PICTURES, "-shape", "[1,3,224,224]", "--mean_values", "[127,127,127]", "-inference_only", "False", *COUNTS),
)
OF_THE_MOMENT = re.compile(r"\d (ms|us|KB|FPS)$|^\[ INFO \] Build")


def run(*arguments):
    done = subprocess.run([sys.executable, "-c", APP, *arguments], capture_output=True, text=True, check=True)
    return sorted(line for line in done.stdout.splitlines() if not OF_THE_MOMENT.search(line))


def main():
    models = Path(sys.argv[1])
    for model, *flags in WAYS:
        print(*run("-m", models / model, *flags), sep="\n")
    with TemporaryDirectory() as folder:
        report = ("-report_type", "average_counters", "-report_folder", folder)
        run("-m", models / DIGITS, "-shape", "[1,64]", *report, *COUNTS)
        rows = csv.reader((Path(folder) / "benchmark_average_counters_report.csv").open(), delimiter=";")
        print(*(row[:4] for row in rows), sep="\n")


if __name__ == "__main__":
    main()
