"""Alerts are about what /metrics has: no name, label or value in the rules that the server would never write."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.deploy.expressions import RULES, VALUES, LabelsOf, labels_given
from tests.deploy.manifests import read

ALERTS = [rule for rule in RULES if "alert" in rule]


def rule_name(rule: Any) -> str:
    return rule.get("alert") or rule["record"]


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_what_a_rule_reads_is_what_the_server_writes(rule: Any, labels_of: LabelsOf) -> None:
    given = labels_given(rule["expr"], labels_of)
    assert set(re.findall(r"\$labels\.(\w+)", str(rule.get("annotations")))) <= given


@pytest.mark.parametrize("alert", ALERTS, ids=rule_name)
def test_an_alert_says_how_bad_it_is_and_what_to_do(alert: Any) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "description"}


@pytest.mark.parametrize("alert", ALERTS, ids=rule_name)
def test_an_alert_has_a_name_by_which_the_dashboard_finds_it(alert: Any) -> None:
    (pattern,) = VALUES["alertname"]
    assert re.fullmatch(pattern, alert["alert"])


def test_every_alert_is_shown_to_fire() -> None:
    (tested,) = read("prometheus/rules_test.yaml")
    for alert in ALERTS:
        assert alert["alert"] in str(tested["tests"]), alert["alert"]


@pytest.mark.parametrize("optional", [False, True])
def test_the_scraped_job_is_the_one_that_the_rules_know(optional: bool) -> None:
    (prometheus,) = read("prometheus/prometheus.yaml", optional=optional)
    (job,) = prometheus["scrape_configs"]
    assert {job["job_name"]} == VALUES["job"]
    assert prometheus["rule_files"] == ["rules.yaml"]
    assert ("authorization" in job, job.get("scheme", "http")) == (optional, "https" if optional else "http")
