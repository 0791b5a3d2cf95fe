# SPDX-License-Identifier: Apache-2.0
"""Does a cursor go on with the list that it was taken from, and with no other?"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import pytest
from flask import Flask

from api.background import Background
from api.context import standing
from tests.api.conftest import Asker
from tests.api.test_contract import OPERATIONS
from tests.api.v1.fleet import SERIALS, admit, gpu, send
from tests.clock import Clock

LISTS = [
    path
    for path, method, stated in OPERATIONS
    if method == "GET" and "cursor" in {one["name"] for one in stated["parameters"]}
]
"""Every list that the document has."""

FILTERS = {"events": "type", "history": "type", "jobs": "job_id"} | dict.fromkeys(
    ("nodes", "devices", "tokens", "profiles"), "name"
)
"""What to ask a list for; others are asked for an `id`."""


RECORDS = {"{node}": "node-a", "{ref}": SERIALS[0]}
"""What stands for a name in an address; the records themselves add theirs."""


def address(path: str) -> str:
    for name, record in RECORDS.items():
        path = path.replace(name, record)
    return path


@pytest.fixture
def records(app: Flask, admin: Asker, node: Asker, clock: Clock) -> None:
    """Two items at least in every list."""
    admit(admin, node, clock)
    for _ in range(9):  # longer than is tolerated, so that repairs are planned
        clock.advance(90)
        bad = [{"name": "gpu.ecc", "status": "fail", "device": serial} for serial in SERIALS[:2]]
        send(node, checks=bad, report_id=clock.now.isoformat())
    Background(standing(app)).beat()
    for name, code in (("f-1", "xid_13"), ("f-2", "xid_31")):
        fault = {"failure_id": name, "device": SERIALS[0], "code": code, "occurred_at": "2026-11-29T12:00:00Z"}
        assert admin.post("/v1/failures", json=fault).status_code == 201
        assert admin.post("/v1/tokens", json={"role": "auditor", "name": name}).status_code == 201
        job = {"job_id": name, "nodes": ["node-a"], "started_at": "2026-11-29T11:00:00Z"}
        assert admin.post("/v1/job-failures", json={**job, "failed_at": "2026-11-29T12:00:00Z"}).status_code == 201
        start = {"event_id": name, "kind": "started", "at": "2026-11-29T11:00:00Z", "nodes": ["node-a"], "devices": 8}
        assert admin.post(f"/v1/jobs/{name}/events", json={"events": [start]}).status_code == 201
    targets = [{"identifier": {"kind": "gpu", "type": "serial", "value": text}} for text in ("1", "2")]
    assert admin.post("/v1/quarantines", json={"targets": targets, "reason": "x"}).status_code == 201
    send(node, devices=[{**gpu(one, 0x10 + at), "serial": f"99{at}"} for at, one in enumerate(SERIALS)])
    for _ in range(2):
        RECORDS["{webhook}"] = admin.post("/v1/webhooks", json={"url": "https://hooks.example/"}).json["id"]
    for _ in range(2):
        assert admin.post(f"/v1/webhooks/{RECORDS['{webhook}']}/test").status_code == 202
    own = admin.post("/v1/tokens", json={"role": "node", "name": "b", "node": "node-b"}).json["token"]
    headers = {"Authorization": f"Bearer {own}"}
    report = {"report_id": "b", "boot_id": "b", "provider_id": "i-b", "profile": "tiny", "covers": ["gpu"]}
    answer = admin.post("/v1/nodes/node-b/reports", json={**report, "devices": []}, headers=headers)
    assert answer.status_code == 200, answer.text


def cursor_of(admin: Asker, path: str, **query: str) -> str:
    page = admin.get(address(path), query_string={"limit": "1", **query}).json
    assert page["next"], path
    return str(page["next"])


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("path", LISTS)
def test_pages_make_the_whole_list(admin: Asker, path: str, order: str) -> None:
    whole = admin.get(address(path), query_string={"limit": "1000", "order": order}).json
    found: list[Any] = []
    query = {"limit": "1", "order": order}

    while True:
        page = admin.get(address(path), query_string=query).json
        found += page["items"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]

    assert whole["next"] is None
    assert found == whole["items"]


@pytest.mark.usefixtures("records")
def test_a_cursor_of_one_list_is_refused_by_every_other(admin: Asker) -> None:
    cursors = {path: cursor_of(admin, path) for path in LISTS}

    for path in LISTS:
        for other, cursor in cursors.items():
            answer = admin.get(address(path), query_string={"cursor": cursor})
            assert (answer.status_code == 200) is (path == other), (path, other, answer.text)
            if path != other:
                assert (answer.status_code, answer.json["code"]) == (422, "invalid_field")
                assert [error["pointer"] for error in answer.json["errors"]] == ["/cursor"]


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_is_refused_under_other_filters_and_in_another_order(admin: Asker, path: str) -> None:
    cursor = cursor_of(admin, path)
    filters = {FILTERS.get(path.rpartition("/")[2], "id"): "node.booted"}

    for query in (filters, {"order": "desc"}, {"order": "asc"}):
        refused = admin.get(address(path), query_string={"cursor": cursor, **query})
        assert (refused.status_code, refused.json["code"]) == (422, "invalid_field"), query
        assert "other filters or another order" in refused.json["detail"]
    assert admin.get(address(path), query_string={"cursor": cursor, "limit": "7"}).status_code == 200


@pytest.mark.parametrize("cursor", ["nonsense", "é", urlsafe_b64encode(b"events").decode(), "bm8", "a" * 1025])
def test_what_is_no_cursor_is_refused(admin: Asker, cursor: str) -> None:
    refused = admin.get("/v1/events", query_string={"cursor": cursor})

    assert (refused.status_code, refused.json["code"]) == (422, "invalid_field")
    assert [error["pointer"] for error in refused.json["errors"]] == ["/cursor"]
