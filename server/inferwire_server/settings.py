"""The server's settings: each declared once, for flag, environment variable, default and help.

Nothing else of the server reads the environment, but for variables that are others': OpenTelemetry's, TMPDIR, and those
of terminals, TERM and NO_COLOR.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter, validators

from inferwire_proto.host.flags import PATH, PATHS, SECONDS, WHOLE
from inferwire_server.core.limits import MOST_SLOTS
from inferwire_server.log_options import LogFormat, LogLevel

_SOCKETS = Group("Sockets", sort_key=1)
_MODELS = Group("Models", sort_key=2)
_QUEUE = Group("Queue", sort_key=3)
_CLIENTS = Group("Clients", sort_key=4)
_OPERATION = Group("Operation", sort_key=5)

_PORT = validators.Number(gte=0, lte=65535)
_POSITIVE = validators.Number(gt=0)
_NOT_NEGATIVE = validators.Number(gte=0)
_SLOTS = validators.Number(gt=0, lte=MOST_SLOTS)
_GRPC_MESSAGE = validators.Number(gt=0, lte=2047)
"""gRPC counts the bytes of a message in 31 bits."""

_BUSY_POLL = validators.Number(gte=0, lte=1_000_000)

_WORKERS = validators.Number(gt=0, lte=1024)
"""Each calls every other one; and hardly a machine has so many cores."""

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
            help="Folder of models (NAME/VERSION/model files, or single files), or a single model file.",
        ),
    ] = None
    models: Annotated[
        tuple[str, ...],
        Parameter(
            group=_MODELS,
            name="--model",
            negative=(),
            show_default=False,
            help="A model to serve under a name of its own, NAME=PATH: its folder (VERSION/model files, or the files "
            "alone), or its file; instead of --model-repository. May be repeated.",
        ),
    ] = ()
    config: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_MODELS,
            help="OpenVINO Model Server's configuration file, which names the models; instead of --model-repository.",
        ),
    ] = None
    version_policy: Annotated[
        str,
        Parameter(
            group=_MODELS,
            help="Versions of each model to serve: latest, latest:2 (the two highest), all, or a list such as 1,3.",
        ),
    ] = "latest"
    watch: Annotated[
        bool,
        Parameter(
            group=_MODELS,
            show_default=False,
            help="Load, reload and unload models while serving, as files in the repository change.",
        ),
    ] = False
    device: Annotated[
        str,
        Parameter(group=_MODELS, help="Device to compile the repository's models for: CPU, GPU, AUTO:GPU,CPU, ..."),
    ] = "AUTO"
    properties: Annotated[
        tuple[str, ...],
        Parameter(
            group=_MODELS,
            name="--property",
            negative=(),
            show_default=False,
            help="OpenVINO property to compile the repository's models with, as NAME=VALUE; may be repeated. "
            "PERFORMANCE_HINT is THROUGHPUT unless set. MULTI, HETERO, and AUTO of several devices accept even names "
            "that no device knows.",
        ),
    ] = ()
    slots: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_MODELS,
            validator=_SLOTS,
            help="Inferences that each model runs at once; by default two more than OpenVINO finds optimal.",
        ),
    ] = None
    max_batch: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_MODELS,
            validator=_NOT_NEGATIVE,
            help="Most rows that jobs of a model which wait at the same time may run with as one inference; by default "
            "each runs by itself. Models that cannot batch say max_batch = 0 in their settings.",
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
            help="Library of custom operations for OpenVINO to load, a file on this machine; may be repeated.",
        ),
    ] = ()
    strict_readiness: Annotated[
        bool,
        Parameter(
            group=_MODELS,
            show_default=False,
            help="Report not ready while a model of the repository has failed to load and has no version that serves.",
        ),
    ] = False
    host: Annotated[
        str,
        Parameter(group=_SOCKETS, help="Address to listen on; 0.0.0.0 for all interfaces."),
    ] = "127.0.0.1"
    http_port: Annotated[
        int,
        WHOLE,
        Parameter(group=_SOCKETS, validator=_PORT, help="Port of REST, metrics and API docs; 0 picks a free one."),
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
            help="Unix socket for gRPC besides its port, for callers of the same user or group.",
        ),
    ] = None
    tls_certificate: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_SOCKETS,
            help="PEM file with the certificate of both ports, followed by its intermediate certificates. Both then "
            "speak TLS only. A renewed file is read again.",
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        PATH,
        Parameter(group=_SOCKETS, help="PEM file with the certificate's private key, not encrypted."),
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
    max_connection_age_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_SOCKETS,
            validator=_NOT_NEGATIVE,
            help="Seconds after which callers are told to go on with a new connection, which may lead to another "
            "server; up to a tenth less for each. What runs goes on, and SDK sessions stay. 0 for never.",
        ),
    ] = 0.0
    queue_capacity: Annotated[
        int,
        WHOLE,
        Parameter(group=_QUEUE, validator=_POSITIVE, help="Jobs that may wait per device; further ones are refused."),
    ] = 8192
    max_queued_mb: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_QUEUE,
            validator=_POSITIVE,
            help="Most memory for the inputs of jobs that wait per device, in MiB; by default a quarter of the "
            "machine's, or of the container's.",
        ),
    ] = None
    max_running: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_QUEUE,
            validator=_POSITIVE,
            help="Inferences that run at once per device; by default as many as its model with the most slots has.",
        ),
    ] = None
    time_limit_s: Annotated[
        float | None,
        SECONDS,
        Parameter(
            group=_QUEUE,
            validator=_POSITIVE,
            help="Seconds that a job which names no limit may take, from its arrival to its end; by default any time.",
        ),
    ] = None
    keep_jobs_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_QUEUE, validator=_NOT_NEGATIVE, help="Seconds for which a finished job's result can be collected."
        ),
    ] = 60.0
    max_kept_results_mb: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_QUEUE,
            validator=_POSITIVE,
            help="Most memory for the results of finished jobs, in MiB; the oldest go first. By default 1024, or if "
            "that is less, an eighth of the machine's memory, or of the container's.",
        ),
    ] = None
    max_sequences: Annotated[
        int,
        WHOLE,
        Parameter(
            group=_CLIENTS,
            validator=_POSITIVE,
            help="Callers whose states a stateful model keeps at once; further ones are refused.",
        ),
    ] = 64
    sequences_wait: Annotated[
        bool,
        Parameter(
            group=_CLIENTS,
            show_default=False,
            help="Let callers over --max-sequences wait in the queue until another's states are freed.",
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
        Parameter(
            group=_CLIENTS,
            validator=_NOT_NEGATIVE,
            help="Most memory for the tensors that a session keeps on the server, in MiB.",
        ),
    ] = 1024
    max_tensors_mb: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_CLIENTS,
            validator=_NOT_NEGATIVE,
            help="Most memory for the tensors of all sessions together, in MiB; by default half of the machine's, "
            "or of the container's.",
        ),
    ] = None
    shared_memory: Annotated[
        tuple[str, ...],
        Parameter(
            group=_CLIENTS,
            negative=(),
            show_default=False,
            help="Let clients on this machine pass tensors in shared memory whose key begins with this prefix (/ for "
            "any). They are trusted not to shrink it while it is in use. May be repeated.",
        ),
    ] = ()
    api_key_file: Annotated[
        Path | None,
        PATH,
        Parameter(
            group=_CLIENTS,
            help="File of API keys, one per line. Callers have to show one (authorization: Bearer KEY); health probes "
            "need none. A changed file is read again.",
        ),
    ] = None
    allow_origins: Annotated[
        tuple[str, ...],
        Parameter(
            name="--allow-origin",
            group=_CLIENTS,
            negative=(),
            show_default=False,
            help="Let pages of this origin, as https://app.example:8443 (* for any), call the HTTP port from browsers. "
            "May be repeated.",
        ),
    ] = ()
    allow_uploads: Annotated[
        bool,
        Parameter(group=_CLIENTS, show_default=False, help="Let clients upload models and compile them on the server."),
    ] = False
    allow_imports: Annotated[
        bool,
        Parameter(
            group=_CLIENTS,
            show_default=False,
            help="Let clients import compiled models, which are trusted like the server's own code; needs "
            "--allow-uploads.",
        ),
    ] = False
    allow_exports: Annotated[
        bool,
        Parameter(
            group=_CLIENTS,
            show_default=False,
            help="Let clients export the repository's models, with graph and weights.",
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
        Parameter(group=_CLIENTS, show_default=False, help="Let clients change the log level."),
    ] = False
    max_upload_mb: Annotated[
        int,
        WHOLE,
        Parameter(group=_CLIENTS, validator=_POSITIVE, help="Largest file that a client may upload, in MiB."),
    ] = 4096
    max_uploads_mb: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_CLIENTS,
            validator=_POSITIVE,
            help="Most room for uploaded files, in MiB; by default nine tenths of what is free at the start in the "
            "folder of temporary files; if that folder is in memory, of no more than a quarter of the memory.",
        ),
    ] = None
    session_grace_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_CLIENTS,
            validator=_NOT_NEGATIVE,
            help="Seconds that a session outlives its lost connection before what it owns is freed.",
        ),
    ] = 10.0
    workers: Annotated[
        int,
        WHOLE,
        Parameter(
            group=_OPERATION,
            validator=_WORKERS,
            help="Processes that share the ports, each with its share of the cores and its own copy of the models: for "
            "small models on machines with many cores; at most 1024.",
        ),
    ] = 1
    busy_poll_us: Annotated[
        int | None,
        WHOLE,
        Parameter(
            group=_OPERATION,
            validator=_BUSY_POLL,
            help="Microseconds for which the server keeps looking for the next request, instead of sleeping, if the "
            "one before came within that time; 0 for never. By default 500, and 0 if it has less than two cores.",
        ),
    ] = None
    server_name: Annotated[
        str,
        Parameter(group=_OPERATION, help="Name of the server in its metadata."),
    ] = "inferwire"
    drain_delay_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_OPERATION,
            validator=_NOT_NEGATIVE,
            help="Seconds after SIGTERM to go on taking work while not ready, so that load balancers notice.",
        ),
    ] = 0.0
    grace_s: Annotated[
        float,
        SECONDS,
        Parameter(
            group=_OPERATION,
            validator=_NOT_NEGATIVE,
            help="Seconds after --drain-delay-s that running work has to end.",
        ),
    ] = 30.0
    traces: Annotated[
        bool,
        Parameter(
            group=_OPERATION,
            show_default=False,
            help="Send traces of inferences to an OpenTelemetry collector, by OTLP over HTTP. OpenTelemetry's own "
            "variables, such as OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_TRACES_SAMPLER, say where it is and what it gets. "
            "Needs the extra inferwire[traces].",
        ),
    ] = False
    log_level: Annotated[
        LogLevel,
        Parameter(group=_OPERATION, help="Lowest level to log."),
    ] = "info"
    log_format: Annotated[
        LogFormat,
        Parameter(group=_OPERATION, help="Format of log lines; auto is console on a terminal, else json."),
    ] = "auto"
