# SPDX-License-Identifier: Apache-2.0
"""Do the dashboard and the alerts ask for numbers that there are, and does every alert say what to do?"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask import Flask

from api import metrics
from api.context import standing
from registry.controller.meters import METERS, PREFIX, Meters
from registry.domain.slo import BURN_RULES, DEFAULT_OBJECTIVES, AlertLevel
from registry.services import checkpoints, life
from tests.api import conftest as api
from tests.api.conftest import Asker
from tests.clock import Clock
from tests.deploy.tools import find
from tests.project import ROOT

# The fixtures of the doors, which pytest would else keep to their own folder.
settings, app, token, anonymous = api.settings, api.app, api.token, api.anonymous

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "pratique.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
PROMTOOL = find("promtool")
LIVE_ONLY = "pratique_tls_certificate_expiry_timestamp_seconds"
"""Shown by a server with a certificate; tests/admin/test_certificate.py sees it there."""

one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: make tools")


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def asked_by_panels() -> Iterator[str]:
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


def asked() -> list[str]:
    return [*(rule["expr"] for rule in RULES), *asked_by_panels()]


def series_of(text: str) -> set[str]:
    """The names of the series of every family in an exposition, also of those without a sample."""
    found = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    # When a series began is shown where one process alone counts, as no server does.
    return {name for name in found if not name.endswith("_created")}


@pytest.fixture
def exposed(app: Flask, anonymous: Asker, clock: Clock) -> set[str]:
    """What servers and controllers show."""
    database, policy = standing(app).database, standing(app).policy
    life.beat(database, clock(), policy)
    checkpoints.sign(database, standing(app).settings, now=clock())
    return {LIVE_ONLY, *series_of(anonymous.get("/metrics").text), *series_of(Meters().text())}


@one_engine
def test_every_number_that_is_asked_for_is_shown(exposed: set[str]) -> None:
    names = {name for one in asked() for name in re.findall(r"\bpratique_[a-z_]+", one)}

    assert names - exposed == set()
    assert len(names) > 30


@one_engine
def test_every_number_of_the_server_is_in_the_readme_and_no_other(exposed: set[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = next(block for block in readme.split("\n\n") if block.startswith("| Metric |"))
    named = set(re.findall(r"^\| `(pratique_[a-z_]+)`", table, re.MULTILINE))

    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exposed if not name.startswith(PREFIX)}
    assert named == shown


def test_every_label_that_is_asked_for_is_one_that_there_is() -> None:
    known = {"job", "instance", "le"}
    known |= {name for one in (metrics.REQUESTS, metrics.SECONDS) for name in one._labelnames}
    known |= {"kind", "state", "owner", "target", "action", "outcome", "slo", "cause", "window"}
    known |= {"disposition", "what", "status"}
    for one in asked():
        by = {name.strip() for group in re.findall(r"\bby \(([^)]*)\)", one) for name in group.split(",")}
        matched = set(re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)\"", one))
        assert by | matched <= known, one


def test_no_number_is_told_by_serial_or_node() -> None:
    """A label with a value for each device or node would make a series for each: they are found by search instead."""
    for one in (metrics.REQUESTS, metrics.SECONDS):
        assert not {"serial", "device", "node", "token"} & set(one._labelnames)


def test_names_keep_to_the_conventions_of_prometheus() -> None:
    """https://prometheus.io/docs/practices/naming/."""
    for name, (kind, _) in METERS.items():
        assert name.endswith("_total") is (kind == "counter")
    assert metrics.SECONDS._name.endswith("_duration_seconds")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_it_means_and_where_it_stands_what_to_do(rule: dict[str, Any]) -> None:
    told = rule["annotations"]
    page, _, anchor = told["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)

    assert rule["labels"]["severity"] in set(AlertLevel)
    assert told["summary"].endswith(".")
    assert told["description"].endswith(".")
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_no_alert_has_two_meanings() -> None:
    names = [rule["alert"] for rule in RULES]

    assert len(names) == len(set(names)) > 15
    assert all(re.fullmatch(r"Pratique[A-Z][A-Za-z]+", name) for name in names)


def test_the_burn_rates_are_those_at_which_the_service_itself_alerts() -> None:
    written = {
        rule["labels"]["severity"]: {
            (f"{window}s", float(rate)) for window, rate in re.findall(r'window="(\d+)s"}\) > ([0-9.]+)', rule["expr"])
        }
        for rule in RULES
        if "burn_rate" in rule["expr"]
    }
    (days,) = {objective.window_seconds for objective in DEFAULT_OBJECTIVES}
    assert days == 30 * 86_400
    assert written == {
        str(level): {
            (f"{seconds}s", round(rule.threshold(DEFAULT_OBJECTIVES[0]), 6))
            for rule in BURN_RULES
            if rule.level is level
            for seconds in (rule.long_seconds, rule.short_seconds)
        }
        for level in AlertLevel
    }


def test_the_panels_of_the_dashboard_lie_beside_each_other() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for one, other in combinations((panel["gridPos"] for panel in DASHBOARD["panels"]), 2):
        apart = (
            one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"],
            one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"],
        )
        assert any(apart), (one, other)


def test_every_panel_asks_the_data_source_that_was_chosen() -> None:
    assert {panel["datasource"]["uid"] for panel in panels()} == {"${datasource}"}
    assert {target["datasource"]["uid"] for panel in panels() for target in panel["targets"]} == {"${datasource}"}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "job"]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)


@needs_promtool
def test_prometheus_takes_the_alerts_and_they_come_when_they_should(tmp_path: Path) -> None:
    for file in (ALERTS, Path(__file__).with_name("alerts_test.yaml")):
        shutil.copy(file, tmp_path)

    checked = promtool("check", "rules", tmp_path / "alerts.yaml")
    tried = promtool("test", "rules", tmp_path / "alerts_test.yaml")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert tried.returncode == 0, tried.stdout + tried.stderr


@needs_promtool
def test_prometheus_reads_what_the_panels_ask(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": one.replace("$__rate_interval", "5m")}
        for number, one in enumerate(asked_by_panels())
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    checked = promtool("check", "rules", file)

    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_promtool
@one_engine
def test_prometheus_finds_nothing_wrong_with_the_exposition(anonymous: Asker) -> None:
    assert PROMTOOL is not None
    for text in (anonymous.get("/metrics").text, Meters().text()):
        checked = subprocess.run(
            [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
