"""The pages beside the README: their programs run, and every target of a link exists, headings included."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, which
from urllib.request import urlopen

import pytest

import inferwire
from inferwire.transport.timeouts import Timeouts
from inferwire_cli.server_process import ServerProcess, running_server
from inferwire_server.openvino_backend.backend import SPARE_SLOTS
from inferwire_server.repository.setting_readers import READERS
from inferwire_server.service.shared_memory import MOST_REGIONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "deploy/models/README.md")] + [
    *sorted((ROOT / "docs").glob("*.md"))
]
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/python-client.md").read_text(), re.MULTILINE | re.DOTALL)
PORTED = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/from-openvino.md").read_text(), re.MULTILINE | re.DOTALL)
OTHER_CLIENTS = (ROOT / "docs/other-clients.md").read_text()
SCRIPTS = re.findall(r"^```javascript\n(.*?)^```$", OTHER_CLIENTS, re.MULTILINE | re.DOTALL)
SAID = ("probabilities [", "[ 2, 10 ] Float32Array(20) [", "espresso")
SETTINGS = re.findall(
    r"^```toml\n(.*?)^```$", (ROOT / "docs/model-repository.md").read_text(), re.MULTILINE | re.DOTALL
)
QUEUE, SENT = (f"SDK AsyncInferQueue{how} / in process: AsyncInferQueue" for how in ("", ", inputs sent"))
CALLS = "digits_mlp, OIP gRPC, 16 in flight: inferwire"
REST = "digits_mlp_batched, REST binary, 64 in flight: inferwire"
BYTES = "digits_mlp, bytes over HTTP, 16 in flight: inferwire"
BATCHED_BYTES = "digits_mlp_batched, bytes over HTTP, 64 in flight: inferwire"
FIGURES = (
    ("ResNet-50, 4 jobs, inputs sent", f"resnet50, 4 in flight: {SENT}"),
    ("the same, inputs lent", f"resnet50, 4 in flight: {QUEUE}"),
    ("EfficientNet-Lite0, 4 jobs, inputs sent", f"efficientnet_lite0, 4 in flight: {SENT}"),
    ("the same, inputs lent", f"efficientnet_lite0, 4 in flight: {QUEUE}"),
    ("a tiny network, 64 jobs", f"digits_mlp, 64 in flight: {QUEUE}"),
    ("the same where its rows may be batched", f"digits_mlp_batched, 64 in flight: {QUEUE}"),
    ("gRPC, 16 calls in flight / MLServer", f"{CALLS} / MLServer"),
    ("the same / KServe", f"{CALLS} / KServe"),
    ("the same / PyTriton", f"{CALLS} / PyTriton"),
    ("the same / Triton's Python backend", f"{CALLS} / Triton (Python backend)"),
    ("the same with `--workers 2` / Triton's Python backend", f"{CALLS} with 2 workers / Triton (Python backend)"),
    ("REST, rows batched, 64 calls in flight / Triton's Python backend", f"{REST} / Triton (Python backend)"),
    ("the same with `--workers 2` / Triton's Python backend", f"{REST} with 2 workers / Triton (Python backend)"),
    ("HTTP, 16 calls in flight / mosec", f"{BYTES} / mosec"),
    ("the same with `--workers 2` / mosec", f"{BYTES} with 2 workers / mosec"),
    ("HTTP, rows batched, 64 calls in flight / mosec", f"{BATCHED_BYTES} / mosec"),
    ("the same with `--workers 2` / mosec", f"{BATCHED_BYTES} with 2 workers / mosec"),
)
"""How the README words what is on the page of benchmarks, goals and comparisons with peers; in the README's order."""
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server(ROOT / "deploy/models") as running:
        yield running


