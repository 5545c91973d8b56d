"""`python -m inferwire PROGRAM`: what the program sees is what `python PROGRAM` shows it, but for openvino."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import openvino
import pytest
from tests.waiting import LIMIT_S

from inferwire.drop_in.command import python_options
from inferwire.drop_in.stand_ins import IMPORTABLE, STAND_INS
from inferwire.not_offered import MODULES, TOP_LEVEL, sentence
from inferwire.version import MIRRORED_VERSION


def run(
    *command: str | Path, options: tuple[str, ...] = (), by_stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `python OPTIONS COMMAND`."""
    words = [sys.executable, *options, *map(str, command)]
    return subprocess.run(
        words,
        env=os.environ | environment,
        input=by_stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def drop_in(*command: str | Path, options: tuple[str, ...] = (), **environment: str) -> str:
    """Run a program with the mirror, to its good end, and give what it wrote."""
    done = run("-m", "inferwire", *command, options=options, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program.py"


SHOWS = "import sys; print(sys.argv, __name__, sys.path[0], __spec__)"

WAYS: dict[str, str] = {
    "arguments and names": "import sys; print(sys.argv, __name__, __file__, sys.path[0], __spec__)",
    "an exit code": "raise SystemExit(7)",
    "an exit with a sentence": "raise SystemExit('enough')",
    "an error": "def fail():\n    raise ValueError('no')\nfail()",
    "a syntax error": "print('half",
    "an interrupt": "import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()",
    "its own hook": "import sys; sys.excepthook = lambda *each: print(each[:2]); 1 / 0",
    "an end with threads": "import threading; threading.Thread(target=print, args=('late',)).start()",
    "an exit handler": "import atexit; atexit.register(print, 'end')",
    "pickles of its own": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))",
}


@pytest.mark.parametrize("source", WAYS.values(), ids=WAYS.keys())
def test_a_program_runs_as_python_runs_it(program: Path, source: str) -> None:
    program.write_text(source)
    plain, with_mirror = run(program, "--help", "x"), run("-m", "inferwire", program, "--help", "x")
    assert with_mirror.returncode == plain.returncode
    assert with_mirror.stdout == plain.stdout
    assert with_mirror.stderr == plain.stderr


def test_a_program_that_is_not_there_is_what_python_says() -> None:
    plain, with_mirror = run("nowhere.py"), run("-m", "inferwire", "nowhere.py")
    assert (with_mirror.returncode, with_mirror.stderr) == (plain.returncode, plain.stderr)


def test_a_module_runs_by_its_name(program: Path) -> None:
    program.write_text("import sys, openvino; print(__name__, sys.argv[1:], openvino.Core)")
    out = drop_in("-m", "program", "-m", "--address", "x", PYTHONPATH=path_with(program.parent))
    assert out == "__main__ ['-m', '--address', 'x'] <class 'inferwire.core.Core'>\n"


