"""One inference from a terminal: what goes in as a person has it, what comes out as a person reads it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferwire_cli.server_process import ServerProcess

Run = Callable[..., Any]
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COFFEE = DEPLOY / "images/coffee.png"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Two rows for the digits model."""
    path = tmp_path / "digits.npy"
    np.save(path, np.linspace(0, 1, 128).reshape(2, 64))
    return path


def test_a_picture_is_sent_as_the_model_takes_it_and_its_classes_are_named(run: Run) -> None:
    done = run("infer", "efficientnet_lite0", "-i", COFFEE, "--mean", "127", "--scale", "128", "--top", "2")
    assert done.returncode == 0, done.stderr
    head, output, best, second = done.stdout.splitlines()
    assert head.startswith("efficientnet_lite0 version 1 on CPU: ")
    assert output == "logits f32[1,1000]"
    assert best.split()[1:] == ["espresso", "(967)"]
    assert float(best.split()[0]) > float(second.split()[0])


def test_a_picture_is_sent_as_it_is_where_the_model_takes_files(run: Run) -> None:
    done = run("infer", "files", "-i", f"image={COFFEE}", "--top", "1")
    assert "espresso (967)" in done.stdout, done.stderr
    assert done.stderr == ""


def test_a_picture_that_is_sent_as_it_is_has_no_mean(run: Run) -> None:
    done = run("infer", "files", "-i", COFFEE, "--mean", "127", "--scale", "128", "--json")
    assert done.stderr == "note: without effect: --mean, --scale; no input is a picture that is sent as pixels\n"
    assert (done.returncode, json.loads(done.stdout)["model"]) == (0, "files")


def test_what_is_given_may_begin_with_a_hyphen(run: Run) -> None:
    done = run("infer", "files", "-i", "- no picture")
    assert "is no JPEG or PNG file" in done.stderr
    done = run("infer", "efficientnet_lite0", "-i", COFFEE, "--mean", "-1,-2,-3", "--json")
    assert done.returncode == 0, done.stderr


def test_the_order_of_colours_and_numbers_for_each_of_them_are_the_callers(run: Run) -> None:
    flags = ("--mean", "127,127,127", "--scale", "128,128,128", "--json", "--top", "1")
    red_first, blue_first = (
        json.loads(run("infer", "efficientnet_lite0", "-i", COFFEE, *flags, *more).stdout)["outputs"][0]["classes"][0]
        for more in ((), ("--bgr",))
    )
    assert red_first[0]["label"] == "espresso"
    assert blue_first[0]["probability"] != pytest.approx(red_first[0]["probability"], abs=1e-3)


def test_an_array_of_several_rows_is_answered_row_by_row(run: Run, digits: Path) -> None:
    done = run("infer", "digits_mlp", "--input", digits, "--top", "1")
    assert "probabilities f32[2,10]" in done.stdout
    assert "  row 1\n" in done.stdout


