"""Prometheus against a server: its own verdict on the files of `deploy/`, and on the metrics that it scrapes.

It needs Debian's package prometheus, which has promtool too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from math import isfinite, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import httpx
import yaml
from tests.programs.environments import ROOT

from inferwire_cli.server_process import HOST, ServerProcess, free_ports

FILES = ROOT / "deploy/prometheus"
DASHBOARD = ROOT / "deploy/grafana-dashboard.json"
CHECKS = (
    ("check", "config", FILES / "prometheus.yaml"),
    ("check", "rules", FILES / "rules.yaml"),
    ("test", "rules", FILES / "rules_test.yaml"),
)
VARIABLES = {"$instance": ".*", "$model": ".*", "$__rate_interval": "10s"}
START_LIMIT_S = 30.0
LOAD_S = 10.0


def measure(server: ServerProcess) -> tuple[bool, str]:
    """Check the files and a scrape; then have a Prometheus scrape the server under load, and ask it for every panel."""
    if shutil.which("prometheus") is None:
        return False, "is not there: apt-get install --no-install-recommends prometheus"
    metrics = httpx.get(f"http://{server.http_address}/metrics").text
    promtool = [_run("promtool", *check) for check in CHECKS] + [_run("promtool", "check", "metrics", given=metrics)]
    wrong = [f"{' '.join(map(str, done.args))}: {done.stdout}{done.stderr}" for done in promtool if done.returncode]
    with TemporaryDirectory() as folder, _prometheus(server, Path(folder)) as prometheus:
        _load(server)
        wrong += _wrong_rules(prometheus) + _empty_panels(prometheus)
        warnings = [line for line in Path(folder, "log").read_text().splitlines() if "level=info" not in line]
    return not wrong + warnings, "\n".join(wrong + warnings) or "configuration, alerts and their tests, scrapes, panels"


def _run(*command: Path | str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


@contextmanager
def _prometheus(server: ServerProcess, folder: Path) -> Generator[httpx.Client]:
    """Scrape the server as `deploy/` configures it, but every second; give a client of Prometheus."""
    configuration = yaml.safe_load((FILES / "prometheus.yaml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(FILES / "rules.yaml")]
    configuration["scrape_configs"][0]["static_configs"] = [{"targets": [server.http_address]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    (port,) = free_ports(1)
    flags = (
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={HOST}:{port}",
    )
    with (folder / "log").open("wb") as log, subprocess.Popen(("prometheus", *flags), stderr=log) as process:
        try:
            with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=20) as client:
                _wait_for_a_scrape(client)
                yield client
        finally:
            process.terminate()


def _wait_for_a_scrape(prometheus: httpx.Client) -> None:
    end = monotonic() + START_LIMIT_S
    while monotonic() < end:
        with suppress(httpx.ConnectError, httpx.HTTPStatusError):
            if _values(prometheus, 'up{job="inferwire"} == 1'):
                return
        sleep(0.2)
    raise TimeoutError(f"Prometheus has scraped nothing after {START_LIMIT_S:.0f} seconds")


def _load(server: ServerProcess) -> None:
    """Have something of each kind that panels show: inferences, a sequence, a named job, a call with a mistake."""
    pixels = {"name": "pixels", "datatype": "FP32", "shape": [1, 64], "data": [0.0] * 64}
    with httpx.Client(base_url=f"http://{server.http_address}", timeout=20) as client:
        model = client.get("/v2/models/silero_vad_stateful").raise_for_status().json()
        shapes = [[1 if length < 0 else length for length in port["shape"]] for port in model["inputs"]]
        inputs = [
            {**port, "shape": shape, "data": [0] * prod(shape)}
            for port, shape in zip(model["inputs"], shapes, strict=True)
        ]
        begun = {"inputs": inputs, "parameters": {"sequence_id": 1, "sequence_start": True}}
        client.post("/v2/models/silero_vad_stateful/infer", json=begun).raise_for_status()
        end = monotonic() + LOAD_S
        while monotonic() < end:
            client.post("/v2/models/digits_mlp/infer", json={"inputs": [pixels]}).raise_for_status()
            client.post("/inferwire/v1/models/digits_mlp/jobs", json={"inputs": [pixels]}).raise_for_status()
            client.post("/v2/models/digits_mlp/infer", json={"inputs": []})
            sleep(0.05)


def _wrong_rules(prometheus: httpx.Client) -> list[str]:
    groups = prometheus.get("/api/v1/rules").raise_for_status().json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    return [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]


def _empty_panels(prometheus: httpx.Client) -> list[str]:
    """Name the panels for which Prometheus has no number."""
    empty: list[str] = []
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            expression: str = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            if not any(map(isfinite, _values(prometheus, expression))):
                empty.append(f"{panel['title']}: nothing for {expression}")
    return empty


def _values(prometheus: httpx.Client, expression: str) -> list[float]:
    answer: Any = prometheus.get("/api/v1/query", params={"query": expression}).raise_for_status().json()
    return [float(series["value"][1]) for series in answer["data"]["result"]]
