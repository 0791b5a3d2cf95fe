# SPDX-License-Identifier: Apache-2.0
"""Is the whole history there, in pages, as a stream, and whole?"""

from __future__ import annotations

import csv
import io
import json

import pytest

from registry.domain.errors import StoreUnavailable
from registry.domain.times import rfc3339
from registry.services import export
from registry.store import history as store_history
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit
from tests.clock import Clock


def test_events_are_listed_oldest_first_and_filtered(
    auditor: Asker, operator: Asker, node: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)

    every = auditor.get("/v1/events?limit=1000").json["items"]
    some = auditor.get("/v1/events?type=device.registered").json["items"]

    assert [event["sequence"] for event in every] == list(range(1, len(every) + 1))
    assert {event["type"] for event in some} == {"device.registered"}
    assert auditor.get("/v1/events?order=desc&limit=1").json["items"] == every[-1:]


def test_the_export_is_one_event_a_line(auditor: Asker, operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    every = auditor.get("/v1/events?limit=1000").json["items"]

    exported = auditor.get("/v1/events/export")
    later = auditor.get("/v1/events/export?after=3")

    assert exported.content_type == "application/x-ndjson"
    assert exported.text.endswith("\n")
    lines = [json.loads(line) for line in exported.text.splitlines()]
    assert [line["sequence"] for line in lines] == [event["sequence"] for event in every]
    assert [line["hash"] for line in lines] == [event["hash"] for event in every]
    assert len(later.text.splitlines()) == len(lines) - 3
    assert auditor.get("/v1/events/export?after=x").status_code == 422


def test_a_stream_that_cannot_begin_is_a_503(auditor: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> object:
        raise StoreUnavailable("the disk is gone")
        yield

    monkeypatch.setattr(export, "export_events", fail)

    assert auditor.get("/v1/events/export").json["code"] == "store_unavailable"


def test_a_reader_that_goes_away_leaves_nothing_open(
    auditor: Asker, operator: Asker, node: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)

    exported = auditor.get("/v1/events/export")
    next(iter(exported.response))
    exported.close()

    assert operator.put("/v1/profiles/later", json={"gpu": {"count": 1}}).status_code == 201


def test_the_chain_is_verified(auditor: Asker, operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)

    found = auditor.get("/v1/audit/verify").json

    assert found["ok"] is True
    assert found["entries"] == found["head_sequence"] > 3


def test_an_exported_line_is_the_event_as_a_page_has_it(
    auditor: Asker, operator: Asker, node: Asker, clock: Clock
) -> None:
    admit(operator, node, clock)
    every = auditor.get("/v1/events?limit=1000").json["items"]

    assert [json.loads(line) for line in auditor.get("/v1/events/export").text.splitlines()] == every


def test_a_line_that_somebody_edited_is_shown_as_it_is() -> None:
    line = json.loads(export._line((7, '{"edited":true}', "a" * 64, "b" * 64)))

    assert line == {"body": '{"edited":true}', "prev_hash": "a" * 64, "hash": "b" * 64}


def test_the_export_comes_in_pieces_and_goes_on_from_any_line(
    auditor: Asker, operator: Asker, node: Asker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    admit(operator, node, clock)
    whole = auditor.get("/v1/events/export").text
    monkeypatch.setattr(export, "PIECE", 3)

    streamed = auditor.get("/v1/events/export")

    assert streamed.text == whole
    for line in whole.splitlines():
        sequence = json.loads(line)["sequence"]
        rest = auditor.get(f"/v1/events/export?after={sequence}").text
        assert whole.endswith(rest)
        assert len(rest.splitlines()) == len(whole.splitlines()) - sequence


def test_events_written_while_the_export_runs_are_left_for_the_next_one(
    auditor: Asker, operator: Asker, node: Asker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    admit(operator, node, clock)
    monkeypatch.setattr(export, "PIECE", 1)
    count = len(auditor.get("/v1/events/export").text.splitlines())

    stream = iter(auditor.get("/v1/events/export").response)
    first = next(stream)
    operator.put("/v1/profiles/later", json={"gpu": {"count": 1}})

    assert len([first, *stream]) == count


def test_the_export_is_csv_for_whoever_asks_for_it(auditor: Asker, operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    operator.post("/v1/quarantines", json={"targets": [{"device": "1654000000001"}], "reason": 'said "no", twice\n'})
    every = auditor.get("/v1/events?limit=1000").json["items"]

    exported = auditor.get("/v1/events/export", headers={"Accept": "text/csv"})

    rows = list(csv.DictReader(io.StringIO(exported.text, newline="")))
    assert exported.content_type == "text/csv; charset=utf-8"
    assert [int(row["sequence"]) for row in rows] == [event["sequence"] for event in every]
    assert [json.loads(row["data"]) for row in rows] == [event["data"] for event in every]
    assert [(row["hash"], row["at"], row["type"]) for row in rows] == [(e["hash"], e["at"], e["type"]) for e in every]
    assert {row["serial"] for row in rows if row["type"] == "device.registered"} == {"1654000000001", "1654000000002"}
    assert {row["actor"] for row in rows if row["type"] == "quarantine.opened"} == {"operator:alice"}


def test_a_csv_stream_that_cannot_begin_is_a_503(auditor: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(store_history, "sealed_rows", fail)

    response = auditor.get("/v1/events/export", headers={"Accept": "text/csv"})

    assert response.json["code"] == "store_unavailable"


def test_events_about_a_hold_are_found_by_it(auditor: Asker, operator: Asker) -> None:
    target = {"identifier": {"kind": "gpu", "type": "serial", "value": "1"}}
    opened = operator.post("/v1/quarantines", json={"targets": [target], "reason": "x"}).json
    hold = opened["items"][0]["quarantine"]["id"]

    found = auditor.get(f"/v1/events?quarantine={hold}").json["items"]

    assert [event["type"] for event in found] == ["quarantine.opened"]
    assert auditor.get(f"/v1/events?quarantine={hold}&node=node-a").json["items"] == []


@pytest.mark.parametrize("address", ["/v1/events", f"/v1/devices/{SERIALS[0]}/history", "/v1/nodes/node-a/history"])
def test_a_history_is_narrowed_by_time_type_actor_and_sequence(
    auditor: Asker, operator: Asker, node: Asker, clock: Clock, address: str
) -> None:
    admit(operator, node, clock)
    clock.advance(60)
    since = rfc3339(clock())
    operator.post("/v1/quarantines", json={"targets": [{"device": SERIALS[0]}], "reason": "x"})
    clock.advance(60)
    until = rfc3339(clock())
    operator.post("/v1/quarantines/release", json={"targets": [{"device": SERIALS[0]}], "reason": "x"})

    def find(**query: str) -> list[str]:
        return [one["type"] for one in auditor.get(address, query_string=query).json["items"]]

    assert find(since=since, until=until) == ["quarantine.opened"]
    assert "quarantine.opened" not in find(until=since)
    assert find(since=until)[0] == "quarantine.released"
    assert find(since=since, type="quarantine.released") == ["quarantine.released"]
    assert find(actor="operator:alice", since=since, order="desc")[-1] == "quarantine.opened"
    first = auditor.get(address).json["items"][0]
    assert [first] == auditor.get(address, query_string={"sequence": str(first["sequence"])}).json["items"]
    assert auditor.get(address, query_string={"since": "yesterday"}).json["errors"][0]["pointer"] == "/since"
