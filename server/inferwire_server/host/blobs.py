"""Uploaded files, by the hash of their content, in a temporary folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from hashlib import sha256
from io import SEEK_END
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from inferwire_proto.errors import Code
from inferwire_server.core.taken import Taken
from inferwire_server.errors import ServingError, invalid_input
from inferwire_server.host.blob_folder import BlobFolder, DiskFault, on_disk
from inferwire_server.to_the_end import to_the_end


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


_BYTES_OF_A_FILE = 4096
"""What a blob counts for besides its content, and what a link and a folder count for: they take a block, or a name."""


class BlobLimits(NamedTuple):
    """How many bytes a blob may have, and all of them together."""

    of_one: int
    of_all: int


class BlobStore:
    """Blobs on disk. Who may use one is the sessions' business; here each has a count of holders."""

    def __init__(self, limits: BlobLimits) -> None:
        self._limits = limits
        self._folder = BlobFolder()
        self._holders: dict[bytes, int] = {}
        self._taken: dict[bytes, int] = {}
        self._byte_size = 0
        self._numbers = count()
        self._begun: set[asyncio.Future[None]] = set()

    def __repr__(self) -> str:
        return f"<BlobStore: {len(self._holders)} blobs in {self._folder.path}>"

    @property
    def taken(self) -> Taken:
        """How much of the room for all blobs is taken."""
        return Taken(self._byte_size, self._limits.of_all)

    def close(self) -> None:
        """Remove the folder."""
        self._folder.close()

    def has(self, digest: bytes) -> bool:
        """Whether a blob is held, and its file is there: somebody may have removed it."""
        return digest in self._holders and self._path(digest).exists()

    async def put(self, digest: bytes, byte_size: int, chunks: AsyncIterator[bytes]) -> None:
        """Write a blob and hold it, once its content is what was announced.

        Raises:
            ServingError: TOO_LARGE, also if the disk does not take it; INVALID_INPUT if length or hash differ.
        """
        if byte_size > self._limits.of_one:
            raise ServingError(
                Code.TOO_LARGE, f"the upload has {byte_size} bytes, at most {self._limits.of_one} are allowed"
            )
        if len(digest) != 32:
            raise invalid_input(f"the blob's hash has {len(digest)} bytes, expected the 32 of a SHA-256")
        self._folder.renew_if_gone()
        taken = byte_size + _BYTES_OF_A_FILE
        await self._take_room(taken, f"the upload of {byte_size} bytes is")
        scratch = self._scratch(digest)
        try:
            with self._folder.logging_faults():
                await _write(scratch, digest, byte_size, chunks)
                if not self.has(digest):
                    with on_disk("the upload"):
                        scratch.replace(self._path(digest))
        except BaseException:
            self._remove(partial(_unlink, scratch), taken)
            raise
        if digest in self._holders:
            self._remove(partial(_unlink, scratch), taken)
        else:
            self._taken[digest] = taken
        self._holders[digest] = self._holders.get(digest, 0) + 1

    def release(self, digest: bytes) -> None:
        """Let go of a blob; the last holder's release removes it."""
        self._holders[digest] -= 1
        if self._holders[digest] == 0:
            del self._holders[digest]
            # Renamed first, so that it is not in the way of a new blob of the same hash. If that fails, the file stays
            # until the store's folder is removed.
            scratch = self._scratch(digest)
            with suppress(OSError):
                self._path(digest).rename(scratch)
            self._remove(partial(_unlink, scratch), self._taken.pop(digest))

    @asynccontextmanager
    async def linked(self, files: Mapping[str, bytes]) -> AsyncGenerator[Path]:
        """Link blobs under paths in a folder of their own, and hold them until that is gone after the block.

        Raises:
            ServingError: INVALID_INPUT for a path that is that of a file and of a folder; TOO_LARGE if the disk does
                not take the files, or all uploads and they together are too much; MODEL_FAILED if somebody has removed
                a blob's file.
        """
        blobs = frozenset(files.values())
        for digest in blobs:
            self._holders[digest] += 1
        taken = _BYTES_OF_A_FILE * (1 + sum(1 + path.count("/") for path in files))
        try:
            await self._take_room(taken, "the model's files are")
        except BaseException:
            self._release_all(blobs)
            raise
        folder = self._folder.path / f"files.{next(self._numbers)}"
        removal = partial(_remove_links, folder, files)
        linking = self._begin(partial(self._link, folder, files))
        try:
            with self._folder.logging_faults():
                await to_the_end(linking)
            yield folder
        finally:
            if linking.done():
                self._remove(removal, taken, blobs)
            else:  # the caller was cancelled, and the thread goes on
                linking.add_done_callback(lambda _: self._remove(removal, taken, blobs))

    def _link(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Make a folder with links to blobs by their paths in it. Blocks."""
        with on_disk("the model's files"), _told_if_gone():
            folder.mkdir()
            for name, digest in files.items():
                path = folder / name
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.hardlink_to(self._path(digest))
                except (FileExistsError, NotADirectoryError) as error:
                    raise invalid_input(f"'{name}' is taken by another of the model's files") from error

    async def _take_room(self, byte_size: int, what: str) -> None:
        """Count what is going to be written. If there is no room, wait for what is being removed."""
        while self._byte_size + byte_size > self._limits.of_all and self._begun:
            await asyncio.wait(self._begun, return_when=asyncio.FIRST_COMPLETED)
        if self._byte_size + byte_size > self._limits.of_all:
            raise ServingError(
                Code.TOO_LARGE,
                f"{what} too much for this server, where uploads take {self._byte_size} of at most "
                f"{self._limits.of_all} bytes; release some first, or start it with a larger --max-uploads-mb",
            )
        self._byte_size += byte_size

    def _remove(self, removal: Callable[[], None], counted: int, held: Iterable[bytes] = ()) -> None:
        """Remove a file or a folder on a thread, which takes seconds if it is large.

        Until it is gone, it counts, and the blobs that it links to stay held.
        """

        def gone(_: asyncio.Future[None]) -> None:
            self._byte_size -= counted
            self._release_all(held)

        self._begin(removal).add_done_callback(gone)

    def _release_all(self, digests: Iterable[bytes]) -> None:
        for digest in digests:
            self.release(digest)

    def _begin(self, call: Callable[[], None]) -> asyncio.Future[None]:
        """Begin a call on a thread. It runs to its end even if nothing awaits it."""
        begun = asyncio.get_running_loop().run_in_executor(None, call)
        self._begun.add(begun)
        begun.add_done_callback(self._begun.discard)
        return begun

    def _scratch(self, digest: bytes) -> Path:
        """Name a file that is found under no blob's name."""
        return self._path(digest).with_suffix(f".{next(self._numbers)}")

    def _path(self, digest: bytes) -> Path:
        return self._folder.path / digest.hex()


def _unlink(path: Path) -> None:
    """Remove a file, if it is there: the store's whole folder may go at the same time."""
    with suppress(OSError):
        path.unlink()


def _remove_links(folder: Path, names: Iterable[str]) -> None:
    """Remove a folder with links of these names, as far as it is there.

    Reads no folder, since that opens a file: where the server can open no more, links would stay, and their blobs' room
    with them.
    """
    paths = [folder / name for name in names]
    for path in paths:
        _unlink(path)
    folders = {parent for path in paths for parent in path.parents if parent.is_relative_to(folder)}
    for each in sorted(folders, reverse=True):
        with suppress(OSError):
            each.rmdir()


async def _write(path: Path, digest: bytes, byte_size: int, chunks: AsyncIterator[bytes]) -> None:
    """Write the chunks off the loop, and check their size and hash."""
    content, written = sha256(), 0
    _make_empty(path)
    async for chunk in chunks:
        written += len(chunk)
        if written > byte_size:
            raise invalid_input(f"the upload has more than the {byte_size} bytes it announced")
        await asyncio.to_thread(_append, path, chunk, content)
    if written != byte_size:
        raise invalid_input(f"the upload has {written} bytes, expected the {byte_size} it announced")
    if content.digest() != digest:
        raise invalid_input(f"the upload has hash {content.hexdigest()}, expected {digest.hex()}")


def _make_empty(path: Path) -> None:
    """Make an empty file: on the loop, so that none is made after its upload was given up and the file removed."""
    with on_disk("the upload"):
        path.touch()


def _append(path: Path, chunk: bytes, content: _Digest) -> None:
    """Write a chunk at the end of a file. It is closed between chunks, so that a failure is known to be the disk's.

    A file that is gone, because its upload was given up meanwhile, is not made again.
    """
    content.update(chunk)
    with on_disk("the upload"), path.open("r+b") as file:
        file.seek(0, SEEK_END)
        file.write(chunk)


@contextmanager
def _told_if_gone() -> Generator[None]:
    """Use files that were uploaded.

    Raises:
        DiskFault: MODEL_FAILED if somebody has removed them.
    """
    try:
        yield
    except FileNotFoundError as error:
        reason = "uploaded files were removed from the server's disk"
        raise DiskFault(Code.MODEL_FAILED, f"{reason}; upload the model again, as a new Core does", reason) from error
