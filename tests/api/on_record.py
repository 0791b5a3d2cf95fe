# SPDX-License-Identifier: Apache-2.0
"""What is on record while requests are made up, and what is each of it called in an address or a message?"""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask

from api.background import Background
from api.context import standing
from registry.domain.roles import Role
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, gpu, send
from tests.clock import Clock

ECC = {"name": "gpu.ecc", "status": "fail", "device": SERIALS[0]}
FAULT = {"failure_id": "f-1", "device": SERIALS[0], "code": "xid_79", "occurred_at": "2026-11-29T12:00:00Z"}
BEGUN = {"event_id": "e-1", "kind": "started", "at": "2026-11-29T11:00:00Z", "nodes": ["node-a"], "devices": 2}
FAILED = {
    "job_id": "job-1",
    "nodes": ["node-a"],
    "started_at": "2026-11-29T11:00:00Z",
    "failed_at": "2026-11-29T12:00:00Z",
}
HOOK = {"url": "https://hooks.example/"}


def records(app: Flask, admin: Asker, node: Asker, clock: Clock, token: Callable[..., str]) -> dict[str, str]:
    """Make one record of every sort that has an address. Return their names by what the document calls them."""
    admit(admin, node, clock)
    repair = _repair(app, admin, node, clock)
    conflict = _conflict(admin, node)
    failure = admin.post("/v1/failures", json=FAULT).json["items"][0]["failure"]["id"]
    assert admin.post("/v1/jobs/job-1/events", json={"events": [BEGUN]}).status_code == 201
    token(Role.AUDITOR, name="spare")
    return {
        "node": "node-a",
        "ref": SERIALS[1],
        "device": SERIALS[1],
        "name": "tiny",
        "profile": "tiny",
        "repair": repair,
        "conflict": conflict,
        "failure": failure,
        "quarantine_id": admin.get("/v1/quarantines").json["items"][0]["id"],
        "job": "job-1",
        "job_id": "job-1",
        "job_failure": admin.post("/v1/job-failures", json=FAILED).json["id"],
        "webhook": admin.post("/v1/webhooks", json=HOOK).json["id"],
        "token": next(one["id"] for one in admin.get("/v1/tokens").json["items"] if one["name"] == "spare"),
        "secret": token(Role.WEBHOOK),
        "url": HOOK["url"],
        "file": "page.js",
    }


def _repair(app: Flask, admin: Asker, node: Asker, clock: Clock) -> str:
    """Let a GPU be bad for longer than is tolerated."""
    for _ in range(9):
        clock.advance(90)
        send(node, checks=[ECC])
    Background(standing(app)).beat()
    return str(admin.get("/v1/repairs").json["items"][0]["id"])


def _conflict(admin: Asker, node: Asker) -> str:
    """Let a UUID that is known come with another serial."""
    send(node, devices=[{**gpu(SERIALS[0], 0x10), "serial": "1654000000077"}, gpu(SERIALS[1], 0x11)])
    return str(admin.get("/v1/conflicts").json["items"][0]["id"])
