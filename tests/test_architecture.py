"""The import rules: what each folder may import of the others, read from the sources without running them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from sys import stdlib_module_names

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    ROOT / "proto/inferwire_proto",
    ROOT / "server/inferwire_server",
    ROOT / "client/inferwire",
    ROOT / "client/inferwire_cli",
)
SERVER_TRANSPORT = "inferwire_server.transport"
HTTP2 = f"{SERVER_TRANSPORT}.http2"
CLIENT_TRANSPORT = "inferwire.transport"
CLI = "inferwire_cli"
COMMANDS = [each.parent.name for each in (ROOT / "client" / CLI).glob("*/__init__.py")]
"""The packages of the commands. Of each, only `__init__` is imported before the command is called."""
CLIENT_LAYERS = tuple(
    tuple(f"inferwire.{name}" for name in layer.split())
    for layer in (
        "arguments errors latch not_offered process signal_handlers tab_completion user_warnings version",
        "values",
        "graph",
        "transport",
        "tensors",
        "requests",
        "properties",
        "property_values",
        "models",
        "preprocess queues",
        "core_properties extensions",
        "core",
        "conversion exceptions helpers layout_helpers utils",
        "drop_in __main__",
    )
)
"""The client's folders and modules from the lowest to the highest."""
SERVER_FOLDERS = {
    "core": "",
    "host": "core seldom to_the_end",
    "open_inference": "core",
    "engine": "core bugs call_threads",
    "openvino_backend": "core engine.backend",
    "repository": "core engine open_inference to_the_end",
    "metrics": "core host engine repository gil_thread tallies",
    "service": "core host engine repository call_threads gil_thread seldom tallies",
    "transport": "core bugs seldom",
    "transport.http": "core transport gil_thread",
    "transport.http2": "transport",
    "transport.oip": "core service open_inference log_options",
    "transport.v1": "core service transport",
    "transport.session": "core service transport transport.v1",
    "transport.rest": "core service transport transport.http transport.oip gil_thread",
    "transport.rpc": (
        "core service transport transport.http2 transport.oip transport.v1 transport.session open_inference"
    ),
    "transport.relay": (
        "core service transport transport.http transport.session transport.rpc open_inference gil_thread crew seldom "
        "to_the_end"
    ),
    "workers": "host process settings crew log_lines",
}
"""The server's folders, and what each may import of the server besides `errors`: other folders, without those in them,
and modules beside the folders. The entry `transport` means only the modules beside its folders."""
OPEN_INFERENCE = "inferwire_server.open_inference"
OIP_STUBS = f"{OPEN_INFERENCE}.stubs"
WEB = ("fastapi", "starlette", "uvicorn")
CLOCKS_AND_THREADS = ("asyncio", "threading", "concurrent", "multiprocessing", "time", "socket")
OPENVINO_BACKEND = "inferwire_server.openvino_backend"
MANY_MODULES = 10
"""A folder with so many modules says in its docstring what each of them is for."""
MIRROR = ROOT / "client/inferwire"
"""Its docstring is for its users: docs/architecture.md describes its modules."""

CLIENT_NEEDS = ("numpy", "grpc", "google", "inferwire", "inferwire_proto", "openvino")
"""What the client may import besides the standard library; `openvino` has a rule of its own."""


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, its place, and whether the import waits for a call or is only for type checkers."""

    importer: str
    name: str
    line: int
    lazy: bool

    def is_of(self, *packages: str) -> bool:
        """Whether the name is one of the packages or lies in one."""
        return any(self.name == package or self.name.startswith(package + ".") for package in packages)

    def __str__(self) -> str:
        """Describe the import for a failed test."""
        return f"{self.importer}:{self.line} imports {self.name}"


def lies_in(module: str, *packages: str) -> bool:
    """Whether the module is one of the packages or lies in one."""
    return any(module == package or module.startswith(package + ".") for package in packages)


def module_name(path: Path, package: Path) -> str:
    """Name the module that a file is, with `__init__` as its package."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(node: ast.AST) -> Iterator[str]:
    """Yield what one statement imports, each name as far as it could be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: relative imports hide which layer they reach"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_for_types(node: ast.AST) -> bool:
    """Whether a statement is `if TYPE_CHECKING`, which no program runs."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_of(module: str, source: str) -> list[Import]:
    """List every import of a source, those inside functions too."""
    found: list[Import] = []

    def visit(node: ast.AST, *, lazy: bool) -> None:
        found.extend(Import(module, name, getattr(node, "lineno", 0), lazy) for name in imported_names(node))
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_for_types(node)
        for child in ast.iter_child_nodes(node):
            visit(child, lazy=inside)

    visit(ast.parse(source), lazy=False)
    return found


