"""What runs the image says nothing that the server does not know, and its times fit together."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from socket import create_server
from typing import Any

import httpx
import pytest
from tests.deploy.manifests import DEPLOY, kubernetes, read
from tests.deploy.serve_settings import DEFAULTS, VARIABLES, settings_of

from inferwire_proto.host.flags import ENV_PREFIX

DOCKERFILE = (DEPLOY.parent / "Dockerfile").read_text()
IMAGE_VARIABLES = re.findall(rf"\b({ENV_PREFIX}\w+)=", DOCKERFILE)
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
UNIT_S = {"s": 1, "m": 60}


@pytest.fixture(params=[False, True], ids=["as it is", "with TLS and keys"])
def deployment(request: pytest.FixtureRequest) -> Any:
    return kubernetes("Deployment", optional=request.param)


@pytest.fixture
def pod(deployment: Any) -> Any:
    return deployment["spec"]["template"]["spec"]


@pytest.fixture
def container(pod: Any) -> Any:
    (only,) = pod["containers"]
    return only


@pytest.fixture
def compose() -> Any:
    (document,) = read("compose.yaml")
    return document["services"]["inferwire"]


def variables_of(container: Any) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container.get("env", [])}


def gibibytes(size: str) -> int:
    assert size.endswith("Gi")
    return int(size.removesuffix("Gi"))


def seconds(duration: str) -> int:
    return int(duration[:-1]) * UNIT_S[duration[-1]]


def test_every_flag_of_the_pod_is_one_of_the_server(container: Any) -> None:
    settings = settings_of(container["args"], {})
    assert settings.cache_dir is not None
    assert (settings.tls_certificate is None) == (settings.api_key_file is None)


def test_every_variable_is_one_that_the_server_reads(container: Any, compose: Any) -> None:
    named = {*IMAGE_VARIABLES, *variables_of(container), *compose["environment"]}
    assert {name for name in named if name.startswith(ENV_PREFIX)} <= VARIABLES


def test_what_flags_take_from_variables_is_there(container: Any) -> None:
    assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) == set(variables_of(container))


def test_every_stage_that_installs_takes_it_from_the_index_that_the_build_names() -> None:
    installing = [stage for stage in DOCKERFILE.split("\nFROM ") if " install " in stage]
    assert len(installing) == 2
    for stage in installing:
        assert {"PIP_INDEX_URL", "PIP_CONSTRAINT"} <= set(re.findall(r"^ARG (\w+)$", stage, re.MULTILINE))


def test_the_health_check_imports_nothing_from_where_others_may_write(compose: Any, tmp_path: Path) -> None:
    """It runs in /tmp, which a container may share with others."""
    (tmp_path / "http.py").write_text("raise SystemExit('code of others has run')")
    (written,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (.*)$", DOCKERFILE, re.MULTILINE)
    python, *arguments = json.loads(written)
    assert ["CMD", python, *arguments] == compose["healthcheck"]["test"]
    command = (sys.executable, *arguments)
    with create_server(("127.0.0.1", 0)) as closed:
        port = str(closed.getsockname()[1])
    asked = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"INFERWIRE_HTTP_PORT": port},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.stderr.startswith(f"the server at 127.0.0.1:{port} is not reached: ")


async def test_probes_are_answered_without_a_key(container: Any, http: httpx.AsyncClient) -> None:
    asked = {probe: container[probe]["httpGet"] for probe in PROBES}
    for probe, request in asked.items():
        assert (await http.get(request["path"])).status_code == 200, probe
        assert request["port"] in {port["name"] for port in container["ports"]}
    assert asked["livenessProbe"]["path"] != asked["readinessProbe"]["path"]


def test_probes_speak_tls_where_the_server_does(container: Any) -> None:
    speaks_tls = settings_of(container["args"], {}).tls_certificate is not None
    for probe in PROBES:
        assert container[probe]["httpGet"].get("scheme", "HTTP") == ("HTTPS" if speaks_tls else "HTTP"), probe


def test_a_pod_that_has_not_loaded_its_models_does_not_replace_one_that_has(container: Any) -> None:
    assert settings_of(container["args"], {}).strict_readiness


def test_a_pod_has_the_time_that_the_server_takes_to_end(pod: Any, container: Any) -> None:
    settings = settings_of(container["args"], {})
    probe = container["readinessProbe"]
    assert settings.drain_delay_s == 2 * probe["periodSeconds"] * probe["failureThreshold"]
    assert pod["terminationGracePeriodSeconds"] == settings.drain_delay_s + settings.grace_s + 10


def test_docker_waits_for_longer_than_the_server_takes_to_end(compose: Any) -> None:
    settings = settings_of([], compose["environment"])
    assert seconds(compose["stop_grace_period"]) == settings.drain_delay_s + settings.grace_s + 10
    assert re.findall(r"--stop-timeout (\d+)", DOCKERFILE) == [f"{DEFAULTS.drain_delay_s + DEFAULTS.grace_s + 10:.0f}"]


def test_temporary_files_in_memory_have_a_limit(compose: Any) -> None:
    """Else the kernel's is half of the host's memory, whatever the container has."""
    (mount,) = re.findall(r"--tmpfs (\S+)", DOCKERFILE)
    assert re.fullmatch(r"/tmp:size=\d+[mg]", mount)
    assert compose["tmpfs"] == [mount]


def test_what_a_pod_writes_to_a_node_has_a_limit(pod: Any, container: Any) -> None:
    written = [volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if "emptyDir" in volume]
    assert len(written) == 2
    for bound in ("requests", "limits"):
        assert gibibytes(container["resources"][bound]["ephemeral-storage"]) > sum(map(gibibytes, written)), bound


def test_pods_are_spread_over_nodes(deployment: Any, pod: Any) -> None:
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["labelSelector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    # Else two new pods come to one node, where they are even with the old ones that then go.
    assert spread["matchLabelKeys"] == ["pod-template-hash"]


def test_every_mounted_file_is_on_a_volume(pod: Any, container: Any) -> None:
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}
    settings = settings_of(container["args"], {})
    for file in (settings.cache_dir, settings.tls_certificate, settings.tls_key, settings.api_key_file):
        assert file is None or any(file.is_relative_to(folder) for folder in mounted.values()), file
    assert {"/models", "/tmp"} <= set(mounted.values())  # what the image itself says


def test_ports_are_those_that_the_server_listens_at(container: Any) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": DEFAULTS.http_port, "grpc": DEFAULTS.grpc_port}
    service = kubernetes("Service")["spec"]
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports


def test_the_service_and_the_budget_are_of_the_deployments_pods(deployment: Any) -> None:
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert kubernetes("Service")["spec"]["selector"] == labels
    assert kubernetes("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels


def test_a_pod_that_is_not_ready_keeps_no_node_from_being_drained() -> None:
    assert kubernetes("PodDisruptionBudget")["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_the_pod_has_whole_cpus_of_its_own(container: Any) -> None:
    resources = container["resources"]
    assert resources["requests"] == resources["limits"]
    assert isinstance(resources["limits"]["cpu"], int), json.dumps(resources)
