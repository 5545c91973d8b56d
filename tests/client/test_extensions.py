"""Libraries of operations are the server's: a program's own path finds the one of the same name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import inferwire as ov
from inferwire.transport.fake_transport import FakeTransport


@pytest.fixture
def core(transport: FakeTransport) -> ov.Core:
    return ov.Core(transport=transport)


@pytest.mark.parametrize("library", ["libfake.so", "/opt/libfake.so.2", b"fake.dll", Path("lib/libfake.dylib"), []])
def test_a_library_that_the_server_has_is_there(core: ov.Core, library: Any) -> None:
    core.add_extension(library)


def test_another_is_refused_with_what_to_do(core: ov.Core) -> None:
    with pytest.raises(ov.PermissionDenied) as caught:
        core.add_extension("/opt/libother.so")
    assert str(caught.value) == (
        "Cannot add extension. The server at fake has not loaded a library 'libother.so', which its operator would "
        "name with --extension; it has libfake.so"
    )


def test_operations_in_python_are_not_offered(core: ov.Core) -> None:
    for extension in (object, [object()], object()):
        with pytest.raises(RuntimeError, match="operations written in Python is not offered"):
            core.add_extension(extension)
    for arguments in ((), ("a", "b")):
        with pytest.raises(TypeError, match=r"add_extension\(\): incompatible function arguments"):
            core.add_extension(*arguments)