@cache
def all_imports() -> tuple[Import, ...]:
    """List every import of every package, generated stubs left out."""
    return tuple(
        found
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
        if not path.stem.endswith(("_pb2", "_pb2_grpc"))
        for found in imports_of(module_name(path, package), path.read_text(encoding="utf-8"))
    )


def server_folder(module: str) -> str | None:
    """Give the innermost of `SERVER_FOLDERS` that a module lies in; None for a module beside them."""
    return max((name for name in SERVER_FOLDERS if lies_in(module, f"inferwire_server.{name}")), key=len, default=None)


# The rules: each takes an import and says whether the import breaks it.


def contract_knows_nobody(found: Import) -> bool:
    """Let the contract import none of those who share it, nor gRPC or OpenVINO."""
    return lies_in(found.importer, "inferwire_proto") and found.is_of(
        "inferwire", "inferwire_server", "inferwire_cli", "grpc", "openvino"
    )


def shared_use_of_the_host_knows_no_wire(found: Import) -> bool:
    """Let what both sides do alike with their machines know nothing of the contract's messages and tables."""
    host = "inferwire_proto.host"
    return lies_in(found.importer, host) and found.is_of("inferwire_proto") and not found.is_of(host)


def sides_never_meet(found: Import) -> bool:
    """Let client and server share the contract and nothing else."""
    other_sides = {"inferwire": "inferwire_server", "inferwire_server": "inferwire"}
    side = found.importer.split(".")[0]
    return side in other_sides and found.is_of(other_sides[side], "inferwire_cli")


def client_needs_three_packages(found: Import) -> bool:
    """Let the client import numpy, grpcio, protobuf and the standard library."""
    top = found.name.split(".")[0]
    return lies_in(found.importer, "inferwire") and top not in stdlib_module_names and top not in CLIENT_NEEDS


def client_layers_know_those_below(found: Import) -> bool:
    """Let each folder of the client know those below it."""
    own = next((height for height, layer in enumerate(CLIENT_LAYERS) if lies_in(found.importer, *layer)), None)
    return own is not None and not found.lazy and found.is_of(*chain.from_iterable(CLIENT_LAYERS[own + 1 :]))


def transport_is_reached_by_its_protocol(found: Import) -> bool:
    """Let all but `Core`, the drop-in and the commands know a transport only by its protocol."""
    seam = [
        f"{CLIENT_TRANSPORT}.{name}" for name in ("protocol", "executions", "descriptions", "lent_memory", "timeouts")
    ]
    makes_one = lies_in(found.importer, CLIENT_TRANSPORT, "inferwire.core", "inferwire.drop_in", "inferwire_cli")
    return found.is_of(CLIENT_TRANSPORT) and not (makes_one or found.is_of(*seam))


def server_folders_know_those_listed(found: Import) -> bool:
    """Let each folder of the server know what `SERVER_FOLDERS` lists for it."""
    own = server_folder(found.importer)
    if own is None or not found.is_of("inferwire_server") or server_folder(found.name) == own:
        return False
    names = [f"inferwire_server.{name}" for name in ("errors", *SERVER_FOLDERS[own].split())]
    # A folder stands for its own modules, not for the folders in it; `engine.backend` for that module alone.
    return not any(found.is_of(name) and server_folder(found.name) == server_folder(name) for name in names)


