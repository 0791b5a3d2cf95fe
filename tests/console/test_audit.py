# SPDX-License-Identifier: Apache-2.0
"""Can an auditor find who did what, have the history verified, and take it away with its proof?"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from flask import Flask

from api.context import standing
from registry.domain.events import hash_of
from registry.services import audit_view
from registry.services.checkpoints import sign
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import Fleet, serial, uuid
from tests.forgery import forge
from tests.project import ROOT
from tests.services.test_audit_view import edit_the_ninth


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """The records of the application: a node, a fault, a hold, and a checkpoint of all that."""
    known = Fleet(standing(app).database, clock)
    known.admit()
    known.fail("xid_79", device=uuid(1))
    known.hold({"device": uuid(2)}, reason="it <smells>")
    sign(known.db, standing(app).settings, now=clock.now)
    clock.advance(300)
    return known


def test_before_anything_happened_it_is_said_what_will_be_there(auditor: Visitor) -> None:
    shown = auditor.page("/console/audit")
    assert "No checkpoint has been signed yet." in shown
    assert "Verify now" not in shown


def test_the_newest_checkpoint_its_age_and_its_key_are_shown(auditor: Visitor, fleet: Fleet) -> None:
    shown = auditor.page("/console/audit")
    assert "(5 min ago)" in shown
    assert "By the key of this server" in shown
    assert "Not covered yet 0 entries" in shown


def test_events_are_searched_and_each_can_be_hashed_again_by_hand(auditor: Visitor, fleet: Fleet) -> None:
    answer = auditor.get("/console/audit?actor=operator:alice&type=quarantine.opened")
    shown = words_of(answer)
    assert "it <smells>" in shown
    assert "xid_79" not in shown
    hash_, before = re.findall(r'(?:hash|after) <code class="mark">([0-9a-f]{64})<', answer.text)
    body = re.search(r'<pre class="body"[^>]*><code>(.*?)</code></pre>', answer.text, re.DOTALL)
    assert body is not None
    assert hash_of(before, html.unescape(body[1])) == hash_


@pytest.mark.parametrize(
    ("asked", "is_there"),
    [
        (f"device={serial(2)}", True),
        ("type=quarantine.opened", True),
        ("since=2020-01-01T00:00", True),
        ("since=2020-01-01T00:00:00Z&until=2099-01-01T00:00", True),
        ("until=2020-01-01", False),
        ("actor=operator:nobody", False),
        ("node=node-a&type=quarantine.opened", True),
    ],
)
def test_each_filter_stands_in_the_address(auditor: Visitor, fleet: Fleet, asked: str, is_there: bool) -> None:
    assert ("it <smells>" in auditor.page(f"/console/audit?{asked}")) == is_there


@pytest.mark.parametrize("asked", ["actor=alice", "since=yesterday", "type=nothing", "colour=red"])
def test_a_filter_that_cannot_be_read_is_said(auditor: Visitor, fleet: Fleet, asked: str) -> None:
    answer = auditor.get(f"/console/audit?{asked}")
    assert answer.status_code == 422
    assert asked.split("=", maxsplit=1)[0] in words_of(answer).lower()


def test_pages_go_on_where_the_last_one_ended(auditor: Visitor, fleet: Fleet) -> None:
    seen: list[str] = []
    address = "/console/audit?limit=5"
    for _ in range(50):
        text = auditor.get(address).text
        seen += re.findall(r'id="e([0-9]+)"', text)
        onward = re.search(r'href="([^"]+)" rel="next"', text)
        if onward is None:
            break
        address = onward[1].replace("&amp;", "&")
    numbers = [int(one) for one in seen]
    assert numbers == list(range(numbers[0], 0, -1))


def test_it_is_verified_piece_by_piece_by_the_browser_alone(
    auditor: Visitor, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_view, "SLICE", 5)
    address, pieces = "/console/audit/verify", 0
    while True:
        answer = auditor.get(address)
        pieces += 1
        if "Refresh" not in answer.headers:
            break
        assert "Verifying…" in words_of(answer)
        assert "<progress" in answer.text
        address = answer.headers["Refresh"].partition("url=")[2]
    assert pieces > 2
    head = fleet.db.look(lambda snapshot: snapshot.sequence())
    assert f"Entries 1 to {head} follow from one another, and 1 checkpoint agrees." in words_of(answer)


def test_since_the_newest_checkpoint_takes_one_look(auditor: Visitor, fleet: Fleet) -> None:
    found = re.search(r'name="after" value="([0-9]+)"', auditor.get("/console/audit").text)
    assert found is not None
    shown = auditor.page(f"/console/audit/verify?after={found[1]}")
    assert "It holds" in shown
    assert "its checkpoint vouches for it" in shown


def test_an_entry_that_was_edited_is_named(auditor: Visitor, fleet: Fleet) -> None:
    forge(fleet.db, fleet.clock.now, edit_the_ninth, 9, Random(1))
    answer = auditor.get("/console/audit/verify")
    assert "The history is not whole" in words_of(answer)
    assert "entry 9" in words_of(answer)
    assert "Refresh" not in answer.headers


@pytest.mark.parametrize("asked", ["after=-1", "after=x", "after=99999999", "began=5&after=3", "more=1"])
def test_an_address_that_was_made_up_is_refused(auditor: Visitor, fleet: Fleet, asked: str) -> None:
    assert auditor.get(f"/console/audit/verify?{asked}").status_code == 422


def test_the_whole_history_is_taken_away_as_lines_and_as_a_table(auditor: Visitor, fleet: Fleet) -> None:
    lines = auditor.get("/console/audit/export.ndjson")
    table = auditor.get("/console/audit/export.csv")
    told = [json.loads(line) for line in lines.text.splitlines()]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    head = fleet.db.look(lambda snapshot: snapshot.sequence())
    assert [one["sequence"] for one in told] == list(range(1, head + 1))
    assert [int(one["sequence"]) for one in rows] == list(range(1, head + 1))
    assert re.search(r'filename="history-[0-9T-]+Z\.ndjson"', lines.headers["Content-Disposition"])
    assert len(auditor.get(f"/console/audit/export.ndjson?after={head - 2}").text.splitlines()) == 2


def test_what_was_taken_away_is_proved_without_this_server(auditor: Visitor, fleet: Fleet, tmp_path: Path) -> None:
    checkpoint = auditor.get("/console/audit/checkpoint.json")
    (tmp_path / "history.ndjson").write_bytes(auditor.get("/console/audit/export.ndjson").data)
    (tmp_path / "checkpoint.json").write_bytes(checkpoint.data)
    command = [sys.executable, str(ROOT / "deploy" / "verify_history.py"), "--key", checkpoint.json["key"]]
    done = subprocess.run(
        [*command, "--checkpoints", str(tmp_path / "checkpoint.json"), str(tmp_path / "history.ndjson")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 checkpoints agree" in done.stdout


def test_without_a_session_nothing_is_taken_away(stranger: Visitor, fleet: Fleet) -> None:
    for name in ("export.ndjson", "export.csv", "checkpoint.json", "verify"):
        assert stranger.get(f"/console/audit/{name}").status_code == 303
