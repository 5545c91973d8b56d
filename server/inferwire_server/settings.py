"""The server's settings: each declared once, for flag, environment variable, default and help.

Nothing else of the server reads the environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter, validators

from inferwire_server.errors import invalid_input
from inferwire_server.flags import PATH, PATHS, SECONDS, WHOLE

_SOCKETS = Group("Sockets", sort_key=1)
_MODELS = Group("Models", sort_key=2)
_QUEUE = Group("Queue", sort_key=3)
_CLIENTS = Group("Clients", sort_key=4)
_OPERATION = Group("Operation", sort_key=5)

_PORT = validators.Number(gte=0, lte=65535)
_POSITIVE = validators.Number(gt=0)
_NOT_NEGATIVE = validators.Number(gte=0)
_GRPC_MESSAGE = validators.Number(gt=0, lte=2047)
"""gRPC counts the bytes of a message in 31 bits."""

MEBIBYTE = 1024 * 1024


@Parameter(name="*")
@dataclass(frozen=True)
class Settings:
    """What an operator decides. The defaults make a good server."""

    model_repository: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_MODELS,
            help="Folder of models (NAME/VERSION/model files, or single files), or one model file.",
        ),
    ] = None
    config: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_MODELS,
            help="Configuration file of OpenVINO Model Server that names the models; instead of a repository.",
        ),
    ] = None
    version_policy: Annotated[
        str,
        Parameter(
            group=_MODELS,
            help="Which versions of each model to serve: latest, latest:2 (the two highest), all, or a list, as 1,3.",
        ),
    ] = "latest"
    watch: Annotated[
        bool,
        Parameter(
            group=_MODELS,
            show_default=False,
            help="Load, reload and unload models as files change in the repository, while it serves.",
        ),
    ] = False
    device: Annotated[
        str,
        Parameter(group=_MODELS, help="Device the repository's models are compiled for: CPU, GPU, AUTO:GPU,CPU, ..."),
    ] = "AUTO"
    properties: Annotated[
        tuple[str, ...],
        Parameter(
            group=_MODELS,
            name="--property",
            negative=(),
            show_default=False,
            help="OpenVINO property to compile them with, as NAME=VALUE; may be repeated. "
            "PERFORMANCE_HINT=THROUGHPUT unless given. AUTO, MULTI and HETERO take names that no device knows, too.",
        ),
    ] = ()
    slots: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_MODELS,
            validator=_POSITIVE,
            help="Inferences each model runs at once; one more than OpenVINO finds optimal unless given.",
        ),
    ] = None
    cache_dir: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_MODELS,
            help="Folder where OpenVINO keeps compiled models, so that the next start or reload is faster.",
        ),
    ] = None
    extensions: Annotated[
        tuple[Path, ...],
        PATHS,
        Parameter(
            group=_MODELS,
            name="--extension",
            negative=(),
            show_default=False,
            help="Library of further operations for OpenVINO to load, a file on this machine; may be repeated.",
        ),
    ] = ()
    strict_readiness: Annotated[
        bool,
        Parameter(
            group=_MODELS, show_default=False, help="Not ready while any model of the repository has failed to load."
        ),
    ] = False
    host: Annotated[
        str,
        Parameter(group=_SOCKETS, help="Address to listen on; 0.0.0.0 for every interface."),
    ] = "127.0.0.1"
    http_port: Annotated[
        int,
        WHOLE,
        Parameter(group=_SOCKETS, validator=_PORT, help="Port of REST, metrics and docs; 0 picks a free one."),
    ] = 8000
    grpc_port: Annotated[
        int,
        WHOLE,
        Parameter(group=_SOCKETS, validator=_PORT, help="Port of gRPC; 0 picks a free one."),
    ] = 8001
    grpc_socket: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_SOCKETS,
            help="Unix socket that gRPC listens at besides its port, for callers of the same user or group.",
        ),
    ] = None
    tls_certificate: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_SOCKETS,
            help="PEM file of the certificate that both ports show, with those between it and its root; they then "
            "speak TLS alone. A file that is renewed is read again.",
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        PATH,
        Parameter(group=_SOCKETS, help="PEM file of the certificate's key, not encrypted."),
    ] = None
    max_http_body_mb: Annotated[
        int,
        WHOLE,
        Parameter(group=_SOCKETS, validator=_POSITIVE, help="Largest HTTP body, in MiB."),
    ] = 64
    max_grpc_message_mb: Annotated[
        int,
        WHOLE,
        Parameter(group=_SOCKETS, validator=_GRPC_MESSAGE, help="Largest gRPC message, in MiB; at most 2047."),
    ] = 256
    queue_capacity: Annotated[
        int,
        WHOLE,
        Parameter(group=_QUEUE, validator=_POSITIVE, help="Jobs that may wait per device; more are refused."),
    ] = 256
    max_running: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_QUEUE,
            validator=_POSITIVE,
            help="Inferences that run at once per device; the most any of its models has slots for unless given.",
        ),
    ] = None
    keep_jobs_s: Annotated[
        float,
        SECONDS,
        Parameter(group=_QUEUE, validator=_NOT_NEGATIVE, help="Seconds a finished job's result can be collected."),
    ] = 60.0
    max_kept_results_mb: Annotated[
        int,
        WHOLE,
        Parameter(
            group=_QUEUE,
            validator=_POSITIVE,
            help="Results of finished jobs that are kept at once, in MiB; the oldest go first.",
        ),
    ] = 1024
    max_sequences: Annotated[
        int,
        WHOLE,
        Parameter(
            group=_CLIENTS,
            validator=_POSITIVE,
            help="Callers whose states each model with states keeps at once; one more is refused.",
        ),
    ] = 64
    sequences_wait: Annotated[
        bool,
        Parameter(
            group=_CLIENTS,
            show_default=False,
            help="Let one more wait, in the queue, until another's states are freed.",
        ),
    ] = False
    sequence_idle_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_CLIENTS,
            validator=_POSITIVE,
            help="Seconds without an inference after which a caller's states are freed.",
        ),
    ] = 600.0
    max_session_tensors_mb: Annotated[
        int,
        WHOLE,
        Parameter(group=_CLIENTS, validator=_NOT_NEGATIVE, help="Tensors that a session may keep here, in MiB."),
    ] = 1024
    max_tensors_mb: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_CLIENTS,
            validator=_NOT_NEGATIVE,
            help="Tensors that all sessions together may keep here, in MiB; half of the machine's memory unless given.",
        ),
    ] = None
    shared_memory: Annotated[
        tuple[str, ...],
        Parameter(
            group=_CLIENTS,
            negative=(),
            show_default=False,
            help="Let clients on this machine pass tensors in shared memory whose key begins with this (/ for any); "
            "they are trusted not to cut it shorter while it is in use. May be repeated.",
        ),
    ] = ()
    api_key_file: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_CLIENTS,
            help="File of the API keys, one in a line, of which callers have to show one (authorization: Bearer KEY); "
            "probes of health need none. A file that changes is read again.",
        ),
    ] = None
    allow_uploads: Annotated[
        bool,
        Parameter(group=_CLIENTS, show_default=False, help="Let clients upload models and compile them here."),
    ] = False
    allow_imports: Annotated[
        bool,
        Parameter(
            group=_CLIENTS,
            show_default=False,
            help="Let clients import models compiled elsewhere, which are trusted as the server's own code is; "
            "needs --allow-uploads.",
        ),
    ] = False
    allow_exports: Annotated[
        bool,
        Parameter(
            group=_CLIENTS, show_default=False, help="Let clients export the repository's models, graph and weights."
        ),
    ] = False
    allow_model_control: Annotated[
        bool,
        Parameter(
            group=_CLIENTS, show_default=False, help="Let clients load, reload and unload the repository's models."
        ),
    ] = False
    allow_log_settings: Annotated[
        bool,
        Parameter(group=_CLIENTS, show_default=False, help="Let clients change the least level that is logged."),
    ] = False
    max_upload_mb: Annotated[
        int,
        WHOLE,
        Parameter(group=_CLIENTS, validator=_POSITIVE, help="Largest file a client may upload, in MiB."),
    ] = 4096
    max_uploads_mb: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_CLIENTS,
            validator=_POSITIVE,
            help="Uploaded files that are here at once, in MiB; nine tenths of what is free in the folder of temporary "
            "files at the start unless given.",
        ),
    ] = None
    session_grace_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_CLIENTS,
            validator=_NOT_NEGATIVE,
            help="Seconds a session outlives its connection before what it owns is freed.",
        ),
    ] = 10.0
    workers: Annotated[
        int,
        WHOLE,
        Parameter(
            group=_OPERATION,
            validator=_POSITIVE,
            help="Processes that share the ports, each with its share of the cores and models of its own: for small "
            "models on machines with many cores.",
        ),
    ] = 1
    server_name: Annotated[
        str,
        Parameter(group=_OPERATION, help="Name the server gives in its metadata."),
    ] = "inferwire"
    drain_delay_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_OPERATION,
            validator=_NOT_NEGATIVE,
            help="Seconds after SIGTERM in which work is still taken, readiness off, for load balancers to notice.",
        ),
    ] = 0.0
    grace_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_OPERATION,
            validator=_NOT_NEGATIVE,
            help="Seconds that work in flight then has to finish; a second signal ends at once.",
        ),
    ] = 30.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Parameter(group=_OPERATION, help="Least level that is logged."),
    ] = "info"
    log_format: Annotated[
        Literal["auto", "console", "json"],
        Parameter(group=_OPERATION, help="How log lines look; auto is console on a terminal, else JSON."),
    ] = "auto"


def parse_properties(pairs: tuple[str, ...]) -> dict[str, str]:
    """Read NAME=VALUE pairs.

    Raises:
        ServingError: INVALID_INPUT for one without a name or an equals sign.
    """
    parsed: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise invalid_input(f"--property is '{pair}', expected NAME=VALUE")
        parsed[name] = value
    return parsed