def core_is_pure(found: Import) -> bool:
    """Keep clocks, threads and sockets out of the core."""
    return lies_in(found.importer, "inferwire_server.core") and found.is_of(*CLOCKS_AND_THREADS)


def http2_knows_no_calls(found: Import) -> bool:
    """Let HTTP/2 know nothing of the calls it carries, and its reading and writing nothing of sockets and clocks."""
    if not lies_in(found.importer, HTTP2):
        return False
    does_io = lies_in(found.importer, f"{HTTP2}.protocol", f"{HTTP2}.server")
    is_known = found.is_of(
        HTTP2,
        *(
            f"{SERVER_TRANSPORT}.{name}"
            for name in (
                "accepting",
                "connection_age",
                "stall_timer",
                "keepalive",
                "low_water",
                "open_connections",
                "peers",
                "protocol_switch",
                "standstill",
                "turns",
            )
        ),
    )
    others = found.is_of("inferwire_server", "inferwire_proto", "grpc", "google") and not is_known
    return others or (found.is_of(*CLOCKS_AND_THREADS) and not does_io)


def openvino_in_its_backend(found: Import) -> bool:
    """Let the server's backend, and only waiting functions of the client, know OpenVINO."""
    if not found.is_of("openvino"):
        return False
    on_client = lies_in(found.importer, "inferwire") and found.lazy
    return not on_client and not lies_in(found.importer, OPENVINO_BACKEND)


def grpc_in_transports(found: Import) -> bool:
    """Keep gRPC in the transports of both sides."""
    return found.is_of("grpc", "grpc_health", "grpc_reflection") and not lies_in(
        found.importer, SERVER_TRANSPORT, CLIENT_TRANSPORT
    )


def opentelemetry_in_traces(found: Import) -> bool:
    """Let one module know OpenTelemetry, which need not be installed."""
    return found.is_of("opentelemetry") and found.importer != "inferwire_server.traces"


def web_in_transports(found: Import) -> bool:
    """Keep FastAPI and its kin in the server's transports."""
    return found.is_of(*WEB) and not lies_in(found.importer, SERVER_TRANSPORT)


def stubs_in_transports(found: Import) -> bool:
    """Let messages end where they are decoded: in a transport, or where a model's configuration is read."""
    is_stub = found.is_of(OIP_STUBS) or "_pb2" in found.name
    decodes = lies_in(found.importer, "inferwire_proto", SERVER_TRANSPORT, CLIENT_TRANSPORT, OPEN_INFERENCE)
    return is_stub and not decodes


def oip_stubs_in_the_server(found: Import) -> bool:
    """Keep the Open Inference Protocol's messages in the server's transports, and where configurations are read."""
    return found.is_of(OIP_STUBS) and not lies_in(found.importer, SERVER_TRANSPORT, OPEN_INFERENCE)


def cli_starts_light(found: Import) -> bool:
    """Let the command start, and name missing packages, before either side is imported."""
    entry = found.importer in {
        "inferwire_cli",
        "inferwire_cli.__main__",
        "inferwire_cli.command_line",
        "inferwire_cli.extras",
        "inferwire_cli.health",
    }
    return entry and not found.lazy and found.is_of("inferwire", "inferwire_server", "cyclopts")


def commands_know_no_side(found: Import) -> bool:
    """Let a command import its side only when it is called; only `serve` knows the server's settings."""
    options = f"{CLI}.commands", f"{CLI}.options", *(f"{CLI}.{name}" for name in COMMANDS)
    is_at_once = not found.lazy and found.importer in options and found.is_of("inferwire", "inferwire_server")
    of_server = lies_in(found.importer, CLI) and found.is_of("inferwire_server")
    return is_at_once or (of_server and found.importer != f"{CLI}.serve")


Rule = Callable[[Import], bool]

