"""Flags and environment variables, as an operator combines them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError

from inferwire.transport.address import ENVIRONMENT_VARIABLE
from inferwire.transport.credentials import API_KEY_VARIABLE, ROOT_CERTIFICATES_VARIABLE
from inferwire_cli.commands import run_command
from inferwire_cli.serve import serve
from inferwire_proto.host.flags import OF_CALLERS, environment, not_settings
from inferwire_server.__main__ import run
from inferwire_server.settings import Settings

DEFAULTS = Settings()


def parsed(words: str = "", **variables: str) -> Settings:
    """Read flags and variables as `inferwire serve` does."""
    app = App(config=environment(), result_action="return_value")

    @app.default
    def serve(*, settings: Settings = DEFAULTS) -> Settings:
        return settings

    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        return app(words.split(), exit_on_error=False)


def test_a_flag_wins_over_the_variable() -> None:
    assert parsed("--workers 3", INFERWIRE_WORKERS="2").workers == 3
    assert parsed(INFERWIRE_WORKERS="2").workers == 2


@pytest.mark.parametrize("name", ["WORKERS", "MODEL_REPOSITORY", "WATCH", "PROPERTY", "LOG_LEVEL", "GRACE_S"])
def test_an_empty_variable_is_as_none(name: str) -> None:
    assert parsed(**{f"INFERWIRE_{name}": ""}) == DEFAULTS


def told(**variables: str) -> dict[str, str]:
    """Give what the server says of variables that are no settings."""
    return {
        name.removeprefix("INFERWIRE_"): reason
        for name, reason in not_settings(Settings, {f"INFERWIRE_{name}": value for name, value in variables.items()})
    }


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("API_KEYS_FILE", "API_KEY_FILE"),
        ("TLS_CERT", "TLS_CERTIFICATE"),
        ("PROPERTIES", "PROPERTY"),
        ("EXTENSIONS", "EXTENSION"),
    ],
)
def test_a_misspelled_variable_is_told_with_what_it_may_have_been_meant_as(name: str, meant: str) -> None:
    assert told(**{name: "x"}) == {
        name: f"INFERWIRE_{name} is set, and there is no such setting; did you mean INFERWIRE_{meant}?"
    }


def test_a_variable_that_is_like_no_setting_is_told_alone() -> None:
    assert told(XYZ="1", WATCH="1") == {"XYZ": "INFERWIRE_XYZ is set, and there is no such setting"}
    assert list(not_settings(Settings, {"HOME": "/", "INFER_WATCH": "1", "INFERWIRE_XYZ": ""})) == []


def test_variables_of_settings_and_of_callers_are_not_told() -> None:
    app = App(config=environment())
    app.default(run)
    flags = [argument.name for argument in app.assemble_argument_collection() if argument.name.startswith("--")]
    assert len(flags) == len(fields(Settings))
    assert told(**{flag.removeprefix("--").replace("-", "_").upper(): "x" for flag in flags}) == {}
    assert {
        ENVIRONMENT_VARIABLE,
        API_KEY_VARIABLE,
        ROOT_CERTIFICATES_VARIABLE,
        "INFERWIRE_HTTP_ADDRESS",
    } == OF_CALLERS


PATHS = ["model-repository", "config", "cache-dir", "grpc-socket", "extension", "api-key-file", "tls-key"]


@pytest.mark.parametrize("name", PATHS)
def test_an_empty_path_is_not_the_working_directory(name: str) -> None:
    with pytest.raises(CycloptsError, match=f"Invalid value for --{name}: expected a path, got nothing"):
        parsed(f"--{name}=")


def test_a_flag_of_files_may_be_repeated() -> None:
    assert parsed("--extension a.so --extension b.so").extensions == (Path("a.so"), Path("b.so"))


@pytest.mark.parametrize("name", ["API_KEY_FILE", "TLS_CERTIFICATE", "TLS_KEY"])
def test_an_empty_variable_that_would_let_everybody_in_is_a_mistake(name: str) -> None:
    with pytest.raises(CycloptsError, match=f"INFERWIRE_{name} is empty, expected a file: without one, do not set it"):
        parsed(**{f"INFERWIRE_{name}": ""})
    assert f"INFERWIRE_{name}" in (serve.__doc__ or ""), "the help says that every empty variable counts as unset"
    flag = "--" + name.lower().replace("_", "-")
    assert parsed(f"{flag} file", **{f"INFERWIRE_{name}": ""}) == parsed(f"{flag} file")


def test_what_a_flag_says_is_to_be_served_wins_over_what_the_environment_says() -> None:
    by_config = parsed("--config c.json", INFERWIRE_MODEL_REPOSITORY="/models")
    assert (by_config.config, by_config.model_repository) == (Path("c.json"), None)
    by_repository = parsed("--model-repository /models", INFERWIRE_CONFIG="c.json")
    assert (by_repository.config, by_repository.model_repository) == (None, Path("/models"))
    by_name = parsed("--model a=/a --model b=/b", INFERWIRE_MODEL_REPOSITORY="/models")
    assert (by_name.models, by_name.model_repository) == (("a=/a", "b=/b"), None)
    assert parsed("--model-repository /models", INFERWIRE_MODEL="a=/a b=/b") == by_repository
    assert parsed(INFERWIRE_MODEL="a=/a b=/b", INFERWIRE_MODEL_REPOSITORY="") == by_name


def test_flags_that_contradict_each_other_are_both_kept_to_be_refused() -> None:
    both = parsed("--config c.json --model-repository /models")
    assert (both.config, both.model_repository) == (Path("c.json"), Path("/models"))
    assert parsed(INFERWIRE_CONFIG="c.json", INFERWIRE_MODEL_REPOSITORY="/models") == both


@pytest.mark.parametrize(
    "words",
    [
        "serve --workers 1.5",
        "serve --slots 2.7",
        "serve --http-port x",
        "serve --max-http-body-mb 0.5",
        "bench digits_mlp --number 2.5",
        "bench digits_mlp --concurrency 1.5",
        "infer digits_mlp --top 1.5",
    ],
)
def test_a_whole_number_is_not_rounded(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words.split()) == 2
    flag, given = words.split()[-2:]
    said = capsys.readouterr()
    assert f"Invalid value for {flag}: expected a whole number, got '{given}'" in said.out + said.err


def test_a_grpc_message_is_as_large_as_grpc_can_say() -> None:
    assert parsed("--max-grpc-message-mb 2047").max_grpc_message_mb == 2047
    with pytest.raises(CycloptsError, match=r'Invalid value "2048" for "?--max-grpc-message-mb"?\. Must be <= 2047'):
        parsed("--max-grpc-message-mb 2048")


def test_a_server_has_no_more_workers_than_a_machine_has_cores() -> None:
    assert parsed("--workers 1024").workers == 1024
    with pytest.raises(CycloptsError, match=r'Invalid value "1025" for "?--workers"?\. Must be <= 1024'):
        parsed("--workers 1025")


def test_a_model_has_no_more_slots_than_help() -> None:
    assert parsed("--slots 65536").slots == 65536
    with pytest.raises(CycloptsError, match=r'Invalid value "65537" for "?--slots"?\. Must be <= 65536'):
        parsed("--slots 65537")


def test_batching_is_a_flag_and_a_variable_as_others_are() -> None:
    assert parsed("--max-batch 64").max_batch == parsed(INFERWIRE_MAX_BATCH="64").max_batch == 64
    with pytest.raises(CycloptsError, match="INFERWIRE_MAX_BATCH: expected a whole number, got 'many'"):
        parsed(INFERWIRE_MAX_BATCH="many")


def test_a_variable_that_is_wrong_is_named() -> None:
    with pytest.raises(CycloptsError, match=r"INFERWIRE_SLOTS: expected a whole number, got '2\.7'"):
        parsed(INFERWIRE_SLOTS="2.7")


DURATIONS = [field.name for field in fields(Settings) if field.name.endswith("_s")]


@pytest.mark.parametrize("given", ["inf", "nan", "-inf", "1e999", "soon"])
@pytest.mark.parametrize("name", DURATIONS)
def test_a_duration_has_an_end(name: str, given: str) -> None:
    sentence = re.escape(f"expected a finite number of seconds, got '{given}'")
    with pytest.raises(CycloptsError, match=sentence):
        parsed(f"--{name.replace('_', '-')}={given}")
    with pytest.raises(CycloptsError, match=f"INFERWIRE_{name.upper()}: {sentence}"):
        parsed(**{f"INFERWIRE_{name.upper()}": given})


@pytest.mark.parametrize("name", DURATIONS)
def test_a_duration_may_be_as_long_as_one_likes(name: str) -> None:
    assert getattr(parsed(f"--{name.replace('_', '-')} 1.5e9"), name) == 1.5e9


@pytest.mark.parametrize("words", ["bench m --seconds nan", "top --interval inf"])
def test_a_command_that_would_have_no_end_says_so(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words.split()) == 2
    said = capsys.readouterr()
    assert "expected a finite number of seconds, got" in said.out + said.err
