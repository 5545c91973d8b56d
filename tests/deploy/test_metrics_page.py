"""The page on metrics explains each of the server's metrics, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.expressions import LabelsOf

PAGE = (Path(__file__).resolve().parents[2] / "docs/observability.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`(inferwire_\w+)", PAGE))
PAGE_IS_OLD = "docs/observability.md explains each metric"


def test_every_metric_is_explained(metrics: str) -> None:
    families = [family for family in text_string_to_metric_families(metrics) if family.name.startswith("inferwire_")]
    shown = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert {name for name in shown if not name.endswith("_created")} - NAMED == set(), PAGE_IS_OLD


def test_every_metric_that_is_explained_is_shown(metrics: str, labels_of: LabelsOf) -> None:
    families = {family.name for family in text_string_to_metric_families(metrics)}
    assert NAMED - families - set(labels_of) == set(), PAGE_IS_OLD