@pytest.fixture(scope="module")
def scripts_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serve the example models, the one of pictures with the settings that the scripts' page shows."""
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", OTHER_CLIENTS, re.MULTILINE | re.DOTALL)
    repository = copytree(ROOT / "deploy/models", tmp_path_factory.mktemp("scripts") / "models")
    (repository / "efficientnet_lite0/inferwire.toml").write_text(settings)
    with running_server(repository) as running:
        yield running


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_runs(program: str, server: ServerProcess) -> None:
    address = program.replace("127.0.0.1:8001", server.grpc_address)
    done = subprocess.run([sys.executable, "-c", address], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert "given up" not in done.stdout


def test_a_program_says_the_same_with_openvino_after_it_is_ported_and_unchanged(tmp_path: Path) -> None:
    before, after = PORTED
    assert len(set(before.splitlines()) - set(after.splitlines())) == 2
    (tmp_path / "program.py").write_text(before)
    with running_server(None, "--allow-uploads") as server:
        (tmp_path / "ported.py").write_text(after.replace("127.0.0.1:8001", server.grpc_address))
        by_openvino, ported, unchanged = (
            subprocess.run(
                [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
            )
            for command in (
                (tmp_path / "program.py",),
                (tmp_path / "ported.py",),
                ("-m", "inferwire", "--address", server.grpc_address, tmp_path / "program.py"),
            )
        )
    assert (by_openvino.returncode, by_openvino.stderr) == (0, "")
    assert len(by_openvino.stdout.split()) == 17
    for done in (ported, unchanged):
        assert (done.returncode, done.stdout, done.stderr) == (0, by_openvino.stdout, "")


@pytest.mark.skipif(not which("node"), reason="it needs Node.js")
@pytest.mark.parametrize(("script", "said"), list(zip(SCRIPTS, SAID, strict=True)), ids=("JSON", "bytes", "pictures"))
def test_a_script_runs(script: str, said: str, scripts_server: ServerProcess, tmp_path: Path) -> None:
    address = f"{scripts_server.host}:{scripts_server.http_port}"
    (tmp_path / "script.mjs").write_text(script.replace("localhost:8000", address))
    command = ["node", tmp_path / "script.mjs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


def test_stubs_of_the_protocol_are_generated(tmp_path: Path) -> None:
    (command,) = re.findall(r"^\$ python (-m grpc_tools.+)$", OTHER_CLIENTS, re.MULTILINE)
    folder = ROOT / "proto/open_inference"
    arguments = command.replace("proto/open_inference", str(folder)).split()
    subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "grpc_service_pb2_grpc.py").exists()
    # Go's are told of every file there is.
    assert set(re.findall(r"M(\w+\.proto)=", OTHER_CLIENTS)) == {file.name for file in folder.glob("*.proto")}


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_a_model_with_the_settings_that_are_shown_loads(settings: str, tmp_path: Path) -> None:
    takes_pictures = "[preprocessing" in settings
    copytree(ROOT / "deploy/models" / ("efficientnet_lite0" if takes_pictures else "digits_mlp"), tmp_path / "m")
    for file in (tmp_path / "m/1").iterdir():
        file.rename(file.with_stem("model"))
    (tmp_path / "m/inferwire.toml").write_text(settings)
    with (
        running_server(tmp_path) as running,
        urlopen(f"http://{running.host}:{running.http_port}/inferwire/v1/models") as answer,
    ):
        assert json.load(answer)["models"] == [{"name": "m", "version": "1", "state": "ready"}]


def test_every_setting_of_a_model_is_shown() -> None:
    shown = set(re.findall(r"^\[?(\w+)", "".join(SETTINGS), re.MULTILINE))
    assert set(READERS) - shown == set(), "docs/model-repository.md has an example of each setting"


def anchor_of(heading: str) -> str:
    """Give the name that a heading has in links, as renderers of Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


def targets(page: Path) -> set[Path]:
    """Give the files that a page links to."""
    return {page.parent / path for path, _ in LINK.findall(page.read_text()) if path}


def anchors(page: Path) -> set[str]:
    """Give the names that a page's headings have in links."""
    return {anchor_of(heading) for heading in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for path, heading in LINK.findall(page.read_text()):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading:
            assert heading in anchors(target), f"{path}#{heading}"


def test_the_page_for_operators_lists_the_sections_of_the_others_in_their_order() -> None:
    text = (ROOT / "docs/operating.md").read_text()
    listed = dict(re.findall(r"^\| \[[^]]+\]\((\w+\.md)\) \| (\[.+) \|$", text, re.MULTILINE))
    assert listed
    for page, links in listed.items():
        sections = re.findall(r"^## (.+)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        assert re.findall(r"\]\(([^)]+)\)", links) == [f"{page}#{anchor_of(section)}" for section in sections]


def test_every_page_is_linked_to_from_where_readers_begin() -> None:
    linked = {path.name for page in (ROOT / "README.md", ROOT / "docs/operating.md") for path in targets(page)}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - linked == set()


def test_every_page_knows_how_many_slots_a_model_has() -> None:
    settings = ROOT / "server/inferwire_server/settings.py"
    found = {
        str(page.relative_to(ROOT)): re.findall(
            r"(\w+)(?: slots?)? more\s+than\s+OpenVINO\s+finds\s+optimal", page.read_text()
        )
        for page in (*PAGES, settings)
    }
    number = ("none", "one", "two", "three")[SPARE_SLOTS]
    told = {name: words for name, words in found.items() if words}
    assert told == {
        name: [number]
        for name in (
            "README.md",
            "CHANGELOG.md",
            "docs/from-openvino-model-server.md",
            "docs/model-repository.md",
            "server/inferwire_server/settings.py",
        )
    }


def test_the_page_on_the_client_says_what_each_error_means() -> None:
    offered = {
        name
        for name in inferwire.__all__
        if isinstance(kind := getattr(inferwire, name), type) and issubclass(kind, inferwire.InferwireError)
    }
    (table,) = re.findall(
        r"^\| exception \|.*?\n\n", (ROOT / "docs/python-client.md").read_text(), re.MULTILINE | re.DOTALL
    )
    told = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\| ", table, re.MULTILINE)))
    assert sorted(told) == sorted(offered - {"InferwireError"})


def test_the_page_says_how_many_regions_of_shared_memory_there_may_be() -> None:
    page = (ROOT / "docs/performance.md").read_text()
    assert f"At most {MOST_REGIONS} regions can be registered at once" in page


def test_the_pages_say_how_long_a_client_waits() -> None:
    client, restarts = ((ROOT / "docs" / name).read_text() for name in ("python-client.md", "restarts.md"))
    limits = Timeouts()
    assert f"connecting takes {limits.connect_s:g} seconds at most" in client
    silence_s = limits.keepalive_s + limits.answer_s
    assert f"is given up after {silence_s:g} seconds, or after {limits.answer_s:g} where gRPC" in client
    assert f"asks a silent server every {limits.keepalive_s:g} seconds whether it is there" in client
    assert f"sees the client ask every {limits.keepalive_s:g} seconds" in " ".join(restarts.split())


def test_the_readme_has_the_benchmarks_figures() -> None:
    page, ratio = (ROOT / "docs/benchmarks.md").read_text(), r"([\d.]+ \([\d.]+-[\d.]+\))"
    measured = dict(re.findall(rf"^\| (.+?) \| at .+? \| {ratio} \|", page, re.MULTILINE))
    beside = re.findall(rf"^\| (.+?) \| (.+?) \| \**{ratio}\** \| (?:\**{ratio}\**)? \|$", page, re.MULTILINE)
    for case, peer, one, two in beside:
        measured |= {f"{case}: inferwire / {peer}": one, f"{case}: inferwire with 2 workers / {peer}": two}
    shown = re.findall(rf"^\| (.+?) \| {ratio} \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert shown == [(told, measured[what]) for told, what in FIGURES]
