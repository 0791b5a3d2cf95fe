# SPDX-License-Identifier: Apache-2.0
"""Does a scrape say what happened and how the fleet stands, and what does it say while the store is away?"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from flask import Flask

from api import metrics, observe
from api.app import create_app
from api.context import standing
from registry.config import Settings
from registry.domain.errors import StoreUnavailable
from registry.services import life
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, report
from tests.clock import Clock
from tests.project import ROOT


def read(asker: Asker) -> dict[str, float]:
    """Scrape, and return each series with its value."""
    response = asker.get("/metrics")
    assert response.status_code == 200
    assert response.content_type.startswith("text/plain")
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def count(found: dict[str, float], **labels: str) -> float:
    """Add up the requests that have these labels."""
    wanted = {f'{name}="{value}"' for name, value in labels.items()}
    return sum(
        value
        for name, value in found.items()
        if name.startswith("pratique_requests_total{") and wanted <= set(re.findall(r'\w+="[^"]*"', name))
    )


def test_a_request_is_counted_by_route_method_status_and_role(operator: Asker, anonymous: Asker) -> None:
    before = read(anonymous)
    for _ in range(3):
        operator.get("/v1/devices/nobody")
    anonymous.post("/v1/quarantines", json={})
    after = read(anonymous)

    route = {"route": "/v1/devices/<path:ref>", "method": "GET", "status": "404", "role": "operator"}
    assert count(after, **route) - count(before, **route) == 3
    refused = {"route": "/v1/quarantines", "method": "POST", "status": "401", "role": "none"}
    assert count(after, **refused) - count(before, **refused) == 1
    series = 'pratique_request_duration_seconds_count{method="GET",route="/v1/devices/<path:ref>"}'
    assert after[series] - before.get(series, 0) == 3


def test_addresses_and_methods_that_nobody_made_share_one_series(anonymous: Asker) -> None:
    before = len(read(anonymous))
    for at in range(20):
        anonymous.get(f"/nonsense/{at}")
        anonymous.ask(f"METHOD{at}", "/nonsense")

    after = read(anonymous)

    assert count(after, route="none", method="other") >= 20
    assert len(after) - before < 50


def test_the_fleet_is_counted_as_it_stands(operator: Asker, node: Asker, anonymous: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    operator.post("/v1/quarantines", json={"targets": [{"device": SERIALS[0]}], "reason": "x"})
    operator.post("/v1/quarantines", json={"targets": [{"node": "node-b"}], "reason": "x"})

    found = read(anonymous)

    assert found['pratique_devices{kind="gpu",state="quarantined"}'] == 1
    assert found['pratique_devices{kind="gpu",state="in_service"}'] == 1
    assert found['pratique_nodes{state="reporting"}'] == 1
    assert found['pratique_quarantines_open{owner="operator",target="board"}'] == 1
    assert found['pratique_quarantines_open{owner="operator",target="node"}'] == 1
    assert found["pratique_conflicts_open"] == 0
    assert found["pratique_store_up"] == 1
    assert (
        found["pratique_history_sequence"] == operator.get("/v1/events?order=desc&limit=1").json["items"][0]["sequence"]
    )


def test_the_counts_are_those_of_the_lists(operator: Asker, node: Asker, anonymous: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    operator.post("/v1/quarantines", json={"targets": [{"device": SERIALS[0]}], "reason": "x"})
    left = report(report_id="one-left")
    left["devices"] = left["devices"][1:]
    node.post("/v1/nodes/node-a/reports", json=left)
    swapped = report(report_id="swapped")
    swapped["devices"][1]["serial"] = "1654000000099"
    node.post("/v1/nodes/node-a/reports", json=swapped)

    found = read(anonymous)

    states = ("in_service", "quarantined", "missing", "detached", "conflict")
    listed = {state: len(operator.get(f"/v1/devices?state={state}").json["items"]) for state in states}
    counted = {state: found.get(f'pratique_devices{{kind="gpu",state="{state}"}}', 0) for state in states}
    assert counted == listed
    assert sum(listed.values()) == len(operator.get("/v1/devices").json["items"])
    assert found["pratique_conflicts_open"] == len(operator.get("/v1/conflicts?state=open").json["items"]) == 1


def test_a_silent_node_is_stale_but_not_for_our_own_outage(
    app: Flask, operator: Asker, node: Asker, anonymous: Asker, clock: Clock
) -> None:
    database, policy = standing(app).database, standing(app).policy
    life.beat(database, clock(), policy)
    admit(operator, node, clock)
    life.beat(database, clock(), policy)
    clock.advance(3600)
    life.beat(database, clock(), policy)

    assert read(anonymous)['pratique_nodes{state="reporting"}'] == 1
    assert read(anonymous)["pratique_last_sign_timestamp_seconds"] == clock().timestamp()

    clock.advance(policy.report_stale_seconds + 1)

    assert read(anonymous)['pratique_nodes{state="stale"}'] == 1
    assert [one["state"] for one in operator.get("/v1/nodes").json["items"]] == ["stale"]


def test_a_store_that_is_away_is_seen_in_the_scrape(anonymous: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(metrics, "read_gauges", fail)

    read(anonymous)
    found = read(anonymous)  # counts the one before

    assert found["pratique_store_up"] == 0
    assert not [name for name in found if name.startswith("pratique_devices")]
    assert count(found, route="/metrics") > 0


def test_metrics_that_are_bound_apart_are_found_there_and_nowhere_else(settings: Settings, clock: Clock) -> None:
    app = create_app(replace(settings, metrics_bind="127.0.0.1:9464"), clock=clock)
    client = app.test_client()

    def status(path: str, port: str) -> int:
        return client.get(path, environ_overrides={"SERVER_PORT": port}).status_code

    assert (status("/metrics", "9464"), status("/metrics", "8080")) == (200, 404)
    assert (status("/health/live", "9464"), status("/health/live", "8080")) == (404, 200)
    standing(app).database.close_all()


def test_the_readme_explains_every_metric(operator: Asker, node: Asker, anonymous: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    operator.post("/v1/quarantines", json={"targets": [{"device": SERIALS[0]}], "reason": "x"})
    families = re.findall(r"^# TYPE (\w+) \w+$", anonymous.get("/metrics").text, re.MULTILINE)

    told = (ROOT / "README.md").read_text(encoding="utf-8")

    assert len(families) >= 8
    assert [name for name in families if f"| `{name}` |" not in told and not name.endswith("_created")] == []


def test_what_cannot_be_counted_is_answered_all_the_same_and_told_once(
    operator: Asker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> object:
        raise FileNotFoundError(2, "No such file or directory", "/gone/counter_1.db")

    monkeypatch.setattr(observe, "_count", fail)
    observe._tell_once.cache_clear()

    made = [operator.put(f"/v1/profiles/{name}", json={"gpu": {"count": 8}}).status_code for name in ("one", "two")]

    assert made == [201, 201]
    (told,) = [one.message for one in caplog.records if "not counted" in one.message]
    assert "'/gone/counter_1.db'; start the server again" in told
