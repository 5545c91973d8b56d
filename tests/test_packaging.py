"""What the package installs: the wheel's contents, its metadata, and imports from outside the checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from textwrap import dedent
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"inferwire", "inferwire_cli", "inferwire_proto", "inferwire_server"}
BASE = {"grpcio", "numpy", "protobuf"}
CLI_NEEDS = (
    "PIL",
    "attr",
    "attrs",
    "cyclopts",
    "docstring_parser",
    "markdown_it",
    "mdurl",
    "pillow.libs",
    "pygments",
    "rich",
    "rich_rst",
    "docutils",
)
"""The packages of the extra `cli`, with their own dependencies."""


def pip(*arguments: str | Path) -> None:
    """Run pip without reaching any index."""
    command = [sys.executable, "-m", "pip", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def python(*arguments: str, site: Path, outside: Path) -> subprocess.CompletedProcess[str]:
    """Run Python outside the checkout with one folder of packages added, and none of this environment."""
    environment = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, cwd=outside, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel alone, installed into a folder, without any of its dependencies."""
    folder = tmp_path_factory.mktemp("site")
    pip("install", "--quiet", "--no-deps", "--target", folder, wheel)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's three dependencies, and their own dependencies, taken from this environment."""
    folder = tmp_path_factory.mktemp("base")
    environment = Path(sysconfig.get_path("purelib"))
    for name in ("numpy", "numpy.libs", "grpc", "google", "typing_extensions.py"):
        if (environment / name).exists():
            (folder / name).symlink_to(environment / name)
    return folder


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def test_wheel_holds_every_source_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    roots = [ROOT / "proto", ROOT / "server", ROOT / "client"]
    sources = {
        str(path.relative_to(root))
        for root in roots
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.is_file() and path.suffix in {".py", ".pyi", ".proto"} | {""} | {".typed"}
    }
    assert {name.split("/")[0] for name in shipped} == PACKAGES
    assert sources - shipped == set()
    assert [name for name in shipped if name.endswith((".pyc", ".xml", ".bin", ".png"))] == []


def test_every_package_is_typed(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        typed = {name.split("/")[0] for name in archive.namelist() if name.endswith("/py.typed")}
    assert typed == PACKAGES


def test_client_needs_three_packages(metadata: Message) -> None:
    required: list[str] = metadata.get_all("Requires-Dist", [])
    base = [line for line in required if "extra ==" not in line]
    assert {name_of(line) for line in base} == BASE


def name_of(requirement: str) -> str:
    """Cut a requirement down to its project's name."""
    return requirement.split(";")[0].split(">")[0].split("=")[0].split("[")[0].strip()


def test_extras_are_the_documented_ones(metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra", [])) == {"server", "cli", "tokenizers", "traces"}


def test_licence_and_notices_are_in_the_wheel(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        licences = {Path(name).name for name in archive.namelist() if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}


def test_wheel_imports_with_its_three_dependencies_alone(site: Path, base: Path, tmp_path: Path) -> None:
    script = f"import sys; sys.path.append({str(base)!r}); import inferwire; print(inferwire.__file__)"
    done = python("-c", script, site=site, outside=tmp_path)
    assert done.stdout.strip() == str(site / "inferwire" / "__init__.py"), done.stderr


def test_import_needs_no_metadata_of_packages_to_know_its_version(
    site: Path, base: Path, metadata: Message, tmp_path: Path
) -> None:
    script = f"""
        import sys
        sys.path.append({str(base)!r})
        import google.protobuf, grpc, numpy
        before = set(sys.modules)
        import inferwire
        print(inferwire.__version__, {{"importlib.metadata", "email", "zipfile"}} & (sys.modules.keys() - before))
        """
    done = python("-c", dedent(script), site=site, outside=tmp_path)
    assert done.stdout == f"{metadata['Version']} set()\n", done.stderr


def test_editable_install_imports_from_outside_the_checkout(base: Path, tmp_path: Path) -> None:
    editable = tmp_path / "editable"
    pip("install", "--quiet", "--no-deps", "--no-build-isolation", "--target", editable, "--editable", ROOT)
    script = f"import site; site.addsitedir({str(editable)!r}); import inferwire; print(inferwire.__file__)"
    done = python("-c", script, site=base, outside=tmp_path)
    assert done.stdout.strip() == str(ROOT / "client" / "inferwire" / "__init__.py"), done.stderr


def test_command_says_what_is_missing_without_the_extras(site: Path, tmp_path: Path) -> None:
    done = python("-m", "inferwire_cli", "serve", "--model-repository", "models", site=site, outside=tmp_path)
    assert done.returncode == 2
    assert "pip install '.[server]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_command_itself_names_the_cli_extra(site: Path, tmp_path: Path) -> None:
    done = python("-m", "inferwire_cli", "--version", site=site, outside=tmp_path)
    assert done.returncode == 2
    assert "pip install '.[cli]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_operators_commands_need_the_cli_extra_alone(site: Path, base: Path, tmp_path: Path) -> None:
    environment = Path(sysconfig.get_path("purelib"))
    for name in CLI_NEEDS:
        (tmp_path / name).symlink_to(environment / name)
    modules = ", ".join(f"inferwire_cli.{name}" for name in ("models.table", "infer.show", "bench.show", "top.show"))
    script = f"import sys; sys.path += [{str(base)!r}, {str(tmp_path)!r}]; import inferwire_cli.commands, {modules}"
    done = python("-c", script, site=site, outside=tmp_path)
    assert done.returncode == 0, done.stderr
