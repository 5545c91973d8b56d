"""The dashboard shows what /metrics has, and what it asks for fits together."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
from tests.deploy.expressions import LabelsOf, labels_given
from tests.deploy.manifests import DEPLOY

TEXT = (DEPLOY / "grafana-dashboard.json").read_text()
DASHBOARD: Any = json.loads(TEXT)
PANELS: list[Any] = DASHBOARD["panels"]
VARIABLES: list[Any] = DASHBOARD["templating"]["list"]
OF_GRAFANA = {"__rate_interval", "__all"}


def title(panel: Any) -> str:
    return panel["title"]


@pytest.mark.parametrize("panel", PANELS, ids=title)
def test_what_a_panel_reads_is_what_the_server_writes(panel: Any, labels_of: LabelsOf) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        given = labels_given(target["expr"], labels_of)
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= given


def test_what_variables_offer_is_what_the_server_writes(labels_of: LabelsOf) -> None:
    queries = [variable["query"]["query"] for variable in VARIABLES if variable["type"] == "query"]
    assert len(queries) == 2
    for query in queries:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert found is not None, query
        assert found[2] in labels_given(found[1], labels_of)


def test_every_variable_is_there_and_every_query_goes_to_the_chosen_prometheus() -> None:
    used = set(re.findall(r"\$\{?(\w+)", TEXT))
    assert used == {variable["name"] for variable in VARIABLES} | OF_GRAFANA
    asking = [*PANELS, *(variable for variable in VARIABLES if variable["type"] == "query")]
    assert {each["datasource"]["uid"] for each in asking} == {"${datasource}"}


def test_no_panel_lies_on_another() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for one, other in combinations((panel["gridPos"] for panel in PANELS), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or apart, (one, other)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in PANELS)
