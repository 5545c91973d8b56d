"""Alerts are about what /metrics has: no name, label or value in the rules that the server would never write."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from shutil import which
from typing import Any

import pytest
from tests.deploy.expressions import RULES, VALUES, LabelsOf, labels_given
from tests.deploy.manifests import DEPLOY, read

ROOT = DEPLOY.parent
PAGE = ROOT / "docs/alerts.md"
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
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}


def test_every_alert_leads_to_what_the_page_says_of_it() -> None:
    headings = re.findall(r"^## (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert headings == [alert["alert"] for alert in ALERTS]
    for alert in ALERTS:
        assert alert["annotations"]["runbook_url"] == f"{PAGE.relative_to(ROOT)}#{alert['alert'].lower()}"


@pytest.mark.parametrize("alert", ALERTS, ids=rule_name)
def test_the_page_says_how_bad_an_alert_is(alert: Any) -> None:
    assert f"## {alert['alert']}\n\n{alert['labels']['severity'].title()}. " in PAGE.read_text()


@pytest.mark.parametrize("alert", ALERTS, ids=rule_name)
def test_an_alert_has_a_name_by_which_the_dashboard_finds_it(alert: Any) -> None:
    (pattern,) = VALUES["alertname"]
    assert re.fullmatch(pattern, alert["alert"])


def shown_to_fire(test: Any) -> Iterator[str]:
    """Give the alerts that fire in an evaluation of one of Prometheus' tests."""
    for evaluation in test.get("alert_rule_test", ()):
        if evaluation["exp_alerts"]:
            yield evaluation["alertname"]
    for evaluation in test.get("promql_expr_test", ()):
        asked = 'alertstate="firing"' in evaluation["expr"]
        for sample in evaluation["exp_samples"]:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', sample["labels"]))
            if sample["value"] and (asked or labels.get("alertstate") == "firing"):
                yield labels["alertname"]


def test_every_alert_is_shown_to_fire() -> None:
    (document,) = read("prometheus/rules_test.yaml")
    shown = {name for test in document["tests"] for name in shown_to_fire(test)}
    assert shown == {alert["alert"] for alert in ALERTS}


@pytest.mark.skipif(not which("promtool"), reason="it needs Prometheus' promtool")
def test_prometheus_finds_what_its_tests_show() -> None:
    command = ["promtool", "test", "rules", DEPLOY / "prometheus/rules_test.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_that_no_alert_reads_is_shown_to_give_what_it_should() -> None:
    (tested,) = read("prometheus/rules_test.yaml")
    read_by_alerts = " ".join(alert["expr"] for alert in ALERTS)
    for record in (rule["record"] for rule in RULES if "record" in rule):
        assert record in read_by_alerts or record in str(tested["tests"]), record


@pytest.mark.parametrize("optional", [False, True])
def test_the_scraped_job_is_the_one_that_the_rules_know(optional: bool) -> None:
    (prometheus,) = read("prometheus/prometheus.yaml", optional=optional)
    (job,) = prometheus["scrape_configs"]
    assert {job["job_name"]} == VALUES["job"]
    assert prometheus["rule_files"] == ["rules.yaml"]
    assert ("authorization" in job, job.get("scheme", "http")) == (optional, "https" if optional else "http")
