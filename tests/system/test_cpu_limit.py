"""A server whose CPU time is limited."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.system.servers import log_line, started

from inferwire import Core
from inferwire_cli.server_process import HOST, wait_until_ready

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy/models"

LIMITED = """
from pathlib import Path
import inferwire_server.process
from inferwire_server.host.control_groups import ControlGroups
here = Path(__file__).parent
inferwire_server.process.OWN_GROUPS = ControlGroups(here / "membership", here)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is no more than one CPU's time")
def test_inferences_are_computed_by_as_many_threads_as_there_is_time_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(LIMITED)
    (tmp_path / "membership").write_text("0::/inferwire.service\n")
    (tmp_path / "inferwire.service").mkdir()
    (tmp_path / "inferwire.service/cpu.max").write_text("100000 100000\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with started("--host", HOST, "--model", f"digits={EXAMPLES / 'digits_mlp'}") as (server, log):
        wait_until_ready(server, log)
        compiled = Core(server.grpc_address).served_model("digits")
        assert compiled.get_property("INFERENCE_NUM_THREADS") == 1
        assert log_line(log, "computes with fewer threads than cores, since its CPU time is limited")["threads"] == 1
