"""Labels: where they are read from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions, Source
from inferwire_server.engine.engine import Engine, QueueOptions
from inferwire_server.engine.fake_backend import FakeBackend, FakeModel, echo_spec
from inferwire_server.errors import ServingError
from inferwire_server.repository.entries import Entry
from inferwire_server.repository.label_file import read_labels
from inferwire_server.repository.setting_values import UnfitValue
from inferwire_server.tallies import Tallies


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.txt", "cat\ndog, big\n"),
        ("l.txt", "\ufeffcat \r\ndog, big"),
        ("l.json", '["cat", "dog, big"]'),
    ],
)
def test_they_are_lines_or_a_list(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode())
    assert read_labels(tmp_path, name) == ("cat", "dog, big")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("l.txt", "", 'is "l.txt", expected a file with a label for each class: it is empty'),
        ("l.json", "{}", 'is "l.json", expected a file that can be read: it is JSON, and no list of texts'),
        ("l.json", "[1]", 'is "l.json", expected a file that can be read: it is JSON, and no list of texts'),
        ("l.json", r'["\udce8"]', """is "l.json", expected a file that can be read: 'utf-8' codec can't encode"""),
        ("l.json", "[", 'is "l.json", expected a file that can be read: '),
        (
            "l.json",
            "[" * 200_000,
            'is "l.json", expected a file that can be read: it is JSON that is nested too deeply',
        ),
        ("l.txt", None, 'is "l.txt", expected a file that can be read: No such file or directory'),
    ],
)
def test_what_is_no_list_of_labels_is_named(tmp_path: Path, name: str, text: str | None, expected: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    settings = tmp_path / "inferwire.toml"
    settings.write_text(f'labels = "{name}"')
    with pytest.raises(ServingError) as caught:
        Entry("m", "1", tmp_path, settings_file=settings).settings()
    assert caught.value.code is Code.MODEL_FAILED
    assert caught.value.message.startswith(f"{tmp_path.name}/inferwire.toml: labels {expected}")


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/dev/zero", "it is a device, expected a file"),
        ("pipe", "it is a pipe, expected a file"),
        ("huge.json", "it has 5,120 MiB, expected at most 64"),
    ],
)
def test_a_file_without_an_end_is_no_list_of_labels(tmp_path: Path, name: str, reason: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "huge.json").touch()
    os.truncate(tmp_path / "huge.json", 5 << 30)
    with pytest.raises(UnfitValue, match=f"expected a file that can be read: {reason}"):
        read_labels(tmp_path, name)


async def test_a_model_has_its_labels_if_they_fit() -> None:
    async with Engine(FakeBackend({"m": FakeModel(echo_spec("m", 2))}), QueueOptions(), Tallies().of) as engine:
        model = await engine.load(Source(Path("m.xml")), ModelOptions("m", labels=("a", "b")))
        assert model.options.labels == ("a", "b")
        with pytest.raises(ServingError, match="there are 1 labels, expected as many"):
            await engine.load(Source(Path("m.xml")), ModelOptions("m", labels=("a",)))


def test_a_model_whose_labels_change_has_changed(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "inferwire.toml").write_text('labels = "l.txt"')
    entry = Entry("m", "1", tmp_path / "1", settings_file=tmp_path / "inferwire.toml")
    (tmp_path / "l.txt").write_text("a")
    before = entry.fingerprint()
    assert entry.settings().labels == ("a",)
    (tmp_path / "l.txt").write_text("a\nb")
    assert entry.fingerprint() != before
