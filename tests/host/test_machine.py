"""What the machine has room for."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from inferwire_server.host.control_groups import ControlGroups
from inferwire_server.host.machine import free_temporary_bytes, memory_bytes

NO_GROUPS = ControlGroups(Path("/nowhere"), Path("/nowhere"))


def limited_to(memory: str, folder: Path) -> ControlGroups:
    (folder / "membership").write_text("0::/\n")
    (folder / "memory.max").write_text(memory)
    return ControlGroups(folder / "membership", folder)


def test_a_machine_has_memory_and_a_disk() -> None:
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    assert memory_bytes(NO_GROUPS) == pytest.approx(int(total.split()[1]) * 1024)
    assert free_temporary_bytes() > 0


@pytest.mark.parametrize(("folder", "is_memory"), [(Path("/dev/shm"), True), (Path(__file__).parent, False)])
def test_temporary_files_in_memory_have_a_quarter_of_the_containers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path, is_memory: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    free = free_temporary_bytes(limited_to("40960\n", tmp_path))
    assert free == 10240 if is_memory else free > 40960


@pytest.mark.parametrize(("limit", "counts"), [("1048576\n", True), (f"{1 << 62}\n", False)])
def test_control_groups_leave_some_of_the_memory(tmp_path: Path, limit: str, counts: bool) -> None:
    assert memory_bytes(limited_to(limit, tmp_path)) == (1 << 20 if counts else memory_bytes(NO_GROUPS))
