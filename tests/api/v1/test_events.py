# SPDX-License-Identifier: Apache-2.0
"""Is the whole history there, in pages, as a stream, and whole?"""

from __future__ import annotations

import json

import pytest

from registry.domain.errors import StoreUnavailable
from registry.services import export
from tests.api.conftest import Asker
from tests.api.v1.fleet import admit
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
