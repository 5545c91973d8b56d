"""How log lines look: one structured event each, the libraries' own among them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from io import StringIO
from os import environ
from time import monotonic
from types import MappingProxyType
from typing import TextIO

import structlog

from inferwire_proto.control_characters import written_out
from inferwire_proto.openvino_errors import without_places
from inferwire_server.log_lines import LineHandler
from inferwire_server.log_options import LEVELS, LogFormat, LogLevel
from inferwire_server.seldom import Seldom

_NUMBERS = dict(
    zip(LEVELS, (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL + 1), strict=True)
)
"""The levels as the library counts them, in their order; nothing is logged at the last."""

_LEAST = {
    "grpc": logging.WARNING,
    "hpack": logging.WARNING,
    "PIL": logging.WARNING,
    "opentelemetry.trace": logging.ERROR,
    "uvicorn": logging.ERROR,
    "watchfiles": logging.WARNING,
}
"""The least level of what libraries say, at whatever level the server logs.

The server logs their steps itself: when it starts and stops, and what has become of a change. Pillow logs several lines
for each picture. uvicorn warns of invalid requests, and OpenTelemetry of invalid headers: any caller could fill the log
with these.
"""

_SENDERS = ("opentelemetry.exporter.", "opentelemetry.sdk._shared_internal")
"""How the names of the loggers begin that log traces which cannot be sent, for each try and each span."""

_FIRST = ("timestamp", "level", "event")
"""The fields that a line of JSON begins with."""

_TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
"""Tracebacks without the values of variables: callers' tensors are not for the log."""


def configure(
    log_format: LogFormat, log_level: LogLevel, of_process: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Send all events of this process to stderr, as a person or a machine reads them.

    Each has the fields `of_process`, whichever thread logs it.
    """

    def add_those_of_process(
        _logger: object, _method: str, fields: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        fields.update(of_process)
        return fields

    is_console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        add_those_of_process,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper("%Y-%m-%d %H:%M:%S", utc=False)
        if is_console
        else structlog.processors.TimeStamper("iso", utc=True),
    ]
    renderer: list[structlog.typing.Processor] = (
        [_tell_reasons_in_short, _write_out_controls, _console_renderer()]
        if is_console
        else [
            structlog.processors.ExceptionRenderer(_TRACEBACKS),
            _begin_with_event,
            structlog.processors.JSONRenderer(),
        ]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = _handler()
    handler.addFilter(UnsentTraces())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    logging.basicConfig(handlers=[handler], force=True)
    set_level(log_level)


def _console_renderer() -> structlog.dev.ConsoleRenderer:
    """Show fields in the order in which an event has them: what it is about, then what became of it."""
    return structlog.dev.ConsoleRenderer(
        colors=_has_colours(),
        exception_formatter=_harmless_traceback,
        sort_keys=False,
    )


def _has_colours() -> bool:
    """Whether stderr is a terminal that shows colours, and nobody has said by NO_COLOR that they want none."""
    return sys.stderr.isatty() and environ.get("TERM") != "dumb" and not environ.get("NO_COLOR")


def _tell_reasons_in_short(
    _logger: object, _method: str, fields: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Leave out where in OpenVINO's sources an error arose: where people read along, it hides what went wrong."""
    if isinstance(reason := fields.get("reason"), str):
        fields["reason"] = " ".join(without_places(reason).split())
    return fields


def _write_out_controls(
    _logger: object, _method: str, fields: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Keep what callers chose, such as names of models, from acting on the terminal."""
    return {name: written_out(value) if isinstance(value, str) else value for name, value in fields.items()}


def _harmless_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    stream.write(written_out(text.getvalue()))


def _begin_with_event(_logger: object, _method: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Put the fields first that people look for: they are what remains of a line that is cut short."""
    return {name: fields[name] for name in _FIRST if name in fields} | dict(fields)


class UnsentTraces(logging.Filter):
    """Lets one line a minute through of those that say that traces cannot be sent, and adds what to look at."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._tells = Seldom(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a line is logged."""
        if not record.name.startswith(_SENDERS):
            return True
        if not self._tells.is_due():
            return False
        record.msg = f"traces are not sent to where OTEL_EXPORTER_OTLP_ENDPOINT says: {record.getMessage()}"
        record.args = ()
        return True


def _handler() -> logging.Handler:
    try:
        return LineHandler(sys.stderr)
    except (AttributeError, OSError):
        # stderr is closed, or an object of a program's own that is no file.
        return logging.StreamHandler(sys.stderr)


def level() -> str:
    """Name the least level that is logged; off where none is."""
    least = logging.getLogger().level
    return next((name for name, number in _NUMBERS.items() if least <= number), LEVELS[-1])


def set_level(name: str) -> None:
    """Log from a level on, or with off nothing."""
    least = _NUMBERS[name]
    logging.getLogger().setLevel(least)
    for library, least_of_library in _LEAST.items():
        # A logger that has a level of its own does not heed the root's.
        logging.getLogger(library).setLevel(max(least, least_of_library))
