"""A model with Triton's `config.pbtxt`: where its settings lie among others, and what follows of a change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.repository.rig import a_rig

from inferwire_proto.errors import Code
from inferwire_server.core.batch_options import BatchOptions
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.stated_ports import StatedPort
from inferwire_server.core.versions import Latest
from inferwire_server.errors import ServingError, UnfitSetting
from inferwire_server.repository.entries import Entry
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.listing import entries_at
from inferwire_server.repository.model_server_config import ConfiguredRepository

BATCHES = 'max_batch_size: 16 input { name: "x" dims: 4 } dynamic_batching { max_queue_delay_microseconds: 500 }'

DEFAULTS = ModelOptions("", "CPU")


def model(root: Path, config: str = "", toml: str = "", *, file: str = "1/model.onnx") -> Path:
    """Lay out a model `m` with these files beside its version."""
    folder = root / "m"
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).touch()
    (folder / "config.pbtxt").write_text(config)
    if toml:
        (folder / "inferwire.toml").write_text(toml)
    return folder


def only(root: Path) -> Entry:
    (entry,) = Repository(root, Latest()).served()
    return entry


def failure(entry: Entry) -> str:
    with pytest.raises(ServingError) as caught:
        entry.model_file(entry.settings().file)
    assert caught.value.code is Code.MODEL_FAILED
    return caught.value.message


def test_its_settings_are_the_model_s(tmp_path: Path) -> None:
    folder = model(
        tmp_path, f'{BATCHES} output {{ label_filename: "names.txt" }} optimization {{ graph {{ level: 1 }} }}'
    )
    (folder / "names.txt").write_text("cat\ndog\n")
    settings = only(tmp_path).settings()
    assert settings.batches == BatchOptions(16, 500)
    assert (settings.labels, settings.label_file) == (("cat", "dog"), "names.txt")
    assert settings.unused == ("optimization.graph.level",)
    assert settings.stated is not None
    assert (settings.stated.inputs, settings.stated.most_rows) == ({"x": StatedPort(dims=(4,))}, 16)


def test_inferwire_toml_lies_over_it_and_a_load_over_both(tmp_path: Path) -> None:
    model(tmp_path, f"{BATCHES} instance_group {{ count: 2 kind: KIND_CPU }}", "max_batch = 8\nslots = 3")
    settings = only(tmp_path).settings()
    assert (settings.batches, settings.slots, settings.device) == (BatchOptions(8, 500), 3, "CPU")
    (loaded,) = Repository(tmp_path, Latest()).served({"m": {"slots": 5}})
    assert (loaded.settings().batches, loaded.settings().slots) == (BatchOptions(8, 500), 5)


@pytest.mark.parametrize("shapes", ["x = [1, 8]", '"" = [1, 8]'])
def test_shapes_of_inferwire_toml_take_the_place_of_its_dims(tmp_path: Path, shapes: str) -> None:
    model(tmp_path, f'{BATCHES} output {{ name: "y" dims: 4 }}', f"[shapes]\n{shapes}")
    entry = only(tmp_path)
    stated = entry.settings().source(entry.model_file()).stated
    assert stated is not None
    assert (stated.inputs, stated.outputs) == ({"x": StatedPort()}, {"y": StatedPort()})


def test_wrong_values_name_the_file_and_its_field(tmp_path: Path) -> None:
    model(tmp_path, "max_batch_size: -1 instance_group { count: -2 }", "weight = 0")
    assert failure(only(tmp_path)) == (
        "m/config.pbtxt: instance_group.count is -2, expected a whole number from 1 up to 65536; max_batch_size is -1, "
        "expected a whole number from 0 up to 2147483647; m/inferwire.toml: weight is 0, expected a number from 0.001 "
        "up to 1000"
    )


def test_a_batch_that_is_said_twice_is_named_as_the_file_says_it(tmp_path: Path) -> None:
    model(tmp_path, 'max_batch_size: 8 parameters { key: "INFERWIRE_MAX_BATCH" value { string_value: "4" } }')
    assert failure(only(tmp_path)) == (
        "m/config.pbtxt: max_batch_size and parameters.INFERWIRE_MAX_BATCH are both set, expected one of them: "
        "they say the same"
    )


@pytest.mark.parametrize("batch", ["4", "-4"])
def test_wrong_values_beside_a_batch_among_the_parameters_name_their_fields(tmp_path: Path, batch: str) -> None:
    said = f'parameters {{ key: "INFERWIRE_MAX_BATCH" value {{ string_value: "{batch}" }} }}'
    model(tmp_path, f"instance_group {{ count: -2 }} {said}")
    assert "instance_group.count is -2, expected a whole number" in failure(only(tmp_path))


def test_what_does_not_fit_the_model_is_told_by_the_field(tmp_path: Path) -> None:
    model(tmp_path, 'model_warmup { inputs { key: "x" value { dims: 4 } } } instance_group { count: 2 }', "slots = 3")
    entry = only(tmp_path)
    told = [entry.why_unfit(UnfitSetting([name], "why"), DEFAULTS).message for name in ("warm_up", "slots")]
    assert told == ['m/config.pbtxt: model_warmup is {"x": [4]}: why', "m/inferwire.toml: slots is 3: why"]


def test_its_version_policy_chooses(tmp_path: Path) -> None:
    model(tmp_path, "version_policy { all { } }")
    model(tmp_path, "version_policy { all { } }", file="3/model.onnx")
    assert [entry.version for entry in Repository(tmp_path, Latest()).served()] == ["1", "3"]


@pytest.mark.parametrize("file", ["1/model.py", "model.py"])
def test_a_model_of_another_backend_fails_with_the_reason(tmp_path: Path, file: str) -> None:
    model(tmp_path, 'backend: "python"', file=file)
    assert "m/config.pbtxt: backend is 'python', expected one of openvino, " in failure(only(tmp_path))


def test_a_model_without_files_fails_instead_of_being_passed_over(tmp_path: Path) -> None:
    model(tmp_path, file="README.md")
    assert failure(only(tmp_path)).endswith(".pb .pbtxt), found none")


def test_it_is_no_model_itself(tmp_path: Path) -> None:
    folder = model(tmp_path, file="model.xml")
    assert only(tmp_path).model_file() == folder / "model.xml"
    (tmp_path / "config.pbtxt").touch()
    assert only(tmp_path).name == "m"
    assert entries_at(tmp_path / "config.pbtxt") == []


def test_the_folder_of_one_model_may_be_the_repository(tmp_path: Path) -> None:
    folder = model(tmp_path, 'name: "m" max_batch_size: 4')
    entry = only(folder)
    assert (entry.name, entry.version, entry.settings().batches) == ("m", "1", BatchOptions(4))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("kind", ["folder", "link to nothing", "no end", "pipe", "no text"])
def test_one_that_cannot_be_read_fails_its_model(tmp_path: Path, kind: str) -> None:
    file = model(tmp_path) / "config.pbtxt"
    file.unlink()
    match kind:
        case "folder":
            file.mkdir()
        case "link to nothing":
            file.symlink_to("nowhere")
        case "no end":
            file.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(file)
        case _:
            file.write_bytes(b"# of M\xc3\xbcller\nname: \xff")
            assert failure(only(tmp_path)).endswith("line 2, column 7: this is not UTF-8, expected a text file that is")
    assert failure(only(tmp_path)).startswith("m/config.pbtxt cannot be read: ")


def test_a_saved_model_lies_in_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = model(tmp_path, 'platform: "tensorflow_savedmodel"', file="1/model.savedmodel/saved_model.pb")
    assert only(tmp_path).model_file() == folder / "1/model.savedmodel"


def test_of_several_files_it_says_which_is_the_model(tmp_path: Path) -> None:
    folder = model(tmp_path, 'default_model_filename: "b.onnx"', file="1/a.onnx")
    entry = only(tmp_path)
    assert (
        failure(entry)
        == "version 1 of model 'm' has no model file 'b.onnx', which the model's settings name, found a.onnx"
    )
    (folder / "1/b.onnx").touch()
    assert entry.model_file(entry.settings().file) == folder / "1/b.onnx"
    model(tmp_path, toml='file = "a.onnx"')
    entry = only(tmp_path)
    assert entry.model_file(entry.settings().file) == folder / "1/a.onnx"


def test_a_change_of_it_is_a_change_of_the_model(tmp_path: Path) -> None:
    folder = model(tmp_path)
    before = only(tmp_path).fingerprint()
    (folder / "config.pbtxt").write_text("max_batch_size: 4")
    changed = only(tmp_path).fingerprint()
    (folder / "labels.txt").touch()
    labelled = only(tmp_path).fingerprint()
    (folder / "config.pbtxt").unlink()
    gone = only(tmp_path).fingerprint()
    assert len({before, changed, labelled, gone}) == 4


def test_openvino_model_server_s_configuration_does_without_it(tmp_path: Path) -> None:
    folder = model(tmp_path, 'name: "other" backend: "python"')
    file = tmp_path / "config.json"
    file.write_text('{"model_config_list": [{"config": {"name": "a", "base_path": "m"}}]}')
    (entry,) = ConfiguredRepository(file, Latest()).served()
    assert entry.settings().stated is None
    assert entry.model_file() == folder / "1/model.onnx"


async def test_a_model_is_reloaded_as_it_changes_and_says_what_has_no_effect(tmp_path: Path) -> None:
    async with a_rig(tmp_path, "m") as rig:
        config = tmp_path / "m" / "config.pbtxt"
        await rig.loader.sync()
        assert rig.catalogue.find("m").require().slots == 2
        config.write_text("instance_group { count: 5 gpus: 0 }")
        with capture_logs() as lines:
            assert await rig.loader.sync()
        assert rig.catalogue.find("m").require().slots == 5
        assert [(line["model"], line["fields"]) for line in lines if line["event"] == "fields without effect"] == [
            ("m", ("instance_group.gpus",))
        ]
        config.write_text("instance_group {\n  cuont: 5\n}")
        assert await rig.loader.sync()
        served = rig.catalogue.find("m")
        assert served.require().slots == 5
        assert "m/config.pbtxt cannot be read: line 2, column 3: " in served.reason
        assert not await rig.loader.sync()
        config.unlink()
        assert await rig.loader.sync()
        assert rig.catalogue.find("m").require().slots == 2