def test_json_is_an_input_and_an_answer(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "row.json"
    file.write_text(json.dumps([0.5] * 64))
    answers = [
        json.loads(run("infer", "digits_mlp", "-i", value, "--json", "--top", "3").stdout)
        for value in (str(file), f"pixels={file.read_text()}", f"[{file.read_text()}]")
    ]
    outputs = [answer["outputs"] for answer in answers]
    assert outputs[0] == outputs[1] == outputs[2]
    (output,) = outputs[0]
    assert (output["name"], output["type"], output["shape"]) == ("probabilities", "f32", [1, 10])
    assert len(output["data"]) == 10
    (classes,) = output["classes"]
    assert len(classes) == 3
    assert classes[0]["probability"] == pytest.approx(max(output["data"]))


def test_without_labels_an_output_is_summed_up(run: Run) -> None:
    done = run("infer", "silero_vad_stateful", "-i", json.dumps([0.0] * 576))
    _, output, value = done.stdout.splitlines()
    assert output == "output f32[1,1]"
    assert 0 <= float(value) <= 1


def test_outputs_are_saved(run: Run, digits: Path, tmp_path: Path) -> None:
    done = run("infer", "digits_mlp", "-i", digits, "--save", tmp_path / "out.npz")
    assert done.returncode == 0
    with np.load(tmp_path / "out.npz") as saved:
        assert saved["probabilities"].shape == (2, 10)


def test_where_outputs_cannot_be_saved_is_named(run: Run, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "out.npz").mkdir()
    why = {"out.npz": "which is a folder, expected a file", "no/out.npz": f"and there is no folder '{tmp_path / 'no'}'"}
    for path, reason in why.items():
        done = run("infer", "digits_mlp", "-i", digits, "--save", tmp_path / path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"inferwire: --save is '{tmp_path / path}', {reason}\n"


@pytest.mark.parametrize("before", [None, b"of before"])
def test_what_there_is_no_room_for_leaves_the_file_of_before(
    server: ServerProcess, tmp_path: Path, before: bytes | None
) -> None:
    saved = tmp_path / "out.npz"
    if before is not None:
        saved.write_bytes(before)
    words = ["infer", "efficientnet_lite0", "-i", str(COFFEE), "--save", str(saved), "--address", server.grpc_address]
    line = f"ulimit -f 1; exec {shlex.join([sys.executable, '-m', 'inferwire_cli', *words])}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == f"inferwire: --save is '{saved}', which cannot be written: File too large\n"
    assert done.returncode == 1
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("out.npz", before)] * (
        before is not None
    )


def test_labels_of_ones_own_come_first(run: Run, digits: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(f"digit {number}" for number in range(10)))
    assert " digit " in run("infer", "digits_mlp", "-i", digits, "--labels", labels).stdout


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nobody", "-i", "1"), 1, "'nobody' is not found; there are 'broken', 'digits_mlp', 'efficientnet_lite0'"),
        (("broken", "-i", "1"), 1, "failed to load 'broken' version 1: Unable to read the model"),
        (("digits_mlp",), 2, "model 'digits_mlp' needs 'pixels' f32[?,64]; inputs are given with -i"),
        (("digits_mlp", "-i", "nope"), 1, "input 'pixels' is nope, expected a file that exists, or JSON"),
        (("digits_mlp", "-i", "[1, 2]"), 1, "input 'pixels' has shape [2], expected [?,64]"),
        (("digits_mlp", "-i", '["a"]'), 1, "input 'pixels' has a string at position 0, expected a number"),
        (("digits_mlp", "-i", "[[1], [1, 2]]"), 1, "input 'pixels' is no array"),
        (("digits_mlp", "-i", "[1]", "-i", "[1]"), 2, "input 'pixels' is given twice"),
        (("digits_mlp", "-i", str(COFFEE)), 1, "expected [N,C,H,W] or [N,H,W,C]"),
        (("digits_mlp", "-i", str(DEPLOY / "models/README.md")), 1, "is no picture, .npy or .json file"),
        (("efficientnet_lite0", "-i", str(COFFEE), "--mean", "a"), 2, "--mean is 'a', expected a number or three"),
        (("digits_mlp", "-i", "[" * 100_000), 1, "which is no JSON: it is nested too deeply"),
        (("digits_mlp", "-i", "[0]", "--labels", ""), 2, "expected a path, got nothing"),
        (("digits_mlp", "-i", "[0]", "--save", ""), 2, "expected a path, got nothing"),
        (("efficientnet_lite0", "-i", str(COFFEE), "--mean", "nan"), 2, "--mean is 'nan', expected a number or three"),
        (
            ("efficientnet_lite0", "-i", str(COFFEE), "--scale", "1e99"),
            2,
            "--scale is '1e99', expected a number or three",
        ),
        (("efficientnet_lite0", "-i", str(COFFEE), "--scale", "1e-50"), 2, "is '1e-50', expected numbers other than 0"),
        (("efficientnet_lite0", "-i", str(COFFEE), "--scale", "a"), 2, "--scale is 'a', expected a number or three"),
        (
            ("efficientnet_lite0", "-i", str(COFFEE), "--scale", "1,0,1"),
            2,
            "--scale is '1,0,1', expected numbers other than 0",
        ),
        (
            ("digits_mlp", "-i", "[0]", "--labels", "/nowhere"),
            1,
            "--labels is '/nowhere', which cannot be read: No such file or directory",
        ),
        (
            ("digits_mlp", "-i", "[0]", "--labels", "/dev/zero"),
            1,
            "which cannot be read: it is a device with more than 64 MiB",
        ),
        (("digits_mlp", "-i", "[0]", "--labels", str(COFFEE)), 1, "line 1, column 1: this is not UTF-8"),
        (
            ("digits_mlp", "-i", "[0]", "--save", "out.npy"),
            2,
            "--save is 'out.npy', expected a file that ends in .npz",
        ),
        (("digits_mlp", "-i", "[0]", "--model-version", "7"), 1, "version 7 is not found; it has version 1 (ready)"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    done = run("infer", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistyped_name_of_the_only_input_is_noted_where_it_may_be_a_text(run: Run) -> None:
    noted = f"note: 'picture={COFFEE}' is sent as a text for input 'image'; there is no input 'picture'\n"
    assert run("infer", "files", "-i", f"picture={COFFEE}").stderr.startswith(noted)
    assert run("infer", "files", "-i", f"image={COFFEE}").stderr == ""


def test_a_model_that_was_unloaded_can_be_brought_back(run: Run) -> None:
    assert run("unload", "silero_vad_stateful").returncode == 0
    done = run("infer", "silero_vad_stateful", "-i", "[0]")
    assert done.returncode == 1
    remedy = "it has version 1 (unloaded): `inferwire load silero_vad_stateful` brings it back"
    assert done.stderr.endswith(f"; {remedy}\n")
    assert run("load", "silero_vad_stateful").returncode == 0


def test_labels_that_fit_no_output_are_refused(run: Run, digits: Path) -> None:
    done = run("infer", "digits_mlp", "-i", digits, "--labels", DEPLOY / "models/efficientnet_lite0/labels.txt")
    assert done.returncode == 1
    assert "has 1000 labels, and no output counts so many classes: probabilities f32[2,10]" in done.stderr


def test_a_broken_picture_and_a_broken_array_are_named(run: Run, tmp_path: Path) -> None:
    for name, said in (("broken.png", "cannot be read"), ("broken.npy", "cannot be read as an array")):
        (tmp_path / name).write_text("nothing of the kind")
        done = run("infer", "efficientnet_lite0", "-i", tmp_path / name)
        assert done.returncode == 1
        assert f"{tmp_path / name} {said}" in done.stderr
