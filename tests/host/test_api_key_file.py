"""The file of API keys on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferwire_proto.errors import Code
from inferwire_server.core.api_keys import digest_of
from inferwire_server.errors import ServingError
from inferwire_server.host.api_key_file import read_api_keys

KEY = "a-key-of-the-operator"


def test_the_keys_are_read(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n")
    assert read_api_keys(file).have(digest_of(KEY))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ServingError, match=r"--api-key-file is '.*/keys', which cannot be read: No such file"
    ) as caught:
        read_api_keys(tmp_path / "keys")
    assert caught.value.code is Code.INVALID_INPUT


@pytest.mark.usefixtures("little_memory")
def test_what_has_no_end_is_named_as_such() -> None:
    with pytest.raises(ServingError, match=r"'/dev/zero', which cannot be read: it is a device with more than 16 MiB$"):
        read_api_keys(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\xfe", "which cannot be read: line 1, column 1: this is not UTF-8"),
        (b"short", "which cannot be used: the API key in line 1 has 5 characters, expected 16 or more"),
    ],
)
def test_a_file_that_is_none_of_keys_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(ServingError, match=f"--api-key-file is '.*/keys', {sentence}"):
        read_api_keys(tmp_path / "keys")
