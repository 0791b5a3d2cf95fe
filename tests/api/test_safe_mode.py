# SPDX-License-Identifier: Apache-2.0
"""Does every door say that the service is in safe mode, does a running server notice, and who may end it?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask

from api.app import create_app
from api.background import Background
from api.context import standing
from registry.config import Settings
from registry.domain.safe_mode import Head
from registry.services import leasing, safe_mode, sweep
from registry.services.leasing import BACKGROUND
from tests.api.conftest import Asker
from tests.clock import Clock

REASON = {"reason": "the holds of this morning were opened anew"}


@pytest.fixture
def lost(app: Flask, clock: Clock) -> Flask:
    """The service, of whose history entry 900 was seen outside."""
    assert safe_mode.assess(standing(app).database, [Head(900, "f" * 64)], now=clock.now)
    return app


def test_readiness_says_so_and_stays_200(lost: Flask, anonymous: Asker) -> None:
    answer = anonymous.get("/health/ready")

    assert (answer.status_code, answer.json["status"]) == (200, "safe_mode")
    assert answer.json["safe_mode"] == [
        {"cause": "ends_early", "from": 1, "to": 900, "since": "2026-11-29T12:00:00.000000Z"}
    ]


def test_outside_safe_mode_there_is_nothing_to_say(anonymous: Asker) -> None:
    assert anonymous.get("/health/ready").json["safe_mode"] == []


def test_an_admin_takes_note_once(lost: Flask, admin: Asker, operator: Asker, anonymous: Asker) -> None:
    refused = operator.post("/v1/service/acknowledge", json=REASON)
    unreasoned = admin.post("/v1/service/acknowledge", json={})
    done = admin.post("/v1/service/acknowledge", json=REASON)
    again = admin.post("/v1/service/acknowledge", json=REASON)

    assert [one.status_code for one in (refused, unreasoned, done, again)] == [403, 422, 200, 409]
    assert done.json["safe_mode"] is False
    assert done.json["lost"][0]["to"] == 900
    assert again.json["code"] == "not_open"
    assert anonymous.get("/health/ready").json["status"] == "ok"


def test_a_node_is_told_in_the_line_for_a_shell(lost: Flask, node: Asker) -> None:
    body = {
        "report_id": "r-1",
        "boot_id": "b",
        "provider_id": "i",
        "profile": "g5.xlarge",
        "covers": ["gpu"],
        "devices": [],
    }
    told = node.post("/v1/nodes/node-a/reports", json=body)
    line = node.get("/v1/nodes/node-a/admission", headers={"Accept": "text/plain"})

    assert told.status_code == 200
    assert "service_safe_mode" in line.text
    assert line.text.startswith("hold 13 ")


@pytest.fixture
def watching(settings: Settings, clock: Clock, tmp_path: Path) -> Iterator[Background]:
    file = tmp_path / "checkpoints.jsonl"
    file.write_text(json.dumps({"sequence": 900, "hash": "f" * 64}) + "\n")
    app = create_app(replace(settings, checkpoint_file=file), clock=clock)
    yield Background(standing(app))
    standing(app).database.close_all()


def test_a_running_server_notices_that_its_records_were_put_back(watching: Background, anonymous: Asker) -> None:
    watching.beat()

    assert anonymous.get("/health/ready").json["status"] == "safe_mode"


def test_only_the_process_with_the_lease_does_what_one_process_does(
    app: Flask, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    swept: list[str] = []
    one, other = Background(standing(app)), Background(standing(app))
    monkeypatch.setattr(sweep, "sweep", lambda *_, **__: swept.append("one"))

    for background in (one, other, one):
        background.beat()
    assert swept == ["one", "one"]

    # Between taking and acting the lease passes on to somebody else.
    database = standing(app).database
    real = leasing.take

    def slow(*given: object, **named: object) -> object:
        lease = real(*given, **named)
        with database.write(clock.now) as tx:
            tx.execute("UPDATE lease SET holder = 'somebody', token = token + 1 WHERE name = ?", (BACKGROUND,))
        return lease

    monkeypatch.setattr(leasing, "take", slow)
    caplog.set_level("INFO")
    one.beat()
    assert swept == ["one", "one"]
    assert "another process has the lease" in caplog.text
