"""Memory with a file behind it: sealed, counted, known again, closed, and not for a forked child to write to."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferwire as ov
from inferwire.tensors.lendable_memory import Lendable
from inferwire.transport import lent_memory
from inferwire.transport.lent_memory import LentMemory, memory_behind, new_memory
from inferwire_proto.element_types import BY_NAME
from inferwire_proto.lent_memory import NAME, NONCE_BYTES, Mapping

SIZE = 100_000
F32 = BY_NAME["f32"]


def files() -> int:
    """How many files of lent memory are open here."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(entry.readlink()).startswith(f"/memfd:{NAME}")
    return found


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count(f"/memfd:{NAME}")


def in_child(check: Callable[[], Any]) -> int:
    """Fork, and give 0 if what the child checks is true."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if check() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_it_begins_with_zeros_and_who_maps_the_file_sees_it_and_the_nonce() -> None:
    memory = LentMemory(SIZE)
    elements = memory.elements(np.dtype(np.float32), SIZE // 4)
    assert (elements.size, elements.any()) == (SIZE // 4, False)
    seen = Mapping(memory.descriptor, memory.byte_size).bytes
    elements[:] = np.arange(SIZE // 4)
    np.testing.assert_array_equal(seen[:SIZE].view(np.float32), elements)
    assert (seen[SIZE:].tobytes(), memory.byte_size) == (memory.nonce, SIZE + NONCE_BYTES)
    assert bytes(memory.wire_data(8)) == elements[:2].tobytes()
    assert repr(memory) == f"<LentMemory {memory.id}: {SIZE} bytes in file {memory.descriptor}>"


def test_nobody_can_cut_it() -> None:
    memory = LentMemory(SIZE)
    for byte_size in (0, 2 * SIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.descriptor, byte_size)


def test_it_is_known_again_by_its_wire_form_alone() -> None:
    memory = LentMemory(SIZE)
    assert memory_behind(memory.wire_data(SIZE)) is memory
    assert memory_behind(memory.elements(np.dtype(np.uint8), SIZE).data) is None
    assert memory_behind(bytes(8)) is None
    assert memory.wire_data(8).readonly


def test_nothing_is_left_of_what_nobody_holds() -> None:
    before = files(), mappings()
    memory = LentMemory(SIZE)
    wire, elements = memory.wire_data(SIZE), memory.elements(np.dtype(np.uint8), SIZE)
    assert (files(), mappings()) == (before[0] + 1, before[1] + 1)
    del memory, wire
    assert (files(), mappings()) == (before[0] + 1, before[1] + 1), "a child would need them"
    elements[:] = 1
    del elements
    assert (files(), mappings()) == before


def test_there_are_so_many_and_no_more() -> None:
    gc.collect()
    made = [new_memory(1) for _ in range(lent_memory.MOST_FILES + 1)]
    assert sum(memory is None for memory in made) >= 1
    assert len(lent_memory._files) == lent_memory.MOST_FILES
    made.clear()
    assert new_memory(1) is not None


def test_there_is_none_that_the_system_has_no_room_for() -> None:
    assert new_memory(1 << 62) is None


def test_a_forked_child_reads_it_writes_to_its_own_and_lends_it_to_nobody() -> None:
    memory = LentMemory(SIZE)
    elements = memory.elements(np.dtype(np.uint8), SIZE)
    elements[:] = 1
    ours, theirs = socket.socketpair()

    def check() -> bool:
        had = elements.min() == elements.max() == 1
        elements[:] = 2
        theirs.sendall(b"!")
        theirs.recv(1)
        has = elements.min() == elements.max() == 2
        return bool(had and has) and memory_behind(memory.wire_data(SIZE)) is None and not files()

    with ours, theirs:
        child = os.fork()
        if child == 0:
            os._exit(0 if check() else 1)
        ours.recv(1)
        assert elements.min() == elements.max() == 1
        elements[:] = 3
        ours.sendall(b"!")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert elements.min() == elements.max() == 3


def test_nothing_is_copied_for_a_forked_child() -> None:
    size = 1 << 26
    elements = LentMemory(size).elements(np.dtype(np.uint8), size)
    elements[:] = 1

    def own_bytes() -> int:
        (line,) = [line for line in Path("/proc/self/smaps_rollup").read_text().splitlines() if "Anonymous:" in line]
        return int(line.split()[1]) * 1024

    before = own_bytes()
    assert in_child(lambda: own_bytes() < before + size // 4 and elements[-1] == 1) == 0
    assert own_bytes() < before + size // 4


WITHOUT_FILE = """
import os
import numpy as np
from inferwire.transport.lent_memory import LentMemory
memory = LentMemory(1000)
elements = memory.elements(np.dtype(np.uint8), 1000)
elements[:] = 1
os.close(memory.descriptor)
if (child := os.fork()) == 0:
    print(elements[-1], flush=True)
    elements[:] = 2
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), elements[0], flush=True)
os._exit(0)
"""


def test_a_forked_child_that_gets_no_pages_of_its_own_ends_before_it_writes_to_its_parents() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_FILE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (f"1\n{-signal.SIGSEGV} 1\n", "")


WITHOUT_HELP = """
import os
from inferwire.transport.lent_memory import LentMemory, Mapping
def fail(mapping, descriptor):
    raise MemoryError
