"""What each part of the server is told of the settings: where models are, how they are compiled, what callers may keep.

It builds nothing that has to be closed. `check` comes first: what follows takes settings that do not contradict each
other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from inferwire_proto.properties import MAX_BATCH, Properties
from inferwire_server.core.batch_options import BatchOptions, as_property, divide
from inferwire_server.core.ledger import KeepingTerms
from inferwire_server.core.model_options import ModelOptions
from inferwire_server.core.scheduling.bindings import BindingTerms
from inferwire_server.core.versions import parse_version_policy
from inferwire_server.errors import ServingError, UnfitSetting, invalid_input
from inferwire_server.host.blobs import BlobLimits
from inferwire_server.host.machine import free_temporary_bytes, memory_bytes
from inferwire_server.repository.folder import Repository
from inferwire_server.repository.model_server_config import ConfiguredRepository
from inferwire_server.repository.named_models import NamedModels
from inferwire_server.service.tensors import TensorLimits
from inferwire_server.settings import MEBIBYTE, Settings

AnyRepository: TypeAlias = Repository | ConfiguredRepository | NamedModels
"""Where models are: each has a `source`, which the log names, the entries `served`, the `folders` to watch for changes,
and `why_empty`, which says why there is nothing to serve, where that is so."""


_ORIGIN = re.compile("[a-z][a-z0-9+.-]*://[^/?#A-Z]+")
"""An origin as browsers send it: no path, no slash at the end, and no capital letters."""


_BUSY_POLL_S = 0.0005
"""How long to poll for the next request: a caller that waits for each answer sends it after 50 to 400 microseconds."""

_CPUS_TO_POLL = 2

KEPT_RESULTS_BYTES = 1024 * MEBIBYTE
"""How much results take at most, where nothing else is said, however much memory there is."""

_WORKER_BYTES = 80 * MEBIBYTE
"""How much memory a worker takes without a model."""


def check(settings: Settings) -> None:
    """Refuse settings that contradict each other or the machine, or say nothing; all of them at once.

    Raises:
        ExceptionGroup: Of a ServingError for each, INVALID_INPUT.
    """
    problems = [invalid_input(sentence) for sentence in _contradictions(settings)]
    for read in (_check_policy, batch_options, _locations):
        try:
            read(settings)
        except ServingError as error:
            problems.append(error)
    if problems:
        raise ExceptionGroup("the settings cannot be served", problems)


def _contradictions(settings: Settings) -> Iterator[str]:
    """Say which settings do not go together. Whether properties are valid is not checked here."""
    ways = {
        "--config": settings.config,
        "--model": settings.models or None,
        "--model-repository": settings.model_repository,
    }
    given = [flag for flag, value in ways.items() if value is not None]
    if len(given) > 1:
        yield (
            f"{' and '.join(given)} are {'both' if len(given) == 2 else 'all'} set, expected one: each says what is "
            "served; a variable of the environment, as INFERWIRE_MODEL_REPOSITORY, does not count if it is empty"
        )
    if settings.allow_imports and not settings.allow_uploads:
        yield "--allow-imports is set without --allow-uploads, which it needs: a blob is uploaded first"
    if not settings.host:
        # As an unset variable of the shell gives it: to listen on all interfaces has to be asked for.
        yield "--host is empty, expected an address, which for all interfaces is 0.0.0.0"
    if settings.http_port == settings.grpc_port != 0:
        yield f"--http-port and --grpc-port are both {settings.http_port}, expected two ports"
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        missing = "--tls-certificate" if settings.tls_certificate is None else "--tls-key"
        yield f"{missing} is not given, but the other is, expected both: a certificate and its key"
    if settings.workers > 1 and settings.max_http_body_mb >= settings.max_grpc_message_mb:
        yield (
            f"--max-http-body-mb is {settings.max_http_body_mb}, expected less than --max-grpc-message-mb, which is "
            f"{settings.max_grpc_message_mb}: with --workers a body may have to go from one worker to another"
        )
    if settings.workers > (most := max(memory_bytes() // _WORKER_BYTES, 1)):
        yield (
            f"--workers is {settings.workers}, expected at most {most}: each process takes {_WORKER_BYTES // MEBIBYTE} "
            f"MiB of memory and more for its models, of {memory_bytes() // MEBIBYTE} MiB"
        )
    for origin in settings.allow_origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            yield f"--allow-origin is '{origin}', expected an origin as browsers say it, https://app.example:8443, or *"
    if settings.max_batch is not None and any(pair.startswith(f"{MAX_BATCH}=") for pair in settings.properties):
        yield f"--max-batch and --property {MAX_BATCH} are both set, expected one: they say the same"


def _check_policy(settings: Settings) -> None:
    parse_version_policy(settings.version_policy)


def repository_of(settings: Settings, *, warns: bool = True) -> AnyRepository:
    """Say where the models to serve are; with `warns`, folders that hold none are logged."""
    policy = parse_version_policy(settings.version_policy)
    if settings.config is not None:
        return ConfiguredRepository(settings.config, policy)
    if settings.model_repository is not None:
        return Repository(settings.model_repository, policy, warns=warns)
    return NamedModels(_locations(settings), policy)


def busy_poll_s(settings: Settings, cpus: float) -> float:
    """Say for how long to poll for the next request, given how many CPUs' time the process may have.

    On a single core, polling would keep the caller from making it.
    """
    if settings.busy_poll_us is not None:
        return settings.busy_poll_us / 1e6
    return _BUSY_POLL_S if cpus >= _CPUS_TO_POLL else 0


def model_options(settings: Settings) -> ModelOptions:
    """Give the options of models whose own settings say nothing."""
    cache: Properties = {} if settings.cache_dir is None else {"CACHE_DIR": str(settings.cache_dir)}
    properties = {**cache, **divide(_parse_properties(settings.properties)).properties}
    for_all = uploaded_model_options(settings)
    return replace(for_all, device=settings.device, properties=properties, slots=settings.slots)


def uploaded_model_options(settings: Settings) -> ModelOptions:
    """Give the options of clients' own models that are for the operator to say: those that hold for all models."""
    binding = BindingTerms(settings.max_sequences, settings.sequence_idle_s, settings.sequences_wait)
    return ModelOptions("", time_limit_s=settings.time_limit_s, binding=binding)


