"""The figures that the pages give for limits are those of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferwire_server.from_settings import KEPT_RESULTS_BYTES
from inferwire_server.seldom import INTERVAL_S
from inferwire_server.service.names import LONGEST_NAME
from inferwire_server.settings import MEBIBYTE, Settings
from inferwire_server.transport.http.request_parser import LONGEST_HEAD
from inferwire_server.transport.http.request_timeouts import RequestTimeouts
from inferwire_server.transport.http2.outflow import MOST_UNSENT_BYTES
from inferwire_server.transport.http2.protocol import Http2Timeouts
from inferwire_server.transport.http2.streams import MOST_STREAMS
from inferwire_server.transport.keepalive import PeerTimeouts
from inferwire_server.transport.message_limits import MOST_WAITING_BYTES
from inferwire_server.transport.oip.parameters import NORMAL_PRIORITY
from inferwire_server.transport.rpc import oip_stream
from inferwire_server.transport.rpc.fetching import MOST_UNTAKEN_BYTES
from inferwire_server.transport.rpc.inbox import MOST_UNREAD_BYTES

PAGES = Path(__file__).resolve().parents[1] / "docs"
FLAGS = Settings()
HTTP, GRPC, SESSION = RequestTimeouts(), Http2Timeouts(), PeerTimeouts()


def span(seconds: float) -> str:
    return "a minute" if seconds == 60 else f"{seconds:g} seconds"


NOTICED_S = GRPC.peer.silence_s + GRPC.peer.answer_s + 2 * GRPC.look_s
TOLD = {
    "limits.md": (
        f"It is full when {FLAGS.queue_capacity} jobs wait (`--queue-capacity`)",
        f"warns `jobs find no room`, once {span(INTERVAL_S)} at most",
        f"`priority`: 1 is the most urgent, {NORMAL_PRIORITY} the same as none",
        f"`--max-session-tensors-mb`, {FLAGS.max_session_tensors_mb} |",
        f"`--max-upload-mb`, {FLAGS.max_upload_mb} |",
        f"`--max-kept-results-mb`, {KEPT_RESULTS_BYTES // MEBIBYTE}, or an eighth",
        f"of sequences, jobs, shared memory | {LONGEST_NAME} characters |",
        f"`--max-grpc-message-mb` ({FLAGS.max_grpc_message_mb}) and `--max-http-body-mb` ({FLAGS.max_http_body_mb})",
        # As much waits unread, and as much again may be on its way.
        f"of which a connection has up to {MOST_STREAMS:,} | {2 * MOST_UNREAD_BYTES // MEBIBYTE} MiB of further",
        f"a JSON document of {FLAGS.max_http_body_mb} MiB, or {FLAGS.max_http_body_mb} KiB that are compressed",
        f"Answers that their caller does not take wait for {span(HTTP.answer_s)};",
        f"Answers that their caller does not take wait for {span(GRPC.stall_s)};",
        f"more than {MOST_WAITING_BYTES // MEBIBYTE} MiB of them wait on an SDK session or an OIP stream",
        f"or {MOST_UNSENT_BYTES // MEBIBYTE} MiB on a gRPC connection",
        f"the next once {MOST_UNTAKEN_BYTES // MEBIBYTE} MiB or less wait",
    ),
    "connections.md": (
        f"first bytes | {HTTP.head_s:g} seconds | 408",
        f"the whole of it may take any time | {span(HTTP.body_s)} | 408",
        f"an answer of which nothing more is taken | {span(HTTP.answer_s)} | |",
        f"the size of a head | {LONGEST_HEAD >> 10} KiB | 431",
        f"begun as an SDK session's | {GRPC.peer.hello_s:g} seconds |",
        f"| silence | {GRPC.peer.silence_s:g} seconds | the client is asked whether it is there (HTTP/2's PING)",
        f"| silence after that | {GRPC.peer.answer_s:g} seconds | its calls are cancelled",
        f"the only one of a call that has not come | {span(GRPC.stall_s)} |",
        f"looks at these every {GRPC.look_s:g} seconds: a client that has gone is noticed within {NOTICED_S:g}.",
        f"| silence | {SESSION.silence_s:g} seconds | the client is asked whether it is there |",
        f"takes nothing of what it is sent | {SESSION.answer_s:g} seconds | its session is kept",
    ),
    "from-triton.md": (
        f"in which {FLAGS.queue_capacity} requests may wait",
        f"is read no further while {oip_stream.MOST_WAITING} of its requests are not answered",
        f"the same, with the same defaults, {FLAGS.http_port} and {FLAGS.grpc_port} |",
        f"`--max-http-body-mb`: {FLAGS.max_http_body_mb} unless set",
        f"`--grace-s`, with the same default, {FLAGS.grace_s:g} |",
    ),
}


@pytest.mark.parametrize(("page", "told"), [(page, told) for page, all_told in TOLD.items() for told in all_told])
def test_a_page_has_the_server_s_figure(page: str, told: str) -> None:
    assert told in " ".join((PAGES / page).read_text().split())