@pytest.mark.parametrize("words", [("-c", SHOWS, "-m", "--address", "x"), (f"-c{SHOWS}", "x")], ids=["apart", "glued"])
def test_a_text_runs_as_python_runs_it(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert drop_in(*words) == done.stdout != ""
    assert drop_in("-c", "import openvino; print(openvino.Core)") == "<class 'inferwire.core.Core'>\n"


def test_what_comes_by_stdin_runs_as_python_runs_it() -> None:
    expected = run("-", "--address", "x", by_stdin=SHOWS).stdout
    assert drop_in("-", "--address", "x", by_stdin=SHOWS) == expected != ""


def path_with(folder: Path) -> str:
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


IMPORTS = """
import sys
import openvino
import openvino as ov
import openvino.properties as props
import openvino.properties.hint as hints
from openvino import AsyncInferQueue, Layout, PartialShape, Type, properties
from openvino.properties.intel_gpu.hint import queue_priority
from openvino.utils.data_helpers import OVDict
from openvino.utils.data_helpers.wrappers import OVDict as Same
from openvino._pyopenvino import Tensor, VariableState
from openvino.helpers import pack_data

import inferwire

assert ov is openvino is sys.modules["openvino"]
assert ov.Core is inferwire.Core and Tensor is inferwire.Tensor and OVDict is Same and VariableState.reset
assert props is ov.properties is properties is inferwire.properties and hints is inferwire.properties.hint
assert ov.properties.hint.num_requests is hints.num_requests
assert ov.get_version() == ov.__version__
print(ov.__name__, ov.__version__)
files = {name: str(getattr(module, "__file__", "")) for name, module in sys.modules.items()}
real = [name for name, file in files.items() if "site-packages/openvino/" in file]
assert real == [], real
"""


def test_openvino_is_the_mirror_even_where_it_is_installed(program: Path) -> None:
    program.write_text(IMPORTS)
    assert drop_in(program).startswith(f"openvino {MIRRORED_VERSION}-0-inferwire-")


def test_the_version_reads_as_openvino_s_do(program: Path) -> None:
    program.write_text(
        "import re, openvino\n"
        "release, build, commit = openvino.get_version().split('-', 2)\n"
        "print(re.fullmatch(r'\\d+\\.\\d+\\.\\d+', release) and int(build))\n"
    )
    assert drop_in(program) == "0\n"


NAMES = """
import openvino
before = set(globals())
from openvino import *
names = set(globals()) - before - {"before"}
assert names == set(dir(openvino)), names ^ set(dir(openvino))
import inferwire
assert names == set(dir(inferwire))
print(get_version() == openvino.__version__)
"""


def test_openvino_has_the_names_of_the_mirror_and_none_of_how_it_is_put_there(program: Path) -> None:
    program.write_text(NAMES)
    assert drop_in(program) == "True\n"


def test_who_began_to_look_before_another_thread_imported_openvino_finds_it(program: Path) -> None:
    program.write_text(
        "import sys\n"
        "looking = [each.find_spec for each in sys.meta_path]\n"
        "import openvino\n"
        "print(next(filter(None, (look('openvino', None) for look in looking))) == openvino.__spec__)\n"
    )
    assert drop_in(program) == "True\n"


WHILE_A_MODULE_IS_LOADED = """
import sys
import inferwire
import openvino
from inferwire.drop_in.finder import MirrorLoader

load = MirrorLoader.exec_module

def show_and_load(loader, module):
    print(sys.modules[openvino.__name__ + ".properties"] is inferwire.properties)
    load(loader, module)

MirrorLoader.exec_module = show_and_load
import openvino.properties
print(openvino.properties is inferwire.properties, inferwire.properties.__spec__.name)
"""


def test_who_imports_a_module_that_another_thread_is_importing_has_the_mirror_s(program: Path) -> None:
    """Python gives what stands in `sys.modules` once the other thread is done, even if it has been replaced there."""
    program.write_text(WHILE_A_MODULE_IS_LOADED)
    assert drop_in(program) == "True\nTrue inferwire.properties\n"


WHILE_ANOTHER_IMPORT_RUNS = """
import sys
import threading
from importlib.machinery import PathFinder

def import_it():
    import {module}
    print({module}.__name__)

class Watcher:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            asks.set()
        if name != "{pausing}":
            return None
        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def load_later(module):
            other.start()
            asks.wait()
            other.join(0.2)
            load(module)

        spec.loader.exec_module = load_later
        return spec

asks, other = threading.Event(), threading.Thread(target=import_it)
sys.meta_path.insert(0, Watcher())
import {imported}
other.join()
"""


@pytest.mark.parametrize(
    ("imported", "pausing", "module"),
    [
        ("numpy", "numpy", "openvino"),
        ("openvino", "inferwire", "openvino.op"),
        ("openvino", "inferwire", "openvino.properties"),
    ],
)
def test_threads_may_import_at_the_same_time(program: Path, imported: str, pausing: str, module: str) -> None:
    """Python holds a lock while it asks a finder, and does not wait for a package before it looks for its modules."""
    program.write_text(WHILE_ANOTHER_IMPORT_RUNS.format(imported=imported, pausing=pausing, module=module))
    name = "inferwire.properties" if module == "openvino.properties" else module
    assert drop_in(program) == f"{name}\n"


WAYS_TO_IMPORT: dict[str, tuple[str, tuple[str, ...]]] = {
    "run by -m inferwire": ("openvino", ("-m", "inferwire")),
    "its import changed": ("inferwire", ()),
}
"""How a program that was written for openvino gets the mirror: what it imports, and what `python` is told."""

ways_to_import = pytest.mark.parametrize("way", WAYS_TO_IMPORT.values(), ids=WAYS_TO_IMPORT.keys())

OLD_NAMES = (
    "from openvino.runtime import Core; import openvino; assert Core is openvino.Core",
    "import openvino.runtime as ov; import openvino; assert ov is openvino",
    "import openvino as ov; ov.runtime.Core",
    "from openvino import runtime as ov; ov.Core",
    "from openvino.runtime.properties import hint; import openvino.properties; assert hint is openvino.properties.hint",
    "import openvino.runtime.properties.hint as hint; import openvino; assert hint is openvino.properties.hint",
)


@ways_to_import
@pytest.mark.parametrize("source", OLD_NAMES)
def test_the_old_name_of_the_package_warns(program: Path, source: str, way: tuple[str, tuple[str, ...]]) -> None:
    package, options = way
    program.write_text(source.replace("openvino", package))
    done = run(*options, program)
    assert done.returncode == 0, done.stderr
    assert f"{program}:1: DeprecationWarning: {package}.runtime is deprecated; use {package} instead" in done.stderr


TRY = """
import os
import {package}
for statements in {groups!r}:
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    for statement in statements:
        try:
            exec(statement)
        except Exception as error:
            print(type(error).__name__, error, sep=": ", flush=True)
        else:
            print("nothing", flush=True)
    os._exit(0)
"""


def tried(program: Path, *statements: str, way: tuple[str, tuple[str, ...]] | None = None) -> list[str]:
    """What each statement raises in a program with the mirror."""
    return tried_apart(program, statements, way=way)


def tried_apart(program: Path, *groups: Iterable[str], way: tuple[str, tuple[str, ...]] | None = None) -> list[str]:
    """What each statement raises in a program with the mirror, each group of them in a process of its own."""
    package, options = way or WAYS_TO_IMPORT["run by -m inferwire"]
    changed = [[each.replace("openvino", package) for each in statements] for statements in groups]
    program.write_text(TRY.format(package=package, groups=changed))
    done = run(*options, program)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@ways_to_import
def test_every_name_that_is_missing_says_so(program: Path, way: tuple[str, tuple[str, ...]]) -> None:
    names = sorted((MODULES | TOP_LEVEL) - IMPORTABLE)
    raised = tried(program, *(f"from openvino import {name}" for name in names), way=way)
    expected = [sentence(f"openvino.{name}") for name in names]
    assert raised == [f"ModuleNotFoundError: {each}" for each in expected]
    raised = tried(program, *(f"openvino.{name}" for name in names), way=way)
    assert raised == [f"AttributeError: {each}" for each in expected]


@ways_to_import
def test_a_module_that_is_missing_says_so(program: Path, way: tuple[str, tuple[str, ...]]) -> None:
    statements = (
        "import openvino.frontend.onnx",
        "from openvino.passes import nothing",
        "import openvino.tools.mo",
        "import openvino.properties.nothing",
        "from openvino.preprocess.torchvision import PreprocessConverter",
        "import openvino.runtime.experimental",
    )
    missing = (
        "frontend.onnx",
        "passes.nothing",
        "tools.mo",
        "properties.nothing",
        "preprocess.torchvision",
        "experimental",
    )
    sentences = [f"ModuleNotFoundError: {sentence(f'openvino.{name}')}" for name in missing]
    assert tried(program, *statements, way=way) == sentences


@ways_to_import
def test_operations_can_be_imported_and_not_used(program: Path, way: tuple[str, tuple[str, ...]]) -> None:
    raised = tried(
        program,
        "from openvino import opset10 as opset; opset.add(1, 2)",
        "import openvino.runtime.opset8 as opset; opset.add(1, 2)",
        "from openvino.opset13 import add",
        "openvino.opset9.add",
        way=way,
    )
    assert raised == [
        f"AttributeError: {sentence('openvino.opset10.add')}",
        f"AttributeError: {sentence('openvino.opset8.add')}",
        f"ModuleNotFoundError: {sentence('openvino.opset13.add')}",
        f"AttributeError: {sentence('openvino.opset9.add')}",
    ]


@ways_to_import
def test_what_changes_graphs_can_be_imported_and_not_used(program: Path, way: tuple[str, tuple[str, ...]]) -> None:
    raised = tried(
        program,
        "from openvino._offline_transformations import compress_model_transformation as f; f(None)",
        "from openvino.tools.ovc import convert_model; convert_model('model.onnx')",
        "openvino.passes.Manager()",
        "import openvino.runtime.passes as passes; passes.Manager()",
        "class Own(openvino.passes.MatcherPass):\n    def __init__(self, name):\n        super().__init__()",
        "Own('name')",
        "openvino.passes.nothing",
        "openvino.frontend.frontend.FrontEnd()",
        "isinstance(1, openvino.passes.Manager)",
        way=way,
    )
    assert raised == [
        f"RuntimeError: {sentence('openvino._offline_transformations.compress_model_transformation()')}",
        f"RuntimeError: {sentence('openvino.tools.ovc.convert_model()')}",
        f"RuntimeError: {sentence('openvino.passes.Manager()')}",
        f"RuntimeError: {sentence('openvino.passes.Manager()')}",
        "nothing",
        f"RuntimeError: {sentence('openvino.passes.MatcherPass()')}",
        f"AttributeError: {sentence('openvino.passes.nothing')}",
        f"RuntimeError: {sentence('openvino.frontend.frontend.FrontEnd()')}",
        "nothing",
    ]


@ways_to_import
def test_every_name_of_what_changes_graphs_can_be_imported(program: Path, way: tuple[str, tuple[str, ...]]) -> None:
    groups = [
        [f"import openvino.{module}", *(f"from openvino.{module} import {name}" for name in sorted(names))]
        for module, names in STAND_INS.items()
    ]
    assert tried_apart(program, *groups, way=way) == ["nothing"] * sum(map(len, groups))


@ways_to_import
def test_the_types_of_arrays_can_be_used(program: Path, way: tuple[str, tuple[str, ...]]) -> None:
    statement = "from openvino.utils.types import get_dtype; assert get_dtype(openvino.Type.f16) == 'float16'"
    assert tried(program, statement, way=way) == ["nothing"]


def test_openvino_s_benchmark_app_is_the_installed_one(program: Path) -> None:
    program.write_text(
        "from openvino.tools.benchmark.benchmark import Benchmark, Core\n"
        "from openvino.tools.benchmark.utils import constants\n"
        "print(Core.__module__, Benchmark.__module__, constants.__file__)"
    )
    *modules, file = drop_in(program).split()
    assert modules == ["inferwire.core", "openvino.tools.benchmark.benchmark"]
    assert Path(file) == Path(openvino.__file__).parent / "tools/benchmark/utils/constants.py"


def test_openvino_s_benchmark_app_where_openvino_is_not_installed(program: Path) -> None:
    hidden = "import os, sys; sys.path[:] = [each for each in sys.path if not os.path.isdir(f'{each}/openvino')]"
    raised = tried(program, hidden, "import openvino.tools.benchmark.main")
    assert raised == ["nothing", f"ModuleNotFoundError: {sentence('openvino.tools.benchmark')}"]


def test_functions_that_are_missing_can_be_imported_and_not_called(program: Path) -> None:
    raised = tried(
        program,
        "from openvino import convert_model, save_model, serialize",
        "from openvino import save_model; save_model(None, 'model.xml')",
        "from openvino.runtime import serialize; serialize(None, 'model.xml')",
    )
    assert raised == [
        "nothing",
        f"RuntimeError: {sentence('openvino.save_model()')}",
        f"RuntimeError: {sentence('openvino.serialize()')}",
    ]


@ways_to_import
def test_what_openvino_has_not_either_is_pythons_error(program: Path, way: tuple[str, tuple[str, ...]]) -> None:
    statements = ("import openvino.nonsense", "from openvino import nonsense", "openvino.nonsense")
    raised = tried(program, *statements, way=way)
    package, _ = way
    assert raised[0] == f"ModuleNotFoundError: No module named '{package}.nonsense'"
    assert raised[1].startswith(f"ImportError: cannot import name 'nonsense' from '{package}'")
    assert raised[2] == f"AttributeError: module '{package}' has no attribute 'nonsense'"


def test_processes_that_a_program_starts_use_the_mirror_too(program: Path) -> None:
    program.write_text(
        "import multiprocessing, subprocess, sys\n"
        "def where(queue):\n"
        "    import openvino\n"
        "    queue.put(openvino.Core.__module__)\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=where, args=(queue,))\n"
        "    process.start()\n"
        "    print(queue.get())\n"
        "    process.join()\n"
        "    subprocess.run([sys.executable, '-c', 'import openvino; print(openvino.Core.__module__)'], check=True)\n"
    )
    assert drop_in(program) == "inferwire.core\ninferwire.core\n"


def test_the_address_is_given_as_an_option_or_by_the_environment(program: Path) -> None:
    program.write_text("import openvino; print(openvino.Core())")
    assert drop_in("--address", "box:9", program) == "<Core: server box:9>\n"
    assert drop_in("--address=box:9", program, INFERWIRE_ADDRESS="other") == "<Core: server box:9>\n"
    assert drop_in(program, INFERWIRE_ADDRESS="box:10") == "<Core: server box:10>\n"


def test_another_sitecustomize_runs_as_well(program: Path) -> None:
    (program.parent / "sitecustomize.py").write_text("import sys; sys.here = True")
    program.write_text("import sys, sitecustomize, openvino; print(sys.here, sitecustomize.__file__, openvino.Core)")
    out = drop_in(program, PYTHONPATH=path_with(program.parent))
    assert out == f"True {program.parent / 'sitecustomize.py'} <class 'inferwire.core.Core'>\n"


def test_nothing_is_imported_for_a_program_without_openvino(program: Path) -> None:
    program.write_text("import sys; print([name for name in sys.modules if name.startswith(('inferwire', 'numpy'))])")
    assert drop_in(program) == "[]\n"


def test_pythons_options_reach_the_program(program: Path) -> None:
    program.write_text("import sys; print(sys.flags.dev_mode, sys.flags.optimize, sys.warnoptions)")
    options = ("-X", "dev", "-OW", "ignore")
    assert drop_in(program, options=options) == run(program, options=options).stdout


@pytest.mark.parametrize(
    ("before", "options"),
    [
        (["-m", "inferwire"], []),
        (["-minferwire"], []),
        (["-Bm", "inferwire"], ["-B"]),
        (["-X", "dev", "-Bminferwire"], ["-X", "dev", "-B"]),
    ],
)
def test_pythons_options_are_cut_out_of_its_command_line(before: list[str], options: list[str]) -> None:
    assert python_options(["python", *before, "-m", "inferwire"], 2) == options


MISUSE: dict[str, tuple[tuple[str, ...], str]] = {
    "no program": ((), "there is no PROGRAM to run; --help shows examples"),
    "no text": (("-c",), "there is no PROGRAM to run; --help shows examples"),
    "no module": (("-m",), "there is no PROGRAM to run; --help shows examples"),
    "an unknown option": (("--adress", "x", "program.py"), "unrecognized arguments: --adress"),
    "a bad address": (("--address", "a:b:c", "program.py"), "address 'a:b:c' is not host:port"),
    "a command": (("serve", "--help"), "no file 'serve'; inferwire's own commands are run as `inferwire serve`"),
    "a name alone": (("benchmark_app", "-h"), "and programs on the PATH by their paths, as $(which benchmark_app)"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISUSE.values(), ids=MISUSE.keys())
def test_misuse_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    done = run("-m", "inferwire", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["-E", "-I"])
def test_a_python_that_would_not_find_the_mirror_is_refused(option: str) -> None:
    call = "from inferwire.drop_in.command import main; main(['program.py'], [])"
    done = run("-c", f"import sys; sys.path[:0] = {sys.path!r}; {call}", options=(option,))
    assert done.returncode == 2
    assert "Python's options -E, -I and -S keep the mirror out" in done.stderr


def test_help_teaches() -> None:
    out = drop_in("--help")
    for word in ("--address", "INFERWIRE_ADDRESS", "INFERWIRE_API_KEY", "-m MODULE", "--allow-uploads", "PROGRAM"):
        assert word in out