def batch_options(settings: Settings) -> BatchOptions:
    """Say how the jobs of models whose own settings say nothing run together.

    Raises:
        ServingError: INVALID_INPUT for a property that is not known, or sizes that are larger than a batch.
    """
    batches = divide(_parse_properties(settings.properties)).batches
    if settings.max_batch is not None:
        batches = replace(batches, max_batch=settings.max_batch)
    if batches.max_batch is not None:
        try:
            batches.batching()
        except UnfitSetting as unfit:
            raise as_property(unfit) from unfit
    return batches


def keeping_terms(settings: Settings) -> KeepingTerms:
    """Say for how long results are kept, and how many. Where that depends on the machine, the workers share it."""
    most = settings.max_kept_results_mb
    by_default = min(memory_bytes() // 8, KEPT_RESULTS_BYTES) // settings.workers
    return KeepingTerms(settings.keep_jobs_s, by_default if most is None else most * MEBIBYTE)


def most_queued_bytes(settings: Settings) -> int:
    """Say how much the inputs of waiting jobs may take. Where it depends on the machine, the workers share that."""
    most = settings.max_queued_mb
    return memory_bytes() // 4 // settings.workers if most is None else most * MEBIBYTE


def tensor_limits(settings: Settings) -> TensorLimits:
    """Say what sessions may keep. Where it depends on the machine, the workers share that."""
    of_all = settings.max_tensors_mb
    return TensorLimits(
        settings.max_session_tensors_mb * MEBIBYTE,
        memory_bytes() // 2 // settings.workers if of_all is None else of_all * MEBIBYTE,
    )


def blob_limits(settings: Settings) -> BlobLimits:
    """Say how much may be uploaded. Where it depends on the machine, the workers share that."""
    of_all = settings.max_uploads_mb
    return BlobLimits(
        settings.max_upload_mb * MEBIBYTE,
        free_temporary_bytes() * 9 // 10 // settings.workers if of_all is None else of_all * MEBIBYTE,
    )


def _locations(settings: Settings) -> dict[str, Path]:
    """Read the NAME=PATH pairs of models.

    Raises:
        ServingError: INVALID_INPUT for one without a name, an equals sign or a path, or a name that was there before.
    """
    locations: dict[str, Path] = {}
    for pair in settings.models:
        name, _, path = pair.partition("=")
        if not (name and path):
            raise invalid_input(f"--model is '{pair}', expected NAME=PATH")
        if name in locations:
            raise invalid_input(f"--model names '{name}' twice, expected a name for each model")
        locations[name] = Path(path)
    return locations


def _parse_properties(pairs: tuple[str, ...]) -> dict[str, str]:
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
