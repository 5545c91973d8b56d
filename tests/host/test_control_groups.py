"""What control groups leave a process, by files as Linux has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from inferwire_server.host.control_groups import OWN_GROUPS, ControlGroups

OWN_TREE = "0::/\n"
UNIT = "0::/system.slice/inferwire.service\n"
OLDER = "4:memory:/docker/ab12\n2:cpu,cpuacct:/docker/ab12\n0::/\n"


def groups_of(folder: Path, membership: str, files: Mapping[str, str]) -> ControlGroups:
    trees = folder / "trees"
    for path, content in files.items():
        (trees / path).parent.mkdir(parents=True, exist_ok=True)
        (trees / path).write_text(content)
    (folder / "membership").write_text(membership)
    return ControlGroups(folder / "membership", trees)


@pytest.mark.parametrize(
    ("membership", "files", "memory_bytes"),
    [
        pytest.param(OWN_TREE, {"memory.max": "1048576\n"}, 1 << 20, id="a container"),
        pytest.param(OWN_TREE, {"memory.max": "max\n"}, None, id="a container without a limit"),
        pytest.param(OWN_TREE, {}, None, id="the outermost group, which has no such file"),
        pytest.param(UNIT, {"system.slice/inferwire.service/memory.max": "2048\n"}, 2048, id="a unit"),
        pytest.param(
            UNIT,
            {"system.slice/inferwire.service/memory.max": "2048\n", "system.slice/memory.max": "1024\n"},
            1024,
            id="a unit in a slice that has less",
        ),
        pytest.param(UNIT, {"other.slice/memory.max": "1024\n"}, None, id="another's limit"),
        pytest.param(
            OLDER, {"memory/docker/ab12/memory.limit_in_bytes": "4096\n"}, 4096, id="older: the machine's tree"
        ),
        pytest.param(OLDER, {"memory/memory.limit_in_bytes": "4096\n"}, 4096, id="older: a container's own tree"),
        pytest.param(
            "4:memory:/a\n2:cpu:/b\n", {"memory/b/memory.limit_in_bytes": "4096\n"}, None, id="older: another's limit"
        ),
    ],
)
def test_memory_is_what_the_least_of_its_groups_has(
    tmp_path: Path, membership: str, files: dict[str, str], memory_bytes: int | None
) -> None:
    assert groups_of(tmp_path, membership, files).memory_bytes == memory_bytes


@pytest.mark.parametrize(
    ("membership", "files", "cpus"),
    [
        pytest.param(OWN_TREE, {"cpu.max": "400000 100000\n"}, 4.0, id="a container"),
        pytest.param(OWN_TREE, {"cpu.max": "max 100000\n"}, None, id="a container without a quota"),
        pytest.param(OWN_TREE, {}, None, id="the outermost group, which has no such file"),
        pytest.param(
            UNIT,
            {"system.slice/inferwire.service/cpu.max": "max 100000\n", "system.slice/cpu.max": "50000 100000\n"},
            0.5,
            id="a unit in a slice that has less",
        ),
        pytest.param(
            OLDER,
            {"cpu/docker/ab12/cpu.cfs_quota_us": "250000\n", "cpu/docker/ab12/cpu.cfs_period_us": "100000\n"},
            2.5,
            id="older: the machine's tree",
        ),
        pytest.param(
            OLDER,
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            None,
            id="older: without a quota",
        ),
    ],
)
def test_cpu_time_is_what_the_least_of_its_groups_has(
    tmp_path: Path, membership: str, files: dict[str, str], cpus: float | None
) -> None:
    assert groups_of(tmp_path, membership, files).cpus == cpus


def test_where_nothing_says_which_groups_there_are_nothing_limits(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path / "none", tmp_path)
    assert (groups.memory_bytes, groups.cpus) == (None, None)


def test_this_process_s_groups_are_found() -> None:
    assert OWN_GROUPS.membership.read_text()
    assert OWN_GROUPS.memory_bytes is None or OWN_GROUPS.memory_bytes > 0
