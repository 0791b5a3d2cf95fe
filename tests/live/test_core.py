# SPDX-License-Identifier: Apache-2.0
"""Is the story told right over HTTP: passes, admission, holds, a move, history, proof, tokens, repetition?"""

from __future__ import annotations

import json
from typing import Any

from tests.live.machines import (
    Node,
    all_events,
    codes,
    held,
    quarantine,
    release,
    serial,
    walk,
)
from tests.live.server import WORKERS, Caller, LiveServer


def line(node: Node) -> str:
    answer = node.caller.ask("GET", f"/v1/nodes/{node.name}/admission", headers={"Accept": "text/plain"})
    assert answer.status_code == 200
    return answer.text


def test_two_passes_admit_a_node_in_json_and_as_a_line(server: LiveServer) -> None:
    node = Node(server)

    unknown = node.decision()
    first = node.report()
    line_between = line(node)
    second = node.report()

    assert codes(unknown) == ["node_unknown"]
    assert first["pass"] == {"counted": True, "because": None, "detail": None, "have": 1, "need": 2}
    assert codes(first["admission"]) == ["passes_insufficient"]
    assert line_between.startswith("hold 11 passes_insufficient ")
    assert second["pass"]["have"] == 2
    assert second["admission"]["admitted"]
    assert node.decision()["disposition"] == "admit"
    assert line(node) == "admit 0 - -\n"


def test_a_held_gpu_is_refused_by_every_worker_from_the_acknowledgement_on(
    server: LiveServer, operator: Caller
) -> None:
    node = Node(server)
    node.admit()

    (item,) = quarantine(operator, held(node))
    told = []
    for worker in server.all_workers():
        with server.only(worker):
            told.append(node.decision(fresh=True))
    (again,) = quarantine(operator, held(node))

    assert item["outcome"] == "opened"
    assert len(told) == WORKERS
    assert [codes(one) for one in told] == [["device_quarantined"]] * WORKERS
    assert {one["reasons"][0]["quarantine"] for one in told} == {item["quarantine"]["id"]}
    assert line(node) == "hold 10 device_quarantined -\n"
    assert (again["outcome"], again["quarantine"]["id"]) == ("already_open", item["quarantine"]["id"])


def test_a_hold_follows_the_gpu_to_another_node_until_it_is_released(server: LiveServer, operator: Caller) -> None:
    old, new = Node(server), Node(server)
    old.admit()
    (item,) = quarantine(operator, held(old))
    bad, spare = old.gpus[0], new.gpus[0]

    old.gpus[0], new.gpus[0] = spare, bad
    new.report()
    moved = new.report()["admission"]
    old.report()
    repaired = old.report()["admission"]
    release(operator, item["quarantine"]["id"])
    after = new.decision()
    twice = operator.post(f"/v1/quarantines/{item['quarantine']['id']}/release", {"reason": "again"})
    new.report()
    trusted = new.report()["admission"]

    assert codes(moved) == ["device_quarantined"]
    assert moved["reasons"][0]["device"]["serial"] == serial(bad)
    assert repaired["admitted"]
    assert codes(after) == ["passes_insufficient"]
    assert (twice.status_code, twice.json()["code"]) == (409, "not_open")
    assert trusted["admitted"]


def test_a_history_is_the_same_whole_in_pages_and_turned_round(
    server: LiveServer, operator: Caller, auditor: Caller
) -> None:
    node = Node(server)
    node.admit()
    for _ in range(3):
        (item,) = quarantine(operator, held(node))
        release(operator, item["quarantine"]["id"])
    path = f"/v1/devices/{serial(node.gpus[0])}/history"

    whole = walk(auditor, path, limit=1000)
    paged = walk(auditor, path, limit=2)
    turned = walk(auditor, path, limit=3, order="desc")

    types = [event["type"] for event in whole]
    sequences = [event["sequence"] for event in whole]
    assert types[:2] == ["device.registered", "device.attached"]
    assert [one for one in types if one.startswith("quarantine.")] == ["quarantine.opened", "quarantine.released"] * 3
    assert sequences == sorted(set(sequences))
    assert paged == whole
    assert turned == whole[::-1]


def test_the_export_is_the_whole_history_and_the_chain_holds(
    server: LiveServer, operator: Caller, auditor: Caller
) -> None:
    node = Node(server)
    node.admit()
    quarantine(operator, held(node))

    answer = auditor.ask("GET", "/v1/events/export")
    exported = [json.loads(text) for text in answer.text.splitlines()]
    rest = auditor.ask("GET", "/v1/events/export", params={"after": len(exported) - 2}).text.splitlines()
    proof = auditor.get("/v1/audit/verify")

    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    assert exported == all_events(auditor)
    assert [event["sequence"] for event in exported] == list(range(1, len(exported) + 1))
    assert [json.loads(text) for text in rest] == exported[-2:]
    assert proof["ok"], proof
    assert proof["entries"] == len(exported)
    assert proof["head_hash"] == exported[-1]["hash"]


def test_a_revoked_token_is_worthless_in_every_worker_at_once(server: LiveServer) -> None:
    leaver = server.caller("operator", "leaver")
    (token_id,) = [one["id"] for one in server.admin.get("/v1/tokens")["items"] if one["name"] == "leaver"]
    statuses: dict[str, list[int]] = {}

    for when in ("before", "after"):
        statuses[when] = []
        for worker in server.all_workers():
            with server.only(worker):
                statuses[when].append(leaver.ask("GET", "/v1/nodes", fresh=True).status_code)
        if when == "before":
            assert server.admin.ask("DELETE", f"/v1/tokens/{token_id}").status_code == 204

    assert statuses == {"before": [200] * WORKERS, "after": [401] * WORKERS}


def test_one_idempotency_key_makes_one_change_whichever_workers_are_asked(
    server: LiveServer, operator: Caller, auditor: Caller
) -> None:
    node = Node(server)
    node.admit()
    key = {"Idempotency-Key": f"key-of-{node.name}"}
    body = {"targets": [held(node)], "reason": "it smells"}

    answers = [operator.post("/v1/quarantines", body, headers=key, fresh=True) for _ in range(8)]
    other = operator.post("/v1/quarantines", {**body, "reason": "no"}, headers=key, fresh=True)
    somebody_else = server.caller("operator").post("/v1/quarantines", body, headers=key)

    assert {answer.status_code for answer in answers} == {201}
    assert {answer.text for answer in answers} == {answers[0].text}
    assert [answer.headers.get("Idempotent-Replayed") for answer in answers] == [None] + ["true"] * 7
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert somebody_else.json()["items"][0]["outcome"] == "opened"
    opened = walk(auditor, f"/v1/nodes/{node.name}/history")
    assert [event["type"] for event in opened].count("quarantine.opened") == 2


def test_a_report_that_comes_again_is_told_its_first_pass_and_the_decision_of_now(
    server: LiveServer, operator: Caller
) -> None:
    node = Node(server)
    body = node.body()

    first: dict[str, Any] = node.caller.post(node.path, body).json()
    node.report()
    quarantine(operator, held(node))
    again = node.caller.post(node.path, body, fresh=True).json()
    forged = node.caller.post(node.path, {**body, "zone": "elsewhere"})

    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["pass"] == first["pass"]
    assert codes(again["admission"]) == ["device_quarantined"]
    assert again["admission"]["passes"]["have"] == 2
    assert (forged.status_code, forged.json()["code"]) == (422, "report_id_reused")