Mapping.become_private = fail
memory = LentMemory(1)
if (child := os.fork()) == 0:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_ends_where_nothing_keeps_it_from_its_parents_memory() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_HELP], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (f"{-signal.SIGABRT}\n", "")


def test_a_view_that_outlives_its_memory_is_not_for_a_forked_child_to_write_to_either() -> None:
    elements = LentMemory(SIZE).elements(np.dtype(np.uint8), SIZE)

    def write() -> bool:
        elements[:] = 1
        return True

    assert in_child(write) == 0
    assert not elements.any()


def test_a_forked_child_makes_its_own() -> None:
    memory = LentMemory(SIZE)

    def make() -> bool:
        made = [LentMemory(SIZE) for _ in range(3)]
        return files() == 3 and memory.id not in {each.id for each in made}

    assert in_child(make) == 0
    assert files() >= 1


def test_an_input_grows_into_such_memory_and_keeps_it() -> None:
    asked: list[int] = []

    def lend(byte_size: int) -> LentMemory | None:
        asked.append(byte_size)
        return new_memory(byte_size) if byte_size >= 1000 else None

    memory = Lendable(F32, (1, 4), lend)
    assert memory_behind(memory.wire_data()) is None
    memory.set_shape((10, 100))
    memory.write(np.full((10, 100), 3, np.float32))
    lent = memory_behind(memory.wire_data())
    assert lent is not None
    assert len(memory.wire_data()) == 4000
    memory.set_shape((2, 4))
    assert bytes(memory.wire_data()) == np.full(8, 3, np.float32).tobytes()
    assert memory_behind(memory.wire_data()) is lent
    memory.set_shape((20, 100))
    assert memory_behind(memory.wire_data()) not in (None, lent)
    assert asked == [16, 4000, 8000]


@pytest.mark.parametrize("name", ["string", "u4", "u1"])
def test_strings_and_packed_types_have_ordinary_memory(name: str) -> None:
    def lend(byte_size: int) -> LentMemory | None:
        raise AssertionError(f"{byte_size} bytes were asked for")

    assert memory_behind(Lendable(BY_NAME[name], (8, 8), lend).wire_data()) is None


def test_a_region_of_it_is_sent_as_bytes() -> None:
    memory = Lendable(F32, (100, 100), new_memory)
    memory.write(np.arange(10_000, dtype=np.float32).reshape(100, 100))
    region = ov.Tensor(ov.Tensor.over(memory), [0, 0], [1, 100]).memory
    assert memory_behind(region.wire_data()) is None
    assert bytes(region.wire_data()) == np.arange(100, dtype=np.float32).tobytes()


AT_THE_END = """
import inferwire
from inferwire.transport.lent_memory import new_memory

core = inferwire.Core("127.0.0.1:9")

class Late:
    def __del__(self, new_memory=new_memory):
        print(new_memory(1))

late = Late()
"""


def test_it_is_made_at_the_end_of_a_program_as_well() -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("<LentMemory 1: 1 bytes in file ")
