"""Alerts are about what /metrics has: no name, label or value in the rules that the server would never write."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.manifests import read

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.tally import OUTCOMES

(DOCUMENT,) = read("prometheus/rules.yaml")
RULES: list[Any] = [rule for group in DOCUMENT["groups"] for rule in group["rules"]]
RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
ALERTS = [rule for rule in RULES if "alert" in rule]

OF_THE_SCRAPE = {"job", "instance"}
WORDS = {"or", "unless", "offset"}
"""What stands in the rules' expressions beside names and functions."""
VALUES = {"outcome": set(OUTCOMES), "code": {code.name for code in Code}, "job": {"inferwire"}}

SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)=~?"([^"]*)"')
LABELS = re.compile(r"\b(?:by|on) \(([^)]*)\)")
NAME = re.compile(r"(?<![\w:])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])")


@pytest.fixture
def labels_of(metrics: str) -> dict[str, set[str]]:
    """The labels of each metric that can be asked for, with those that Prometheus adds."""
    found: defaultdict[str, set[str]] = defaultdict(lambda: set(OF_THE_SCRAPE), {"up": set(OF_THE_SCRAPE)})
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    for name, expression in RECORDED.items():
        found[name] |= grouped(expression) - {"le"}
    return dict(found)


def grouped(expression: str) -> set[str]:
    return {label.strip() for labels in LABELS.findall(expression) for label in labels.split(",")}


def named(expression: str) -> set[str]:
    """Give the metrics that an expression reads: what is no function, word, label or number in it."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|on) \([^)]*\)|\boffset \w+", " ", expression)
    return set(NAME.findall(bare)) - WORDS


def rule_name(rule: Any) -> str:
    return rule.get("alert") or rule["record"]


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_what_a_rule_reads_is_what_the_server_writes(rule: Any, labels_of: dict[str, set[str]]) -> None:
    expression = rule["expr"]
    names = named(expression)
    assert names
    assert names <= set(labels_of)
    for name, matchers in SELECTOR.findall(expression):
        for label, values in MATCHER.findall(matchers):
            assert label in labels_of[name], f"{name} has no {label}"
            assert set(values.split("|")) <= VALUES[label], f"{name}: no {label} is {values}"
    of_these = set[str]().union(*(labels_of[name] for name in names))
    assert grouped(expression) <= of_these
    said = set(re.findall(r"\$labels\.(\w+)", str(rule.get("annotations"))))
    assert said <= (grouped(expression) or of_these)


@pytest.mark.parametrize("alert", ALERTS, ids=rule_name)
def test_an_alert_says_how_bad_it_is_and_what_to_do(alert: Any) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "description"}


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
