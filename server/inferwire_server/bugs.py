"""Unexpected errors: logged in full under an id, which is what the caller learns of them."""

from __future__ import annotations

from secrets import token_hex

import structlog

from inferwire_proto.errors import Code
from inferwire_server.errors import ServingError, is_lack_of_files

log = structlog.stdlib.get_logger()


def logged_failure(where: str, error: BaseException, **details: object) -> ServingError:
    """Log an unexpected error of a call or a slot, a bug or a lack of memory or files; give the error for callers."""
    status, retry_after_s = None, None
    if isinstance(error, MemoryError):
        event, code, sentence = "out of memory in", Code.TOO_LARGE, "the server is out of memory for this request"
    elif is_lack_of_files(error):
        event, code, sentence = "no more files can be opened in", Code.INTERNAL, "the server can open no more files"
        status, retry_after_s = Code.MODEL_NOT_READY, 1.0
    else:
        event, code, sentence = "bug in", Code.INTERNAL, "a bug in the server"
    error_id = token_hex(4)
    log.error(" ".join((event, where)), id=error_id, exc_info=error, **details)
    sentence = f"{sentence}; its log has more under id {error_id}"
    return ServingError(code, sentence, retry_after_s=retry_after_s, status=status, is_of_server=True)
