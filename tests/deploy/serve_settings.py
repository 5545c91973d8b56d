"""The settings that `inferwire serve` reads from the flags and variables of a manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from cyclopts import App

from inferwire_proto.host.flags import ENV_PREFIX, environment
from inferwire_server.settings import Settings

DEFAULTS = Settings()


def _app() -> App:
    made = App(config=environment(), result_action="return_value")

    @made.default
    def serve(*, settings: Settings = DEFAULTS) -> Settings:
        return settings

    return made


VARIABLES = {
    ENV_PREFIX + name.removeprefix("--").replace("-", "_").upper()
    for argument in _app().assemble_argument_collection()
    for name in argument.names
}
"""The variables that the server reads."""


def settings_of(flags: Sequence[str], variables: Mapping[str, str]) -> Settings:
    """Read flags and variables as `inferwire serve` does."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        return _app()(flags, exit_on_error=False)
