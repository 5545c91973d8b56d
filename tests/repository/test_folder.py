"""Which files are models, under which names and versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from errno import EMFILE
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from shutil import rmtree
from typing import ClassVar

import pytest
from structlog.testing import capture_logs
from tests.conftest import without_rights

from inferwire_proto.errors import Code
from inferwire_server.core.versions import All, Latest, Specific, VersionPolicy
from inferwire_server.errors import ServingError
from inferwire_server.repository.entries import Entry
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.model_settings import ModelSettings


def lay_out(root: Path, *files: str) -> Repository:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return Repository(root, Latest())


def found(root: Path, *files: str) -> list[tuple[str, str, str]]:
    """Name, version and model file of every entry, as the scan finds them."""
    return [
        (entry.name, entry.version, entry.model_file().relative_to(root).as_posix())
        for entry in lay_out(root, *files).scan()
    ]


def failure(entry: Entry) -> str:
    with pytest.raises(ServingError) as caught:
        entry.model_file()
    assert caught.value.code is Code.MODEL_FAILED
    return caught.value.message


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("m/1/model.xml", ("m", "1", "m/1/model.xml")),
        ("m/12/other.onnx", ("m", "12", "m/12/other.onnx")),
        ("m/model.tflite", ("m", "1", "m/model.tflite")),
        ("m.onnx", ("m", "1", "m.onnx")),
        ("m.v2.onnx", ("m.v2", "1", "m.v2.onnx")),
        ("m/01/inference.pdmodel", ("m", "1", "m/01/inference.pdmodel")),
        ("m/1/frozen.pb", ("m", "1", "m/1/frozen.pb")),
        ("m/1/saved_model.pb", ("m", "1", "m/1")),
    ],
)
def test_a_model_is_a_file_or_a_folder_of_versions(tmp_path: Path, file: str, expected: tuple[str, str, str]) -> None:
    assert found(tmp_path, file) == [expected]


def test_models_come_by_name_and_versions_by_number(tmp_path: Path) -> None:
    entries = found(tmp_path, "b/10/m.xml", "b/9/m.xml", "a.onnx", "b/2/m.xml")
    assert [entry[:2] for entry in entries] == [("a", "1"), ("b", "2"), ("b", "9"), ("b", "10")]


def test_what_is_no_model_is_passed_over(tmp_path: Path) -> None:
    files = ("README.md", "m/1/m.xml", "m/1/m.bin", "m/labels.txt", "m/drafts/m.xml", "docs/guide.md", "empty/x/y")
    assert [entry[:2] for entry in found(tmp_path, *files)] == [("m", "1")]


def test_hidden_files_and_folders_are_passed_over(tmp_path: Path) -> None:
    files = (".git/1/m.xml", ".hidden.onnx", "m/1/m.xml", "m/1/._m.xml", "m/.cache/m.xml")
    assert found(tmp_path, *files) == [("m", "1", "m/1/m.xml")]


def test_a_link_to_nothing_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert found(tmp_path, "m.onnx") == [("m", "1", "m.onnx")]


def test_a_saved_model_is_its_folder_whatever_tensorflow_puts_beside_it(tmp_path: Path) -> None:
    files = ("m/1/saved_model.pb", "m/1/fingerprint.pb", "m/1/keras_metadata.pb", "m/1/variables/variables.index")
    assert found(tmp_path, *files) == [("m", "1", "m/1")]


def test_the_folder_of_one_saved_model_is_a_repository_of_one(tmp_path: Path) -> None:
    lay_out(tmp_path, "m/saved_model.pb", "m/fingerprint.pb", "m/variables/variables.index")
    assert Repository(tmp_path / "m", Latest()).scan() == [Entry("m", "1", tmp_path / "m")]


def test_the_folder_of_one_model_is_a_repository_of_one(tmp_path: Path) -> None:
    lay_out(tmp_path, "m/1/m.xml", "m/2/m.xml")
    assert [(entry.name, entry.version) for entry in Repository(tmp_path / "m", Latest()).scan()] == [
        ("m", "1"),
        ("m", "2"),
    ]


def test_one_model_file_is_a_repository(tmp_path: Path) -> None:
    lay_out(tmp_path, "m.onnx", "other.onnx")
    assert Repository(tmp_path / "m.onnx", Latest()).scan() == [Entry("m", "1", tmp_path / "m.onnx")]


def test_an_empty_folder_has_no_models(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_a_repository_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with pytest.raises(ServingError) as caught:
        Repository(missing, Latest()).scan()
    assert caught.value.code is Code.INVALID_INPUT
    assert caught.value.message == f"the model repository '{missing}' does not exist"
    assert repr(Repository(missing, Latest())) == f"<Repository {missing}>"


def test_a_repository_that_is_neither_a_folder_nor_a_file_is_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ServingError, match=f"the model repository '{pipe}' is no folder and no model file"):
        Repository(pipe, Latest()).scan()


@pytest.mark.parametrize(
    ("files", "listed"),
    [
        (("m/1/a.xml", "m/1/b.onnx"), "a.xml, b.onnx; the setting 'file' in its inferwire.toml says which"),
        (("m/1/notes.txt",), "none"),
    ],
)
def test_a_version_holds_exactly_one_model(tmp_path: Path, files: tuple[str, ...], listed: str) -> None:
    (entry,) = lay_out(tmp_path, *files).scan()
    assert failure(entry) == (
        f"version 1 of model 'm' has to hold one model file (.xml .onnx .tflite .pdmodel .pb .pbtxt), found {listed}"
    )


@pytest.mark.parametrize(
    ("files", "pair"),
    [
        (("m.onnx", "m.xml"), "m.onnx and m.xml"),
        (("m/1/m.xml", "m.onnx"), "m and m.onnx"),
        (("m/01/m.xml", "m/1/m.xml"), "01 and 1"),
    ],
)
def test_a_model_that_is_there_twice_is_neither(tmp_path: Path, files: tuple[str, ...], pair: str) -> None:
    entries = lay_out(tmp_path, *files, "fine.onnx").scan()
    assert [entry.name for entry in entries] == ["fine", "m"]
    message = failure(entries[1])
    assert message.startswith("version 1 of model 'm' is in the repository twice: ")
    assert set(message.partition("twice: ")[2].split(" and ")) <= {*pair.split(" and "), "1"}


def served(root: Path, policy: VersionPolicy) -> list[tuple[str, str]]:
    return [(entry.name, entry.version) for entry in Repository(root, policy).served()]


def test_a_policy_is_applied_to_each_model(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/9/m.xml", "a/10/m.xml", "a/2/m.xml", "b.onnx")
    assert served(tmp_path, Latest()) == [("a", "10"), ("b", "1")]
    assert served(tmp_path, Latest(2)) == [("a", "9"), ("a", "10"), ("b", "1")]
    assert served(tmp_path, All()) == [("a", "2"), ("a", "9"), ("a", "10"), ("b", "1")]
    assert served(tmp_path, Specific(frozenset({1, 2, 3}))) == [("a", "2"), ("b", "1")]


def test_a_model_may_have_a_policy_of_its_own(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.xml", "a/2/m.xml", "b/1/m.xml", "b/2/m.xml", "c/1/m.xml", "c/2/m.xml")
    (tmp_path / "a/inferwire.toml").write_text('version_policy = "all"')
    (tmp_path / "b/inferwire.toml").write_text('version_policy = "1"')
    (tmp_path / "c/inferwire.toml").write_text("broken")
    assert served(tmp_path, Latest()) == [("a", "1"), ("a", "2"), ("b", "1"), ("c", "2")]


def test_which_versions_are_served_does_not_depend_on_the_other_settings(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.xml", "a/2/m.xml", "b/1/m.xml", "b/2/m.xml")
    (tmp_path / "a/inferwire.toml").write_text('version_policy = "all"\nlabels = "gone.txt"\nslots = "no"')
    (tmp_path / "b/inferwire.toml").write_text('version_policy = "some"')
    assert served(tmp_path, Latest()) == [("a", "1"), ("a", "2"), ("b", "2")]


class WatchedPath(type(Path())):
    """A path that notes what is looked at."""

    looked_at: ClassVar[set[str]] = set()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        self.looked_at.add(self.name)
        return super().stat(follow_symlinks=follow_symlinks)

    def iterdir(self) -> Generator[Path, None, None]:
        self.looked_at.add(self.name)
        yield from super().iterdir()


@pytest.mark.parametrize("files", [("m/1/m.xml", "m/2/m.xml"), ("m.onnx",), ("m.onnx", "m/1/m.xml")])
def test_one_model_is_listed_as_among_all_without_a_look_at_the_others(tmp_path: Path, files: tuple[str, ...]) -> None:
    lay_out(tmp_path, "a/1/m.xml", "b.onnx", "c/1/m.xml", "z/notes", *files)
    expected = [entry for entry in Repository(tmp_path, All()).served() if entry.name == "m"]
    WatchedPath.looked_at.clear()
    assert Repository(WatchedPath(tmp_path), All()).served({"m": {"slots": 2}}, "m") == expected
    assert expected
    assert WatchedPath.looked_at.isdisjoint({"a", "b.onnx", "c", "z"})


@pytest.mark.parametrize("root", ["m", "m.onnx"])
def test_the_one_model_there_is_is_listed_by_its_name_alone(tmp_path: Path, root: str) -> None:
    lay_out(tmp_path, "m/1/m.xml", "m.onnx")
    repository = Repository(tmp_path / root, Latest())
    assert repository.served(name="m") == repository.served()
    assert repository.served(name="n") == []


@pytest.mark.parametrize(
    ("root", "files"),
    [
        ("", ("m/1/m.xml", "m/inferwire.toml")),
        ("", ("m/m.xml", "m/inferwire.toml")),
        ("m", ("m/1/m.xml", "m/inferwire.toml")),
    ],
)
def test_settings_lie_in_the_model_s_folder(tmp_path: Path, root: str, files: tuple[str, ...]) -> None:
    lay_out(tmp_path, *files)
    (tmp_path / "m/inferwire.toml").write_text("slots = 5")
    (entry,) = Repository(tmp_path / root, Latest()).scan()
    assert entry.settings().slots == 5


def link_to_nothing(file: Path) -> None:
    file.symlink_to("gone")


@pytest.mark.parametrize("make", [Path.mkdir, link_to_nothing])
def test_settings_that_are_there_and_no_file_fail_their_model(tmp_path: Path, make: Callable[[Path], None]) -> None:
    lay_out(tmp_path, "m/1/m.xml", "other.onnx")
    make(tmp_path / "m/inferwire.toml")
    broken, _ = Repository(tmp_path, Latest()).served()
    with pytest.raises(ServingError, match=r"m/inferwire\.toml cannot be read") as failed:
        broken.settings()
    assert failed.value.code is Code.MODEL_FAILED


@pytest.mark.parametrize("name", ["inferwire.toml", "config.pbtxt"])
def test_a_model_is_due_again_once_settings_that_led_nowhere_are_gone(tmp_path: Path, name: str) -> None:
    lay_out(tmp_path, "m/1/m.xml")
    link_to_nothing(tmp_path / "m" / name)
    (broken,) = Repository(tmp_path, Latest()).served()
    before = broken.fingerprint()
    (tmp_path / "m" / name).unlink()
    (whole,) = Repository(tmp_path, Latest()).served()
    assert whole.fingerprint() != before


def test_a_model_needs_no_settings(tmp_path: Path) -> None:
    entries = lay_out(tmp_path, "inferwire.toml", "a.onnx", "b/1/m.xml").scan()
    assert [entry.settings() for entry in entries] == [ModelSettings(), ModelSettings()]


@pytest.mark.parametrize(("closed", "mode"), [("b", 0o000), ("b", 0o444), ("b/1", 0o000), ("b/1", 0o744)])
def test_a_folder_that_cannot_be_read_is_a_model_that_does_not_load(
    readable_by_all: Path, closed: str, mode: int
) -> None:
    repository = lay_out(readable_by_all, "a.onnx", "b/1/m.xml", "c/1/m.xml")
    (readable_by_all / closed).chmod(mode)
    try:
        with without_rights():
            entries = repository.served()
            assert [(entry.name, entry.version) for entry in entries] == [("a", "1"), ("b", "1"), ("c", "1")]
            assert [len(entry.fingerprint()) for entry in entries] == [2, 1, 2]
            assert failure(entries[1]).startswith("its folder cannot be read: [Errno 13] Permission denied: '")
            assert entries[2].model_file().name == "m.xml"
    finally:
        (readable_by_all / closed).chmod(0o755)


@pytest.mark.parametrize("closed", ["m.onnx", "m/1/m.xml", "m/1/saved_model.pb", "m/1/model.savedmodel/saved_model.pb"])
def test_a_file_that_cannot_be_read_is_a_model_that_does_not_load_for_that_reason(
    readable_by_all: Path, closed: str
) -> None:
    (entry,) = lay_out(readable_by_all, closed).served()
    (readable_by_all / closed).chmod(0o000)
    with without_rights():
        reason = failure(entry)
    assert reason == f"its file cannot be read: [Errno 13] Permission denied: '{readable_by_all / closed}'"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_named_as_a_model_and_is_no_file_does_not_load(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "m").mkdir()
    make(tmp_path / "m/m.onnx")
    (entry,) = Repository(tmp_path, Latest()).served()
    assert failure(entry) == f"its file cannot be read: '{tmp_path}/m/m.onnx' is no file"


def test_a_folder_that_the_system_cannot_list_keeps_nobody_from_the_other_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = lay_out(tmp_path, "a.onnx", "b/1/m.xml")
    monkeypatch.chdir(tmp_path / "b/1")
    for name in ["long" * 60] * 20:  # in the end no path may be as long as theirs
        Path(name).mkdir()
        os.chdir(name)
    assert [len(entry.fingerprint()) for entry in repository.served()] == [2, 2]
    monkeypatch.undo()
    rmtree(tmp_path / "b")


def test_a_repository_that_cannot_be_read_is_named(readable_by_all: Path) -> None:
    repository = lay_out(readable_by_all / "models", "a.onnx")
    repository.source.chmod(0o000)
    try:
        with without_rights(), pytest.raises(ServingError) as caught:
            repository.served()
    finally:
        repository.source.chmod(0o755)
    assert caught.value.message == f"the model repository '{repository.source}' cannot be read: Permission denied"
    assert caught.value.code is Code.INVALID_INPUT


def test_where_no_more_files_can_be_opened_it_is_not_the_repository_that_cannot_be_read(tmp_path: Path) -> None:
    repository = lay_out(tmp_path, "a.onnx")
    soft, hard = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            repository.served()
    finally:
        setrlimit(RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("files", [("a/1/m.xml", "b.onnx"), ("a/1/m.xml", "2024/x")])
def test_where_no_more_files_can_be_opened_it_is_no_model_that_cannot_be_read(
    tmp_path: Path, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, iterdir = lay_out(tmp_path, *files), Path.iterdir

    def at_the_limit(folder: Path) -> Iterator[Path]:
        if folder != tmp_path:
            raise OSError(EMFILE, os.strerror(EMFILE))
        return iterdir(folder)

    monkeypatch.setattr(Path, "iterdir", at_the_limit)
    with pytest.raises(OSError, match="Too many open files"):
        repository.served()


def test_a_repository_of_one_model_that_nobody_may_enter_has_no_other_models(readable_by_all: Path) -> None:
    repository = lay_out(readable_by_all / "m", "1/m.xml", "2/m.xml", "labels.txt")
    (readable_by_all / "m").chmod(0o644)
    try:
        with without_rights(), pytest.raises(ServingError, match="cannot be read: Permission denied"):
            repository.served()
    finally:
        (readable_by_all / "m").chmod(0o755)


@pytest.mark.parametrize("name", ["b", "1"])
def test_a_link_to_where_nobody_may_go_is_a_model_that_does_not_load(readable_by_all: Path, name: str) -> None:
    closed = readable_by_all / "closed"
    lay_out(closed, "b/1/m.xml")
    repository = lay_out(readable_by_all / "models", "a.onnx", "c/1/m.xml")
    (readable_by_all / "models" / name).symlink_to(closed / "b")
    closed.chmod(0o000)
    try:
        with without_rights():
            entries = {entry.name: entry for entry in repository.served()}
            assert set(entries) == {"a", name, "c"}
            assert failure(entries[name]).startswith("its folder cannot be read: [Errno 13] Permission denied: '")
            before = entries[name].fingerprint()
    finally:
        closed.chmod(0o755)
    if name == "b":
        assert {entry.name: entry for entry in repository.served()}[name].fingerprint() != before


@pytest.mark.parametrize("file", [b"\xe8/1/m.xml", b"\xe8/m.xml", b"\xe8.onnx"])
def test_a_model_whose_name_is_not_utf_8_is_not_read_and_has_it_escaped(tmp_path: Path, file: bytes) -> None:
    repository = lay_out(tmp_path, "a.onnx", os.fsdecode(file))
    other, odd = repository.served()
    assert [(each.name, each.version) for each in (other, odd)] == [("a", "1"), (r"\xe8", "1")]
    assert failure(odd) == "its name, escaped here, is not UTF-8, expected one that is"
    assert warnings_of(repository) == []


def test_settings_of_a_model_whose_name_is_not_utf_8_are_not_read(tmp_path: Path) -> None:
    folder = os.fsdecode(b"\xe8")
    (entry,) = lay_out(tmp_path, f"{folder}/1/m.xml", f"{folder}/inferwire.toml").served()
    (tmp_path / folder / "inferwire.toml").write_text("broken")
    assert entry.settings() == ModelSettings()


def test_the_folder_of_one_model_whose_name_is_not_utf_8_has_one_that_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"\xe8")
    (entry,) = lay_out(root, "1/m.xml").served()
    assert (entry.name, failure(entry)) == (r"\xe8", "its name, escaped here, is not UTF-8, expected one that is")


def test_what_is_told_of_files_whose_names_are_not_utf_8_has_them_escaped(tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xe8")
    repository = lay_out(tmp_path, f"a/1/{odd}.xml", "a/1/b.xml", f"b/1/{odd}.xml", f"{odd}/{odd}/x")
    two, one = repository.scan()
    assert r"found b.xml, \xe8.xml;" in failure(two)
    assert one.model_file().name == f"{odd}.xml"
    assert warnings_of(repository) == [
        (r"\xe8", r"it has '\xe8', expected model files, or a folder named by a whole number, as 1, with model files")
    ]
    with pytest.raises(ServingError, match=r"/\\xe8/gone' does not exist"):
        Repository(tmp_path / odd / "gone", Latest()).scan()


def test_a_hard_link_to_its_file_makes_a_model_no_other(tmp_path: Path) -> None:
    (entry,) = lay_out(tmp_path / "models", "a.onnx").served()
    before = entry.fingerprint()
    (tmp_path / "backup.onnx").hardlink_to(entry.location)
    assert entry.fingerprint() == before


def test_what_a_file_system_found_is_no_model(tmp_path: Path) -> None:
    assert found(tmp_path, "lost+found/1/m.xml", "a.onnx") == [("a", "1", "a.onnx")]


def warnings_of(repository: Repository, name: str | None = None) -> list[tuple[str, str]]:
    """What the repository says as it, or one of its models, is read."""
    with capture_logs() as logged:
        repository.served(name=name)
    warnings = [line for line in logged if line["log_level"] == "warning"]
    assert all(line["event"] == "passed over" for line in warnings)
    return [(line["folder"], line["reason"]) for line in warnings]


def test_a_folder_without_a_model_is_named_with_what_it_has(tmp_path: Path) -> None:
    repository = lay_out(
        tmp_path, "a/v1/model.xml", "b/1/model.xml", "c/readme", ".git/x", "lost+found/x", "notes.txt", "m.onnx"
    )
    (tmp_path / "empty").mkdir()
    expected = "expected model files, or a folder named by a whole number, as 1, with model files"
    assert warnings_of(repository) == [
        ("a", f"it has 'v1', {expected}"),
        ("c", f"it has 'readme', {expected}"),
        ("empty", f"it has nothing, {expected}"),
    ]


def test_a_folder_that_is_passed_over_is_told_again_only_when_it_has_changed(tmp_path: Path) -> None:
    repository = lay_out(tmp_path, "a/v1/model.xml", "b/1/model.xml")
    assert [folder for folder, _ in warnings_of(repository)] == ["a"]
    assert warnings_of(repository) == []
    (tmp_path / "a/v2").mkdir()
    assert [folder for folder, _ in warnings_of(repository)] == ["a"]
    (tmp_path / "a/v1").rename(tmp_path / "a/1")
    assert warnings_of(repository) == []


def test_who_asks_for_one_model_is_told_of_its_folder_alone(tmp_path: Path) -> None:
    repository = lay_out(tmp_path, "a/v1/model.xml", "b/v1/model.xml", "c/1/model.xml")
    assert [folder for folder, _ in warnings_of(repository, "a")] == ["a"]
    assert [folder for folder, _ in warnings_of(repository, "c")] == []
    assert [folder for folder, _ in warnings_of(repository)] == ["b"]
    (tmp_path / "a/v1").rename(tmp_path / "a/1")
    assert warnings_of(repository, "a") == []
    (tmp_path / "a/1").rename(tmp_path / "a/v1")
    assert [folder for folder, _ in warnings_of(repository)] == ["a"]


def test_a_model_of_which_no_version_is_asked_for_does_not_load(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/model.xml", "a/2/model.xml", "b/3/model.xml")
    repository = Repository(tmp_path, Specific(frozenset({3})))
    assert warnings_of(repository) == []
    unfit, fit = repository.served()
    assert failure(unfit) == "it has no version but 1, 2, expected one that its version policy asks for"
    assert fit.model_file() == tmp_path / "b/3/model.xml"


def test_of_a_folder_that_cannot_be_read_nobody_knows_which_versions_there_are(readable_by_all: Path) -> None:
    lay_out(readable_by_all, "a/1/model.xml")
    repository = Repository(readable_by_all, Specific(frozenset({3})))
    (readable_by_all / "a").chmod(0)
    try:
        with without_rights():
            (closed,) = repository.served()
            assert failure(closed).startswith("its folder cannot be read")
    finally:
        (readable_by_all / "a").chmod(0o755)


@pytest.mark.parametrize("stray", ["2024/x", "2024/model.onnx", "2024/1/model.onnx"])
@pytest.mark.parametrize("model", ["a/1/model.xml", "a.onnx"])
def test_a_folder_named_by_a_number_does_not_hide_the_models_beside_it(tmp_path: Path, stray: str, model: str) -> None:
    repository = lay_out(tmp_path, model, stray)
    assert [(entry.name, entry.version) for entry in repository.scan()] == [("a", "1")]
    assert warnings_of(repository) == [
        ("2024", "it is named as a version is, and lies beside models, expected a name that is no whole number")
    ]


@pytest.mark.parametrize(
    "files", [("1/model.xml", "assets/x"), ("1/model.xml", "lost+found/model.xml"), ("saved_model.pb", "variables/x")]
)
def test_folders_of_one_model_are_its_own_affair(tmp_path: Path, files: tuple[str, ...]) -> None:
    assert warnings_of(lay_out(tmp_path / "m", *files)) == []
    assert warnings_of(Repository(tmp_path / "m" / files[0], Latest())) == []
