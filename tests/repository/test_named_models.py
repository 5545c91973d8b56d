"""Models that flags name one by one, wherever they lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import without_rights

from inferwire_proto.errors import Code
from inferwire_server.core.versions import Latest, Specific
from inferwire_server.errors import ServingError
from inferwire_server.repository.named_models import NamedModels


def named(folder: Path, *files: str, at: str = "m") -> NamedModels:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return NamedModels({"mine": folder / at}, Latest())


@pytest.mark.parametrize(
    ("at", "files", "expected"),
    [
        ("m", ("m/model.xml", "m/model.bin", "m/labels.txt"), ("1", "m/model.xml")),
        ("m", ("m/1/model.xml", "m/7/model.xml"), ("7", "m/7/model.xml")),
        ("m", ("m/resnet.onnx",), ("1", "m/resnet.onnx")),
        ("m", ("m/saved_model.pb", "m/variables/variables.index"), ("1", "m")),
        ("m.onnx", ("m.onnx", "other.onnx"), ("1", "m.onnx")),
    ],
)
def test_a_model_has_the_given_name_however_it_lies(
    tmp_path: Path, at: str, files: tuple[str, ...], expected: tuple[str, str]
) -> None:
    (entry,) = named(tmp_path, *files, at=at).served()
    assert entry.name == "mine"
    assert (entry.version, entry.model_file().relative_to(tmp_path).as_posix()) == expected


def test_several_come_as_they_are_given_each_with_its_settings(tmp_path: Path) -> None:
    named(tmp_path, "a/model.onnx", "b/1/model.onnx")
    (tmp_path / "a/inferwire.toml").write_text("slots = 3")
    (tmp_path / "b/inferwire.toml").write_text("slots = 4")
    served = NamedModels(
        {"second": tmp_path / "b", "first": tmp_path / "a", "again": tmp_path / "a"}, Latest()
    ).served()
    assert [(entry.name, entry.settings().slots) for entry in served] == [("second", 4), ("first", 3), ("again", 3)]


def test_tritons_file_may_call_the_model_something_else(tmp_path: Path) -> None:
    models = named(tmp_path, "m/1/model.onnx")
    (tmp_path / "m/config.pbtxt").write_text('name: "theirs" instance_group { count: 3 }')
    (entry,) = models.served()
    assert entry.settings().slots == 3


def test_what_a_load_brings_is_over_the_models_own_settings(tmp_path: Path) -> None:
    models = named(tmp_path, "m/1/model.onnx")
    (tmp_path / "m/inferwire.toml").write_text("slots = 3\npriority = 1")
    (entry,) = models.served({"mine": {"slots": 5}})
    assert (entry.settings().slots, entry.settings().priority) == (5, 1)


def test_a_repository_is_no_model(tmp_path: Path) -> None:
    (entry,) = named(tmp_path, "m/a/1/model.xml", "m/b/1/model.xml").served()
    with pytest.raises(ServingError, match="it has no version folder and no model file") as caught:
        entry.model_file()
    assert caught.value.code is Code.MODEL_FAILED


def test_a_place_where_nothing_is_is_refused_by_the_models_name(tmp_path: Path) -> None:
    with pytest.raises(ServingError) as caught:
        named(tmp_path).served()
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message == f"model 'mine' is to be served from '{tmp_path / 'm'}', which does not exist"


def test_one_model_is_listed_whatever_has_become_of_the_others(tmp_path: Path) -> None:
    named(tmp_path, "a/model.onnx")
    models = NamedModels({"a": tmp_path / "a", "b": tmp_path / "b"}, Latest())
    assert [(entry.name, entry.version) for entry in models.served(name="a")] == [("a", "1")]
    assert models.served(name="c") == []


def test_a_folder_where_nobody_may_go_fails_its_model_alone(readable_by_all: Path) -> None:
    named(readable_by_all, "a/m/1/model.onnx", "b/1/model.onnx")
    models = NamedModels({"closed": readable_by_all / "a/m", "open": readable_by_all / "b"}, Latest())
    (readable_by_all / "a").chmod(0)
    try:
        with without_rights():
            closed, opened = models.served()
            assert opened.model_file() == readable_by_all / "b/1/model.onnx"
            with pytest.raises(ServingError, match="its folder cannot be read"):
                closed.model_file()
    finally:
        (readable_by_all / "a").chmod(0o755)


def test_a_model_of_which_no_version_is_asked_for_does_not_load(tmp_path: Path) -> None:
    named(tmp_path, "m/1/model.xml", "n/3/model.xml")
    models = NamedModels({"mine": tmp_path / "m", "yours": tmp_path / "n"}, Specific(frozenset({3})))
    mine, yours = models.served()
    with pytest.raises(ServingError, match="it has no version but 1, expected one that its version policy asks for"):
        mine.model_file()
    assert (mine.name, yours.model_file()) == ("mine", tmp_path / "n/3/model.xml")
    assert repr(models) == f"<NamedModels mine={tmp_path}/m, yours={tmp_path}/n>"


def test_the_folders_to_watch_are_those_of_the_models(tmp_path: Path) -> None:
    named(tmp_path, "a/model.onnx", "b.onnx")
    models = NamedModels({"a": tmp_path / "a", "b": tmp_path / "b.onnx"}, Latest())
    assert models.folders() == {tmp_path / "a", tmp_path}
