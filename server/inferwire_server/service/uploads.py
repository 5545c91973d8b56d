"""Models that sessions upload and compile. They are for their session alone, and freed with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from inferwire_proto.errors import Code
from inferwire_proto.preprocessing import Recording
from inferwire_proto.properties import Properties, PropertyValue
from inferwire_server.core.batch_options import as_property, divide
from inferwire_server.core.layers import ModelGraph
from inferwire_server.core.model_layout import BLOB_SUFFIX, lay_out
from inferwire_server.core.model_options import ModelOptions, Preprocessing, Source
from inferwire_server.core.sessions import Session, session_expired
from inferwire_server.core.specs import ModelSpec, Shape
from inferwire_server.core.taken import Taken
from inferwire_server.engine.engine import Engine
from inferwire_server.engine.models import Model
from inferwire_server.errors import ServingError, UnfitSetting, invalid_input
from inferwire_server.host.blobs import BlobStore
from inferwire_server.service.forbidden_properties import refuse_forbidden
from inferwire_server.service.names import check_device
from inferwire_server.service.values import UploadedModel


@dataclass(frozen=True, slots=True)
class UploadedSource:
    """A model as blobs that a session has uploaded, and what is done to it as it is read.

    Attributes:
        is_compiled: Whether it is an exported compiled model, which is trusted as the server's own code is. Set by
            `import_compiled` alone.
    """

    model: bytes
    weights: bytes | None
    suffix: str
    reshape: dict[str, Shape] = field(default_factory=dict[str, Shape])
    variables: dict[str, bytes] = field(default_factory=dict[str, bytes])
    preprocessing: tuple[Preprocessing, ...] = ()
    is_compiled: bool = False


@dataclass(frozen=True, slots=True)
class Compilation:
    """What an uploaded model is compiled for."""

    device: str
    properties: Properties = field(default_factory=dict[str, PropertyValue])


@dataclass(eq=False, slots=True)
class _Owned:
    """What one session has uploaded, and its models by their ids."""

    blobs: set[bytes] = field(default_factory=set[bytes])
    compiled: dict[str, Model] = field(default_factory=dict[str, Model])


class UploadService:
    """Takes in models for sessions and compiles them, with `defaults` for what is not the session's to say.

    Off where there is no store for blobs.
    """

    def __init__(
        self,
        engine: Engine,
        blobs: BlobStore | None,
        new_id: Callable[[], str],
        defaults: ModelOptions,
        *,
        allows_imports: bool,
    ) -> None:
        self._engine = engine
        self._allows_imports = allows_imports
        self._blobs = blobs
        self._new_id = new_id
        self._defaults = defaults
        self._owned: dict[Session, _Owned] = {}

    def __repr__(self) -> str:
        return f"<UploadService: {'off' if self._blobs is None else f'{self.compiled} compiled models'}>"

    @property
    def compiled(self) -> int:
        """How many compiled models sessions have."""
        return sum(len(owned.compiled) for owned in self._owned.values())

    @property
    def taken(self) -> Taken | None:
        """How much of the room for uploads is taken; None where there are none."""
        return None if self._blobs is None else self._blobs.taken

    def resolve(self, target: UploadedModel) -> Model:
        """Give a compiled model that is the session's own.

        Raises:
            ServingError: MODEL_NOT_FOUND.
        """
        owned = target.session and self._owned.get(target.session)
        model = owned and owned.compiled.get(target.compiled_id)
        if model is None:
            raise ServingError(
                Code.MODEL_NOT_FOUND, f"compiled model '{target.compiled_id}' is not one of this session"
            )
        return model

    def has_blobs(self, session: Session, digests: Sequence[bytes]) -> list[bool]:
        """Say for each hash whether this session has uploaded it, and need not again."""
        blobs, uploaded = self._store(), self._of(session).blobs
        return [digest in uploaded and blobs.has(digest) for digest in digests]

    async def upload(self, session: Session, digest: bytes, byte_size: int, chunks: AsyncIterator[bytes]) -> None:
        """Take in a blob for a session.

        Raises:
            ServingError: PERMISSION_DENIED, TOO_LARGE or INVALID_INPUT.
        """
        blobs = self._store()
        await blobs.put(digest, byte_size, chunks)
        if session.has_ended:
            blobs.release(digest)
            raise session_expired(session.id)
        uploaded = self._owned.setdefault(session, _Owned()).blobs
        if digest in uploaded:
            blobs.release(digest)
        uploaded.add(digest)

    async def read(self, session: Session, source: UploadedSource) -> ModelSpec:
        """Read an uploaded model without compiling it.

        Raises:
            ServingError: PERMISSION_DENIED, INVALID_INPUT or MODEL_FAILED.
        """
        async with self._laid_out(session, source) as laid_out:
            return await self._engine.reading.run(self._engine.backend.read, laid_out)

    async def graph(self, session: Session, source: UploadedSource) -> ModelGraph:
        """Describe the graph of an uploaded model without compiling it.

        Raises:
            ServingError: PERMISSION_DENIED, INVALID_INPUT or MODEL_FAILED.
        """
        async with self._laid_out(session, source) as laid_out:
            return await self._engine.reading.run(self._engine.backend.graph, laid_out)

    async def describe_preprocessing(self, session: Session, source: UploadedSource, recording: Recording) -> str:
        """Say in the runtime's words what is recorded on a processor of an uploaded model.

        Raises:
            ServingError: PERMISSION_DENIED, INVALID_INPUT or MODEL_FAILED.
        """
        async with self._laid_out(session, source) as laid_out:
            return await self._engine.reading.run(self._engine.backend.describe_preprocessing, laid_out, recording)

    async def compile(self, session: Session, source: UploadedSource, compilation: Compilation) -> tuple[str, Model]:
        """Compile an uploaded model for a session, and give the name it has there.

        Raises:
            ServingError: PERMISSION_DENIED, INVALID_INPUT or MODEL_FAILED.
        """
        check_device(compilation.device)
        refuse_forbidden(compilation.properties)
        async with self._laid_out(session, source) as laid_out:
            options = self._options(compilation)
            model = await self._engine.load(laid_out, options, threads=self._engine.compiling)
        if session.has_ended:
            await self._engine.unload(model, session_expired(session.id))
            raise session_expired(session.id)
        compiled_id = self._new_id()
        self._owned.setdefault(session, _Owned()).compiled[compiled_id] = model
        return compiled_id, model

    async def query(self, session: Session, source: UploadedSource, compilation: Compilation) -> dict[str, str]:
        """Say which device runs which nodes of an uploaded model.

        Raises:
            ServingError: PERMISSION_DENIED, INVALID_INPUT or MODEL_FAILED.
        """
        check_device(compilation.device)
        refuse_forbidden(compilation.properties)
        device, properties = compilation.device, compilation.properties
        async with self._laid_out(session, source) as laid_out:
            return await self._engine.reading.run(self._engine.backend.query, laid_out, device, properties)

    async def import_compiled(self, session: Session, digest: bytes, compilation: Compilation) -> tuple[str, Model]:
        """Make a model of an uploaded blob that an export gave, and give the name it has in the session.

        Raises:
            ServingError: PERMISSION_DENIED, INVALID_INPUT or MODEL_FAILED.
        """
        if not self._allows_imports:
            raise ServingError(
                Code.PERMISSION_DENIED,
                "importing compiled models is off, since they are trusted as the server's own code is; "
                "start the server with --allow-imports to allow it",
            )
        blob = UploadedSource(digest, None, BLOB_SUFFIX, is_compiled=True)
        return await self.compile(session, blob, compilation)

    async def release(self, session: Session, compiled_ids: Sequence[str], digests: Sequence[bytes] = ()) -> None:
        """Free compiled models and blobs of a session; pass over what is not its own.

        All of it has begun before this waits for the models' last jobs: a caller that goes meanwhile stops nothing.
        """
        error = ServingError(Code.MODEL_NOT_FOUND, "the compiled model was released")
        await asyncio.gather(*map(asyncio.shield, self._free(self._of(session), compiled_ids, digests, error)))

    def end(self, session: Session) -> None:
        """Free all that a session owns. Its models go when their last jobs have ended; this does not wait for that."""
        if (owned := self._owned.pop(session, None)) is not None:
            self._free(owned, tuple(owned.compiled), tuple(owned.blobs), session_expired(session.id))

    def _options(self, compilation: Compilation) -> ModelOptions:
        batches, properties = divide(compilation.properties)
        try:
            batching = batches.batching()
        except UnfitSetting as unfit:
            raise as_property(unfit) from unfit
        return replace(self._defaults, device=compilation.device, properties=properties, batching=batching)

    def _free(
        self, owned: _Owned, compiled_ids: Sequence[str], digests: Sequence[bytes], error: ServingError
    ) -> list[asyncio.Future[None]]:
        """Begin to free what is a session's own, and give a future of each model's end; waiting jobs get the error."""
        for digest in owned.blobs.intersection(digests):
            owned.blobs.discard(digest)
            self._store().release(digest)
        own_ids = owned.compiled.keys() & compiled_ids
        return [self._engine.begin_unload(owned.compiled.pop(own_id), error) for own_id in own_ids]

    def _of(self, session: Session) -> _Owned:
        """Give what a session owns, for reading only: before its first upload it is an empty value that is not kept."""
        return self._owned.get(session) or _Owned()

    def _store(self) -> BlobStore:
        if self._blobs is None:
            raise ServingError(
                Code.PERMISSION_DENIED,
                "uploading models is off; start the server with --allow-uploads to allow it",
            )
        return self._blobs

    @asynccontextmanager
    async def _laid_out(self, session: Session, source: UploadedSource) -> AsyncGenerator[Source]:
        """Lay a model's files out for as long as the runtime reads them. Errors do not tell where they lie."""
        blobs, uploaded = self._store(), self._of(session).blobs
        layout = lay_out(source.model, source.weights, source.suffix, source.variables)
        for digest in layout.blobs.values():
            if digest not in uploaded:
                raise invalid_input(f"blob {digest.hex() or 'of no hash'} is not uploaded in this session")
        async with blobs.linked(layout.blobs) as folder:
            try:
                yield Source(
                    folder / layout.model,
                    reshape=source.reshape,
                    preprocessing=source.preprocessing,
                    is_compiled=source.is_compiled,
                )
            except ServingError as error:
                message = error.message.replace(f"{folder}/", "").replace(str(folder), ".")
                raise ServingError(error.code, message) from error
