"""What the expressions of rules and panels read of /metrics, found in their text without running Prometheus."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from tests.deploy.manifests import read

from inferwire_proto.errors import Code
from inferwire_server.core.scheduling.tally import OUTCOMES, SECONDS_BUCKETS

(DOCUMENT,) = read("prometheus/rules.yaml")
RULES: list[Any] = [rule for group in DOCUMENT["groups"] for rule in group["rules"]]

VALUES = {
    "outcome": set(OUTCOMES),
    "code": {code.name for code in Code},
    "job": {"inferwire"},
    "model": {"(uploaded)", "$model"},
    "instance": {"$instance"},
    "alertname": {"Inferwire.+"},
    "alertstate": {"firing"},
    "le": {"+Inf", *map(str, SECONDS_BUCKETS)},
}
"""The values by which labels may be selected; a dashboard's variables stand for those that it offers."""

_WORDS = {"and", "or", "unless", "offset"}
"""The words in expressions that are neither names nor functions."""

_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(?:=~|!=|=)"([^"]*)"')
_LABELS = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_NAME = re.compile(r"(?<![\w:])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])")

LabelsOf: TypeAlias = dict[str, set[str]]
"""The labels of each metric that can be asked for."""


def grouped(expression: str) -> set[str]:
    """Give the labels that an expression groups by."""
    return {label.strip() for labels in _LABELS.findall(expression) for label in labels.split(",")}


def named(expression: str) -> set[str]:
    """Give the metrics that an expression reads: the names in it that are no functions, words, labels or numbers."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|on) \([^)]*\)|\boffset \w+", " ", expression)
    return set(_NAME.findall(bare)) - _WORDS


def labels_given(expression: str, labels_of: LabelsOf) -> set[str]:
    """Give the labels of an expression's results, after checking that each metric and label in it exists."""
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing), expression
    names = named(expression)
    assert names, expression
    assert names <= set(labels_of)
    for name, matchers in _SELECTOR.findall(expression):
        for label, values in _MATCHER.findall(matchers):
            assert label in labels_of[name], f"{name} has no {label}"
            assert set(values.split("|")) <= VALUES[label], f"{name}: no {label} is {values}"
    of_these = set[str]().union(*(labels_of[name] for name in names))
    assert grouped(expression) <= of_these, expression
    return grouped(expression) or of_these
