"""Flags of other servers are told by those here, as the pages for their users do."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from tests.deploy.serve_settings import VARIABLES

from inferwire_cli.other_servers import FLAGS
from inferwire_proto.host.flags import ENV_PREFIX

DOCS = Path(__file__).resolve().parents[2] / "docs"
FLAG = re.compile(r"--[a-z][a-z_-]*")
OWN = {name.removeprefix(ENV_PREFIX) for name in VARIABLES}
NOWHERE = "none: "
"""How the answer begins to a flag that has no counterpart."""


def rows(page: str) -> dict[str, str]:
    """Give what a page answers to each flag that does not exist here, in one row or several."""
    (table,) = re.findall(r"^## The command line\n(.*?)^## ", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    found: defaultdict[str, str] = defaultdict(str)
    for asked, answer in re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE):
        for flag in FLAG.findall(asked):
            if not is_own(flag) and not answer.startswith(NOWHERE):
                found[flag.replace("_", "-")] += answer
    return found


def is_own(flag: str) -> bool:
    return flag.removeprefix("--").replace("-", "_").upper() in OWN


@pytest.mark.parametrize("page", ["from-openvino-model-server.md", "from-triton.md"])
def test_each_flag_that_a_page_answers_is_answered_alike(page: str) -> None:
    for flag, answer in rows(page).items():
        told = FLAGS[flag]
        assert all(each in answer for each in FLAG.findall(told)), (flag, told, answer)


def test_only_flags_that_exist_here_are_told() -> None:
    assert all(map(is_own, (flag for told in FLAGS.values() for flag in FLAG.findall(told))))
    assert not any(map(is_own, FLAGS))