RULES: tuple[Rule, ...] = (
    contract_knows_nobody,
    shared_use_of_the_host_knows_no_wire,
    sides_never_meet,
    client_needs_three_packages,
    client_layers_know_those_below,
    transport_is_reached_by_its_protocol,
    server_folders_know_those_listed,
    core_is_pure,
    http2_knows_no_calls,
    openvino_in_its_backend,
    grpc_in_transports,
    opentelemetry_in_traces,
    web_in_transports,
    stubs_in_transports,
    oip_stubs_in_the_server,
    cli_starts_light,
    commands_know_no_side,
)


@pytest.mark.parametrize("rule", RULES, ids=[rule.__name__ for rule in RULES])
def test_every_import_keeps_the_rule(rule: Rule) -> None:
    assert [str(found) for found in all_imports() if rule(found)] == []


def test_no_cli_module_imports_both_sides_at_once() -> None:
    for package in PACKAGES[3:]:
        for path in sorted(package.rglob("*.py")):
            eager = [i for i in imports_of(path.stem, path.read_text(encoding="utf-8")) if not i.lazy]
            sides = {side for side in ("inferwire", "inferwire_server") if any(i.is_of(side) for i in eager)}
            assert len(sides) < 2, f"{path.name} needs both sides at once"


def test_no_module_needs_itself_through_others() -> None:
    modules = {module_name(path, package) for package in PACKAGES for path in package.rglob("*.py")}
    needs: dict[str, set[str]] = {module: set() for module in modules}
    for found in all_imports():
        name = found.name
        while name not in modules and "." in name:
            name = name.rpartition(".")[0]
        # Names of our own top package are looked up when used, so that hints can name classes of higher layers.
        if not found.lazy and name in modules and not lies_in(found.importer, name):
            needs[found.importer].add(name)
    while free := {module for module, others in needs.items() if not others}:
        needs = {module: others - free for module, others in needs.items() if module not in free}
    assert needs == {}


def test_every_part_of_the_client_is_in_a_layer() -> None:
    modules = {found.importer for found in all_imports() if lies_in(found.importer, "inferwire")} - {"inferwire"}
    assert [name for name in sorted(modules) if not lies_in(name, *chain.from_iterable(CLIENT_LAYERS))] == []


def test_every_folder_of_the_server_is_listed() -> None:
    server = ROOT / "server/inferwire_server"
    folders = [*server.glob("*/__init__.py"), *(server / "transport").glob("*/__init__.py")]
    names = {path.parent.relative_to(server).as_posix().replace("/", ".") for path in folders}
    assert names == set(SERVER_FOLDERS)


def modules_in(folder: Path) -> set[str]:
    """Name the modules and folders in a folder."""
    found = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return found - {"__init__", "__main__"}


