"""Unexpected errors: logged in full under an id, which is all that the caller learns of them."""

from __future__ import annotations

from secrets import token_hex

import structlog

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError

log = structlog.stdlib.get_logger()


def logged_bug(event: str, error: BaseException, **details: object) -> ServingError:
    """Log a bug under an id, and give what its caller is told: the id."""
    bug_id = token_hex(4)
    log.error(event, id=bug_id, exc_info=error, **details)
    return ServingError(Code.INTERNAL, f"a bug in the server; its log has more under id {bug_id}")
