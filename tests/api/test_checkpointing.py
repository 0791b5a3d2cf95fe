# SPDX-License-Identifier: Apache-2.0
"""Does a server sign by itself, bring the checkpoints out, show their age, and stand everything that goes wrong?"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from flask import Flask

from api.app import create_app
from api.background import Background
from api.context import standing
from registry.config import Settings
from registry.domain.errors import StoreUnavailable
from registry.services import checkpoints, sinks
from tests.api.conftest import Asker
from tests.api.test_metrics import read
from tests.clock import Clock
from tests.forgery import forge
from tests.services.signed import write_many


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return replace(settings, checkpoint_seconds=60, checkpoint_file=tmp_path / "checkpoints.jsonl")


def test_the_head_is_signed_in_time_and_gets_out(
    app: Flask, auditor: Asker, anonymous: Asker, clock: Clock, tmp_path: Path
) -> None:
    background = Background(standing(app))
    background.keep_checkpoints()
    assert auditor.get("/v1/audit/checkpoint").status_code == 404
    before = read(anonymous)
    assert before["pratique_checkpoint_uncovered_events"] == before["pratique_history_sequence"] > 0
    assert "pratique_checkpoint_age_seconds" not in before

    clock.advance(60)
    background.keep_checkpoints()
    clock.advance(7)

    newest = auditor.get("/v1/audit/checkpoint").json
    assert json.loads((tmp_path / "checkpoints.jsonl").read_text()) == newest
    after = read(anonymous)
    assert after["pratique_checkpoint_age_seconds"] == 7
    assert after["pratique_checkpoint_uncovered_events"] == 0


def test_two_servers_sign_once_and_each_has_the_whole_file(
    app: Flask, settings: Settings, clock: Clock, auditor: Asker, tmp_path: Path
) -> None:
    other = create_app(replace(settings, checkpoint_file=tmp_path / "other.jsonl"), clock=clock)
    write_many(standing(app).database, clock.now, 3)
    clock.advance(60)

    for one in (app, other, app):
        Background(standing(one)).keep_checkpoints()
    standing(other).database.close_all()

    assert len((tmp_path / "other.jsonl").read_text().splitlines()) == 1
    assert (tmp_path / "other.jsonl").read_text() == (tmp_path / "checkpoints.jsonl").read_text()


def test_a_sink_that_hangs_keeps_no_sign_of_life_waiting(
    app: Flask, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, let_go = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> list[str]:
        hanging.set()
        let_go.wait(10)
        return []

    monkeypatch.setattr(sinks, "tend", hang)
    background = Background(standing(app))
    background.start()
    try:
        assert hanging.wait(10)
        background.beat()
    finally:
        let_go.set()
        background.stop()
    assert not background.is_running


def test_a_store_that_is_away_is_told_and_survived(
    app: Flask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(checkpoints, "keep_signed", fail)
    monkeypatch.setattr(sinks, "tend", fail)

    Background(standing(app)).keep_checkpoints()

    assert "no checkpoint: the store cannot answer: the disk is gone" in caplog.text


def test_a_checkpoint_that_somebody_edited_breaks_no_page(
    app: Flask, settings: Settings, clock: Clock, auditor: Asker, anonymous: Asker
) -> None:
    db = standing(app).database
    checkpoints.sign(db, settings, now=clock.now)
    edit = "UPDATE event SET body = replace(body, '\"root\":\"', '\"root\":\"x') WHERE type = 'checkpoint.signed'"
    forge(db, clock.now, lambda tx, *_: tx.execute(edit), 0, Random())

    assert auditor.get("/v1/audit/checkpoint").status_code == 503
    assert read(anonymous)["pratique_checkpoint_uncovered_events"] > 0
    found = auditor.get("/v1/audit/verify").json
    assert not found["ok"]
    assert found["bad"] == found["head_sequence"]
    clock.advance(600)
    Background(standing(app)).keep_checkpoints()
