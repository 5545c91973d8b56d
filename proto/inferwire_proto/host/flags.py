"""Reads flags and environment variables, in ways of its own where cyclopts' would surprise an operator.

The server's program and the commands of `inferwire_cli` read theirs in the same way. Needs cyclopts, which the extras
`server` and `cli` bring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from cyclopts import CycloptsError, Parameter, Token
from cyclopts.config import Env

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection

ENV_PREFIX = "INFERWIRE_"

OF_CALLERS = frozenset(f"{ENV_PREFIX}{name}" for name in ("ADDRESS", "HTTP_ADDRESS", "API_KEY", "ROOT_CERTIFICATES"))
"""Variables that the client reads, or a command that calls a server."""

_EITHER = ({"--model-repository", "--model", "--config"},)
"""Sets of flags that say the same thing in different ways: one of each set is given."""


def _whole_number(_: Any, tokens: Sequence[Token]) -> int:
    """Read a whole number; a fraction is refused, not rounded."""
    (token,) = tokens
    try:
        return int(token.value)
    except ValueError:
        raise ValueError(f"expected a whole number, got {token.value!r}") from None


def _seconds(_: Any, tokens: Sequence[Token]) -> float:
    """Read a finite duration."""
    (token,) = tokens
    try:
        seconds = float(token.value)
    except ValueError:
        seconds = inf
    if not isfinite(seconds):
        raise ValueError(f"expected a finite number of seconds, got {token.value!r}")
    return seconds


def _path(kind: Any, tokens: Sequence[Token]) -> Path:
    """Read a path that is not empty: an empty one would mean the working directory."""
    (path,) = _paths(kind, tokens)
    return path


def _paths(_: Any, tokens: Sequence[Token]) -> tuple[Path, ...]:
    """Read paths, none of them empty."""
    if not all(token.value for token in tokens):
        raise ValueError("expected a path, got nothing")
    return tuple(Path(token.value) for token in tokens)


PATH = Parameter(converter=_path)
"""Makes a flag of a file or a folder refuse an empty value, as an unset variable of the shell would give."""

PATHS = Parameter(converter=_paths)
"""The same for a flag that may be repeated."""

WHOLE = Parameter(converter=_whole_number)
"""Makes a flag refuse all but whole numbers."""

SECONDS = Parameter(converter=_seconds)
"""Makes a flag of seconds refuse `inf` and `nan`: no wait may be endless, and no bound refuses nan."""


_CLOSING = {"--api-key-file", "--tls-certificate", "--tls-key"}
"""Flags that keep callers out. If the variable of one is empty, that is a mistake, which would let every caller in."""


class Environment(Env):
    """The environment's variables, over which flags win; an empty variable counts as unset, or is a mistake."""

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Add the values of the environment to those of the flags."""
        super().__call__(app, commands, arguments)
        flagged = {each.name for each in arguments if any(token.source != self.source for token in each.tokens)}
        for argument in arguments:
            if argument.name in _CLOSING and any(
                token.source == self.source and not token.value for token in argument.tokens
            ):
                variable = _variable(argument.name)
                raise CycloptsError(msg=f"{variable} is empty, expected a file: without one, do not set it")
            is_decided = any(argument.name in names and flagged & names for names in _EITHER)
            argument.tokens[:] = [
                token for token in argument.tokens if token.source != self.source or (token.value and not is_decided)
            ]


def environment(*, show: bool = True) -> Environment:
    """Make the environment that commands of an `App` read; with `show` their help names its variables."""
    return Environment(ENV_PREFIX, command=False, show=show)


def not_settings(settings: type, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Give each variable of the environment that looks like one of these settings and is none, with a text about it.

    Nothing reads such a variable. If it is a misspelled one, its setting stays as it is, and callers may be let in
    without a key.
    """
    known = set(_variables_of(settings))
    # Without the prefix that all have in common, which would make them look alike.
    bare = {name.removeprefix(ENV_PREFIX): name for name in known}
    for name, value in sorted(variables.items()):
        if value and name.startswith(ENV_PREFIX) and name not in known | OF_CALLERS:
            alike = get_close_matches(name.removeprefix(ENV_PREFIX), bare, 1)
            meant = f"; did you mean {bare[alike[0]]}?" if alike else ""
            yield name, f"{name} is set, and there is no such setting{meant}"


def _variables_of(settings: type) -> Iterator[str]:
    """Name the variable of each setting: after its flag, if that has another name than the setting."""
    for name, hint in get_type_hints(settings, include_extras=True).items():
        said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        flags = [flag for each in said if isinstance(each, Parameter) for flag in each.name or ()]
        yield _variable(flags[0] if flags else name)


def _variable(flag: str) -> str:
    return ENV_PREFIX + flag.removeprefix("--").replace("-", "_").upper()