@pytest.mark.parametrize(
    "folder",
    [
        path.parent
        for package in PACKAGES
        for path in sorted(package.rglob("__init__.py"))
        if len(modules_in(path.parent)) >= MANY_MODULES and path.parent != MIRROR
    ],
    ids=lambda folder: folder.relative_to(ROOT).as_posix(),
)
def test_a_folder_of_many_modules_says_what_each_is_for(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert [module for module in sorted(modules_in(folder)) if f"`{module}`" not in said] == []


def test_the_page_names_what_is_in_the_mirror() -> None:
    (folders,) = re.findall(
        r"## The folders\n(.*?)\n## ", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert modules_in(MIRROR) - set(re.findall(r"\w+", folders)) == set()


def test_every_package_is_read() -> None:
    importers = {found.importer.split(".")[0] for found in all_imports()}
    assert importers == {package.name for package in PACKAGES}


VIOLATIONS: tuple[tuple[Rule, str, str], ...] = (
    (contract_knows_nobody, "inferwire_proto.errors", "import grpc"),
    (shared_use_of_the_host_knows_no_wire, "inferwire_proto.host.flags", "from inferwire_proto.errors import Code"),
    (sides_never_meet, "inferwire.core", "from inferwire_server.settings import Settings"),
    (sides_never_meet, "inferwire_server.service", "from inferwire import Tensor"),
    (client_needs_three_packages, "inferwire.tensors.tensor", "import ml_dtypes"),
    (client_layers_know_those_below, "inferwire.tensors.tensor", "from inferwire.requests.inputs import bring_in"),
    (client_layers_know_those_below, "inferwire.queues.job_pool", "from inferwire.core import Core"),
    (
        transport_is_reached_by_its_protocol,
        "inferwire.requests.run",
        "from inferwire.transport.submission import Submission",
    ),
    (client_layers_know_those_below, "inferwire.tensors.tensor", "from inferwire import properties"),
    (client_layers_know_those_below, "inferwire.errors", "from inferwire.values.types import Type"),
    (core_is_pure, "inferwire_server.core.scheduling.queue", "from time import monotonic"),
    (http2_knows_no_calls, f"{HTTP2}.server", "import grpc"),
    (http2_knows_no_calls, f"{HTTP2}.stream", f"from {SERVER_TRANSPORT}.rpc.call import RpcCall"),
    (http2_knows_no_calls, f"{HTTP2}.connection", "import asyncio"),
    (openvino_in_its_backend, "inferwire_server.engine.device", "def f():\n    import openvino"),
    (openvino_in_its_backend, "inferwire.core", "import openvino as ov"),
    (grpc_in_transports, "inferwire_server.service", "from grpc import aio"),
    (opentelemetry_in_traces, "inferwire_server.composition", "from opentelemetry.trace import Tracer"),
    (web_in_transports, "inferwire_server.server", "import uvicorn"),
    (stubs_in_transports, "inferwire.core", "from inferwire_proto.inferwire.v1 import types_pb2"),
    (oip_stubs_in_the_server, "inferwire.transport.oip", f"import {OIP_STUBS}"),
    (oip_stubs_in_the_server, "inferwire_server.repository.entries", f"import {OIP_STUBS}"),
    (cli_starts_light, "inferwire_cli.__main__", "import inferwire"),
    (commands_know_no_side, "inferwire_cli.bench", "from inferwire.core import Core"),
    (commands_know_no_side, "inferwire_cli.top.show", "def f():\n    from inferwire_server.settings import Settings"),
    *(
        (server_folders_know_those_listed, f"inferwire_server.{importer}", f"import inferwire_server.{name}")
        for importer, name in (
            ("core.scheduling.queue", "engine"),
            ("core.tensors", "gil_thread"),
            ("host.blobs", "repository.folder"),
            ("open_inference.model_config", "repository"),
            ("engine.device", "service"),
            ("engine.engine", "openvino_backend.backend"),
            ("openvino_backend.slots", "engine.device"),
            ("repository.loader", "service"),
            ("repository.loader", "tallies"),
            ("service", "transport.rest"),
            ("service.inference", "composition"),
            ("service.health", "workers.processes"),
            ("transport.turns", "transport.rpc.call"),
            ("transport.http.server", "transport.rest.app"),
            ("transport.http.server", "transport.session.socket_sessions"),
            ("transport.session.stream", "transport.rpc.call"),
            ("transport.rest.app", "transport.rpc.status"),
            ("transport.rest.routes", "engine.device"),
            ("transport.rest.app", "crew"),
            ("transport.relay.front", "workers.processes"),
            ("workers.followers", "transport.relay.routing"),
        )
    ),
)


@pytest.mark.parametrize(("rule", "module", "source"), VIOLATIONS)
def test_a_violation_is_caught(rule: Rule, module: str, source: str) -> None:
    assert [found.importer for found in imports_of(module, source) if rule(found)] == [module]


def test_every_rule_has_a_violation() -> None:
    assert {rule for rule, _, _ in VIOLATIONS} == set(RULES)


def test_the_client_may_take_openvino_objects_inside_a_function() -> None:
    (found,) = imports_of("inferwire.core", "def compile(model):\n    import openvino\n")
    assert found.lazy
    assert not openvino_in_its_backend(found)


def test_a_relative_import_is_refused() -> None:
    with pytest.raises(AssertionError, match="relative imports"):
        imports_of("inferwire.core", "from .tensor import Tensor")
