# SPDX-License-Identifier: Apache-2.0
"""Does the service say whether it lives and can answer, and does each process beat by itself?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask

from api import background
from api.app import create_app
from api.background import Background
from api.context import standing
from registry.config import Settings
from registry.domain.errors import StoreUnavailable
from registry.services import life, sweep
from tests.api.conftest import Asker
from tests.clock import Clock


@pytest.fixture
def running(app: Flask) -> Iterator[Background]:
    started = background.start(app)
    yield started
    started.stop()


def wait_for_beat(anonymous: Asker) -> bool:
    """Wait until a sign of life shows, for ten seconds at most."""
    for _ in range(200):
        if anonymous.get("/health/ready").json.get("is_beating"):
            return True
        time.sleep(0.05)
    return False


def test_it_lives(anonymous: Asker) -> None:
    assert anonymous.get("/health/live").json == {"status": "ok"}


def test_it_is_ready_on_a_migrated_database(anonymous: Asker, engine: str) -> None:
    response = anonymous.get("/health/ready")

    assert response.status_code == 200
    assert response.json["engine"] == engine


def test_it_is_not_ready_without_its_tables(settings: Settings, empty_database_url: str, clock: Clock) -> None:
    app = create_app(replace(settings, database_url=empty_database_url), clock=clock)

    response = app.test_client().get("/health/ready")
    standing(app).database.close_all()

    assert response.status_code == 503
    assert response.json["faults"]


def test_it_lives_without_a_database_and_says_so(settings: Settings, tmp_path: Path, clock: Clock) -> None:
    app = create_app(replace(settings, database_url=f"sqlite:///{tmp_path / 'none' / 'x.db'}"), clock=clock)
    client = app.test_client()

    assert client.get("/health/live").status_code == 200
    assert client.get("/health/ready").status_code == 503
    answer = client.get("/v1/nodes", headers={"Authorization": f"Bearer {well_formed_token()}"})
    assert (answer.status_code, answer.json["code"]) == (503, "store_unavailable")


def well_formed_token() -> str:
    from registry.services.tokens import checksum_of  # noqa: PLC0415 - needed for this one token

    body = f"prq_admin_{'a' * 43}"
    return body + checksum_of(body)


def test_a_process_beats_by_itself_and_stops_when_told(running: Background, anonymous: Asker) -> None:
    assert wait_for_beat(anonymous)

    running.stop()

    assert not running.is_running


@pytest.mark.parametrize("error", [StoreUnavailable("the disk is full"), ZeroDivisionError("a bad row")])
def test_a_round_that_fails_is_survived_and_said(
    app: Flask,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    anonymous: Asker,
    error: Exception,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(sweep, "sweep", fail)
    one = Background(standing(app))

    one.beat()
    monkeypatch.setattr(life, "beat", fail)
    one.beat()

    assert "sweep" in caplog.text
    assert "sign of life" in caplog.text
    assert anonymous.get("/health/ready").json["is_beating"]
