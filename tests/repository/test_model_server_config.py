"""OpenVINO Model Server's configuration file as a repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import without_rights

from inferwire_proto.errors import Code
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.versions import Latest
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.repository.entries import Entry
from inferwire_server.repository.model_server_config import ConfiguredRepository

DEFAULTS = ModelOptions("", "CPU")


def write(folder: Path, *models: dict[str, Any], **sections: object) -> ConfiguredRepository:
    """Write the file beside the models."""
    file = folder / "config.json"
    file.write_text(json.dumps({"model_config_list": [{"config": model} for model in models], **sections}))
    return ConfiguredRepository(file, Latest())


def lay_out(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def refusal(repository: ConfiguredRepository) -> str:
    with pytest.raises(ServingError) as caught:
        repository.served()
    assert caught.value.code is Code.INVALID_INPUT
    return caught.value.message


def named(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(entry.name, entry.version) for entry in entries]


def test_models_have_the_files_names_and_their_folders_versions(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.xml", "a/2/m.xml", "a/10/m.xml", "elsewhere/b/1/m.onnx")
    served = write(
        tmp_path,
        {"name": "first", "base_path": str(tmp_path / "a"), "model_version_policy": {"latest": {"num_versions": 2}}},
        {"name": "second", "base_path": "elsewhere/b"},
        {"name": "again", "base_path": "a"},
    ).served()
    assert named(served) == [("first", "2"), ("first", "10"), ("second", "1"), ("again", "10")]
    assert served[0].model_file() == tmp_path / "a/2/m.xml"


def test_a_model_of_which_no_version_is_asked_for_does_not_load(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.xml")
    asked = {"specific": {"versions": [3]}}
    (entry,) = write(tmp_path, {"name": "m", "base_path": "a", "model_version_policy": asked}).served()
    with pytest.raises(ServingError, match="it has no version but 1, expected one that its version policy asks for"):
        entry.model_file()


def test_settings_are_those_of_the_file_over_those_beside_the_model(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.onnx")
    (tmp_path / "a/inferwire.toml").write_text('slots = 1\npriority = 3\n[properties]\nA = "toml"\nB = "toml"')
    (entry,) = write(tmp_path, {"name": "a", "base_path": "a", "nireq": 4, "plugin_config": {"B": "config"}}).served()
    settings = entry.settings()
    assert (settings.slots, settings.priority) == (4, 3)
    assert settings.properties == {"A": "toml", "B": "config"}


def test_what_does_not_fit_the_model_is_told_by_the_field(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.onnx")
    (entry,) = write(tmp_path, {"name": "a", "base_path": "a", "shape": {"x": "(1,5)"}, "layout": "N?C"}).served()
    told = [
        entry.why_unfit(UnfitSetting(path, "why"), DEFAULTS).message for path in (["shapes", "x"], ["preprocessing"])
    ]
    steps = "what layout, precision, color_format, mean and scale say as preprocessing"
    assert told == [
        "config.json: shape.x is [1, 5]: why",
        f'config.json: {steps} is {{"": {{"layout": "N?C", "model_layout": "N?C"}}}}: why',
    ]


def test_a_change_of_its_own_section_alone_makes_a_model_new(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.onnx", "b/1/m.onnx")
    models = [{"name": name, "base_path": name, "nireq": 2} for name in "ab"]
    before = [entry.fingerprint() for entry in write(tmp_path, *models).served()]
    models[1]["nireq"] = 3
    after = [entry.fingerprint() for entry in write(tmp_path, *models).served()]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]


def test_a_model_that_is_not_there_leaves_the_others(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.onnx", "empty/readme.md")
    models = [{"name": name, "base_path": name} for name in ("a", "gone", "empty")]
    there, gone, empty = write(tmp_path, *models).served()
    assert there.model_file() == tmp_path / "a/1/m.onnx"
    with pytest.raises(ServingError, match=f"its folder cannot be read: there is no '{tmp_path}/gone'"):
        gone.model_file()
    with pytest.raises(ServingError, match="it has no version folder and no model file"):
        empty.model_file()


def test_a_model_where_nobody_may_go_leaves_the_others(readable_by_all: Path) -> None:
    lay_out(readable_by_all, "a/1/m.onnx", "closed/b/1/m.onnx")
    repository = write(readable_by_all, *({"name": path[-1], "base_path": path} for path in ("a", "closed/b")))
    (readable_by_all / "closed").chmod(0o000)
    try:
        with without_rights():
            there, closed = repository.served()
            assert there.model_file() == readable_by_all / "a/1/m.onnx"
            before = closed.fingerprint()
            with pytest.raises(ServingError, match=r"its folder cannot be read: .*Permission denied"):
                closed.model_file()
    finally:
        (readable_by_all / "closed").chmod(0o755)
    assert repository.served()[1].fingerprint() != before


def test_one_model_is_listed_by_its_name(tmp_path: Path) -> None:
    lay_out(tmp_path, "a/1/m.onnx", "b/1/m.onnx")
    models = write(tmp_path, *({"name": name, "base_path": name} for name in "ab"))
    assert named(models.served(name="b")) == [("b", "1")]
    assert models.served(name="c") == []


def test_a_file_of_one_model_and_none_at_all(tmp_path: Path) -> None:
    lay_out(tmp_path, "a.onnx")
    assert named(write(tmp_path, {"name": "a", "base_path": "a.onnx"}).served()) == [("a", "1")]
    assert write(tmp_path).served() == []


def test_sections_without_content_and_monitoring_are_taken(tmp_path: Path) -> None:
    monitoring = {"metrics": {"enable": True, "metrics_list": ["ovms_requests_success"]}}
    assert write(tmp_path, mediapipe_config_list=[], monitoring=monitoring).served() == []


def test_everything_that_is_not_offered_is_named_in_one_message(tmp_path: Path) -> None:
    repository = write(
        tmp_path,
        {"name": "a", "base_path": "a", "shape": "all", "nirqe": 1},
        {"name": "a", "base_path": "s3://bucket/a"},
        {"base_path": 3},
        mediapipe_config_list=[{"name": "graph"}],
        pipelines=[],
    )
    message = refusal(repository)
    for part in (
        f"the configuration '{tmp_path}/config.json': mediapipe_config_list: graphs of MediaPipe",
        "pipelines is no section of the file",
        "model 'a': shape is \"all\"",
        "model 'a': nirqe is no field of a model",
        "model 'a': base_path is 's3://bucket/a', expected a folder of this machine",
        "model_config_list[2]: name has to be a text",
        "model_config_list[2]: base_path has to be a text",
        "model 'a' is there twice",
        "docs/from-openvino-model-server.md",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "config.json' cannot be read: "),
        ("[" * 200_000, "config.json' cannot be read: it is nested too deeply"),
        (
            r'{"model_config_list": [{"config": {"name": "\udce8"}}]}',
            "codec can't encode character '\\udce8' in position",
        ),
        ("[]", "it is no JSON object"),
        ('{"model_config_list": {}}', "model_config_list is no list"),
        ('{"model_config_list": [{"name": "a"}]}', "model_config_list[0] has no object config"),
        ('{"model_config_list": ["a"]}', "model_config_list[0] has no object config"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert said in refusal(ConfiguredRepository(tmp_path / "config.json", Latest()))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    repository = ConfiguredRepository(tmp_path / "gone.json", Latest())
    assert refusal(repository) == f"the configuration '{tmp_path}/gone.json' cannot be read: No such file or directory"
    assert repository.folders() == {tmp_path}
    assert repr(repository) == f"<ConfiguredRepository {tmp_path}/gone.json>"


@pytest.mark.usefixtures("little_memory")
def test_what_has_no_end_is_named_as_such() -> None:
    repository = ConfiguredRepository(Path("/dev/zero"), Latest())
    assert refusal(repository) == "the configuration '/dev/zero' cannot be read: it is a device with more than 16 MiB"


def test_folders_are_those_of_the_file_and_of_the_models_that_are_there(tmp_path: Path) -> None:
    lay_out(tmp_path, "models/a/1/m.onnx", "etc/config.json")
    repository = write(
        tmp_path / "etc", {"name": "a", "base_path": "../models/a"}, {"name": "b", "base_path": "../models/b"}
    )
    assert {folder.resolve() for folder in repository.folders()} == {tmp_path / "etc", tmp_path / "models/a"}


def test_a_model_that_is_one_file_is_followed_in_its_folder(tmp_path: Path) -> None:
    lay_out(tmp_path, "models/a.onnx", "etc/config.json")
    repository = write(tmp_path / "etc", {"name": "a", "base_path": str(tmp_path / "models/a.onnx")})
    assert repository.folders() == {tmp_path / "etc", tmp_path / "models"}
