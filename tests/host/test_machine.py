"""What the machine has room for."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from inferwire_server.host.machine import cpu_limit, free_temporary_bytes, memory_bytes


def test_a_machine_has_memory_and_a_disk() -> None:
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    assert memory_bytes([]) == pytest.approx(int(total.split()[1]) * 1024)
    assert free_temporary_bytes() > 0


@pytest.mark.parametrize(("folder", "is_memory"), [(Path("/dev/shm"), True), (Path(__file__).parent, False)])
def test_temporary_files_in_memory_have_a_quarter_of_the_containers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path, is_memory: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    (tmp_path / "memory.max").write_text("40960")
    free = free_temporary_bytes([tmp_path / "memory.max"])
    assert free == 10240 if is_memory else free > 40960


@pytest.mark.parametrize(
    ("content", "counts"), [("1048576\n", True), ("max\n", False), (f"{1 << 62}\n", False), (None, False)]
)
def test_a_container_has_what_it_is_given(tmp_path: Path, content: str | None, counts: bool) -> None:
    file = tmp_path / "memory.max"
    if content is not None:
        file.write_text(content)
    assert memory_bytes([tmp_path / "none", file]) == (1 << 20 if counts else memory_bytes([]))


@pytest.mark.parametrize(
    ("content", "limit"), [("400000 100000\n", 4.0), ("50000 100000\n", 0.5), ("max 100000\n", None), ("", None)]
)
def test_a_container_s_cpu_time_is_a_quota_of_each_period(tmp_path: Path, content: str, limit: float | None) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(content)
    assert cpu_limit([file, tmp_path / "none"]) == limit


@pytest.mark.parametrize(("quota", "limit"), [("250000\n", 2.5), ("-1\n", None)])
def test_older_kernels_have_a_quota_in_two_files(tmp_path: Path, quota: str, limit: float | None) -> None:
    (tmp_path / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_limit([tmp_path / "cpu.max", tmp_path]) == limit


def test_where_nothing_is_said_cpu_time_has_no_limit(tmp_path: Path) -> None:
    assert cpu_limit([tmp_path, tmp_path / "none"]) is None
