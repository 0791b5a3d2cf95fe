# SPDX-License-Identifier: Apache-2.0
"""Does the server count its nodes by itself, and does a scrape show what came of it?"""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from api.background import Background
from api.context import standing
from registry.services import capacity
from tests.api.conftest import Asker
from tests.api.test_metrics import read
from tests.api.v1.fleet import SERIALS, admit, send
from tests.clock import Clock


def live(app: Flask, background: Background, clock: Clock, node: Asker, minutes: int) -> None:
    """Let the server live for some minutes, with a node that reports."""
    for _ in range(minutes * 6):
        background.beat()
        background.look_at_nodes()
        clock.advance(10)
        send(node)


@pytest.fixture
def background(app: Flask) -> Background:
    return Background(standing(app))


def test_availability_is_measured_while_the_server_runs(
    app: Flask, background: Background, admin: Asker, node: Asker, anonymous: Asker, clock: Clock
) -> None:
    admit(admin, node, clock)
    live(app, background, clock, node, 6)
    admin.post("/v1/quarantines", json={"targets": [{"device": SERIALS[0]}], "reason": "x", "cause": "hardware"})
    live(app, background, clock, node, 5)
    found, told = read(anonymous), admin.get("/v1/slo").json

    assert found['pratique_slo_target{slo="availability"}'] == 0.95
    assert found['pratique_slo_target{slo="interruptions"}'] == 6.5
    assert found['pratique_slo_actual{slo="availability"}'] == pytest.approx(0.5)
    assert found['pratique_slo_left{slo="availability"}'] == pytest.approx(-9)
    assert found['pratique_slo_bad{cause="hardware",slo="availability"}'] == pytest.approx(0.5)
    assert found['pratique_slo_burn_rate{slo="availability",window="2592000s"}'] == pytest.approx(10)
    assert found['pratique_capacity_ratio{cause="hardware",state="quarantined"}'] == pytest.approx(0.5)
    assert found['pratique_capacity_ratio{cause="none",state="available"}'] == pytest.approx(0.5)
    assert told["capacity"]["seen_seconds"] == 600
    # Nothing is said of jobs, of which there are none.
    assert not [name for name in found if 'slo="goodput"' in name and "target" not in name]


def test_a_process_without_the_lease_counts_nothing(
    app: Flask, background: Background, admin: Asker, node: Asker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(capacity, "look", lambda *given, **_: asked.append(given))
    other = Background(standing(app))
    background.beat()
    other.beat()
    other.look_at_nodes()
    assert asked == []

    background.look_at_nodes()
    assert len(asked) == 1
