"""The public surface as mypy sees it; pyright reads the same program with all the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).parent / "public_surface.py"
TIMEOUT_S = 300
REQUEST = "ov.Core().served_model('m').create_infer_request()"


def mypy(path: Path, cache: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={cache}", str(path)]
    environment = os.environ | {"MYPYPATH": f"{ROOT / 'client'}:{ROOT / 'proto'}"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def test_a_program_with_every_type_spelled_out_is_clean(cache: Path) -> None:
    code, said = mypy(PROGRAM, cache)
    assert code == 0, said


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "model: ov.Model = ov.Core().served_model('m')",
            'expression has type "CompiledModel", variable has type "Model"',
        ),
        ("print(ov.AsyncInferQeue)", 'Module has no attribute "AsyncInferQeue"'),
        ("ov.Core().get_property(1)", 'No overload variant of "get_property"'),
        ("ov.Core().set_property(5)", 'No overload variant of "set_property"'),
        ("ov.Core().read_model('m').reshape(5)", 'No overload variant of "reshape"'),
        ("ov.Core().served_model('m').output('a', 'b')", 'No overload variant of "output"'),
        ("ov.Core().read_model(5)", 'Argument 1 to "read_model" of "Core" has incompatible type "int"'),
        ("ov.Core().compile_model(5)", 'Argument 1 to "compile_model" of "Core" has incompatible type "int"'),
        ("ov.set_batch(ov.Core().read_model('m'), '4')", 'No overload variant of "set_batch"'),
        (f"{REQUEST}.get_input_tensor('a')", 'No overload variant of "get_input_tensor"'),
        (f"{REQUEST}.get_output_tensor(0, 1)", 'No overload variant of "get_output_tensor"'),
        (f"{REQUEST}.set_tensors(port='a', tensors=[])", 'No overload variant of "set_tensors"'),
        (f"{REQUEST}.set_tensors(MappingProxyType({{'a': ov.Tensor([1])}}))", 'No overload variant of "set_tensors"'),
        ("ov.preprocess.PrePostProcessor(ov.Core().read_model('m')).input(1.5)", 'No overload variant of "input"'),
    ],
)
def test_a_mistake_is_found(line: str, complaint: str, cache: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(f"from types import MappingProxyType\nimport inferwire as ov\n{line}\n")
    code, said = mypy(wrong, cache)
    assert code == 1
    assert complaint in said


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "client/inferwire/py.typed").is_file()
