# SPDX-License-Identifier: Apache-2.0
"""When callers race over HTTP, is there one winner, no 500, nothing lost, and every entry under its author's name?"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from tests.live.machines import Node, all_events, codes, fresh_gpus, held, quarantine, release, serial, walk
from tests.live.racing import Answer, Request, post_from_processes, post_together
from tests.live.server import Caller, LiveServer
from tests.racing import together

RACERS = 16
USERS = ("u1", "u2", "u3", "u4", "u5")
REPORTS = 20
RELEASES = 200


def asking(caller: Caller, path: str, body: Any) -> Request:
    return Request(caller.server.url + path, caller.token, body)


def hold_request(caller: Caller, *targets: dict[str, Any]) -> Request:
    return asking(caller, "/v1/quarantines", {"targets": list(targets), "reason": "it smells"})


def unseen(number: int) -> dict[str, Any]:
    return {"identifier": {"kind": "gpu", "type": "serial", "value": serial(number)}}


def outcomes(answers: list[Answer]) -> Counter[str]:
    return Counter(item["outcome"] for answer in answers for item in answer.body["items"])


def ids(answers: list[Answer]) -> set[str]:
    return {item["quarantine"]["id"] for answer in answers for item in answer.body["items"]}


def test_of_many_who_hold_one_gpu_as_one_owner_one_opens_it(
    server: LiveServer, operator: Caller, auditor: Caller
) -> None:
    node = Node(server)
    node.admit()

    # The GPU's serial and its UUID are one target, whichever is named.
    by_serial, by_uuid = held(node), {"device": node.body()["devices"][0]["uuid"]}
    answers = post_from_processes([hold_request(operator, by_serial), hold_request(operator, by_uuid)] * (RACERS // 2))

    assert outcomes(answers) == {"opened": 1, "already_open": RACERS - 1}
    assert Counter(answer.status for answer in answers) == {201: 1, 200: RACERS - 1}
    assert len(ids(answers)) == 1
    events = walk(auditor, f"/v1/nodes/{node.name}/history")
    assert [event["type"] for event in events].count("quarantine.opened") == 1


def test_each_owner_who_races_opens_one_hold_of_their_own(server: LiveServer) -> None:
    (number,) = fresh_gpus(1)
    owners = [server.caller("operator") for _ in range(4)]

    answers = post_together([hold_request(owner, unseen(number)) for owner in owners * 4])

    assert outcomes(answers) == {"opened": len(owners), "already_open": RACERS - len(owners)}
    assert len(ids(answers)) == len(owners)
    opened = [
        item["quarantine"]["owner"] for one in answers for item in one.body["items"] if item["outcome"] == "opened"
    ]
    assert sorted(opened) == sorted(f"operator:{owner.name}" for owner in owners)


def test_of_many_who_release_one_hold_one_does(server: LiveServer, operator: Caller, auditor: Caller) -> None:
    node = Node(server)
    node.admit()
    (item,) = quarantine(operator, held(node))
    by_id = asking(operator, f"/v1/quarantines/{item['quarantine']['id']}/release", {"reason": "tested"})
    by_target = asking(operator, "/v1/quarantines/release", {"targets": [held(node)], "reason": "tested"})

    answers = post_from_processes([by_id, by_target] * (RACERS // 2))

    of_targets = [answer for answer in answers if "items" in answer.body]
    of_ids = [answer for answer in answers if "items" not in answer.body]
    assert {answer.status for answer in of_targets} == {200}
    assert {(answer.status, answer.body.get("code")) for answer in of_ids} <= {(200, None), (409, "not_open")}
    released = outcomes(of_targets)["released"] + sum(answer.status == 200 for answer in of_ids)
    assert released == 1
    events = walk(auditor, f"/v1/nodes/{node.name}/history")
    assert [event["type"] for event in events].count("quarantine.released") == 1


def test_one_report_sent_many_times_at_once_counts_once(server: LiveServer, auditor: Caller) -> None:
    node = Node(server)
    body = node.body()

    answers = post_from_processes([asking(node.caller, node.path, body)] * REPORTS)

    assert {answer.status for answer in answers} == {200}
    assert Counter(answer.body["replayed"] for answer in answers) == {False: 1, True: REPORTS - 1}
    assert {(answer.body["pass"]["counted"], answer.body["pass"]["have"]) for answer in answers} == {(True, 1)}
    types = Counter(event["type"] for event in walk(auditor, f"/v1/nodes/{node.name}/history"))
    assert (types["node.registered"], types["node.booted"], types["pass.counted"]) == (1, 1, 1)
    assert types["device.registered"] == len(node.gpus)


def test_an_unchanged_report_sent_many_times_at_once_is_taken_once(server: LiveServer) -> None:
    node = Node(server)
    node.admit()
    node.report()  # from here on nothing changes, and reports take the short way

    answers = post_together([asking(node.caller, node.path, node.body(report_id="the-same"))] * REPORTS)

    assert {answer.status for answer in answers} == {200}
    assert Counter(answer.body["replayed"] for answer in answers) == {False: 1, True: REPORTS - 1}
    assert len({str(answer.body["pass"]) for answer in answers}) == 1


def test_different_reports_of_one_node_at_once_are_all_taken(server: LiveServer, operator: Caller) -> None:
    node = Node(server)
    node.admit()

    answers = post_together([asking(node.caller, node.path, node.body()) for _ in range(REPORTS)])
    shown = operator.get(f"/v1/nodes/{node.name}")

    assert {answer.status for answer in answers} == {200}
    assert {answer.body["replayed"] for answer in answers} == {False}
    assert all(answer.body["admission"]["admitted"] for answer in answers)
    assert shown["passes"]["have"] == 2


def test_one_failure_sent_many_times_at_once_has_one_effect(
    server: LiveServer, operator: Caller, auditor: Caller
) -> None:
    node = Node(server)
    node.admit()
    failure = {
        "failure_id": f"xid-on-{node.name}",
        "device": serial(node.gpus[1]),
        "code": "xid_79",
        "occurred_at": datetime.now(UTC).isoformat(),
    }

    answers = post_from_processes([asking(node.caller, "/v1/failures", failure)] * REPORTS)

    assert outcomes(answers) == {"recorded": 1, "already_recorded": REPORTS - 1}
    assert Counter(answer.status for answer in answers) == {201: 1, 200: REPORTS - 1}
    assert len({item["failure"]["id"] for answer in answers for item in answer.body["items"]}) == 1
    types = Counter(event["type"] for event in walk(auditor, f"/v1/nodes/{node.name}/history"))
    assert (types["failure.recorded"], types["quarantine.opened"], types["passes.reset"]) == (1, 1, 1)
    assert len(walk(operator, "/v1/failures", node=node.name)) == 1


def test_one_key_used_by_many_at_once_makes_one_change(server: LiveServer, operator: Caller, auditor: Caller) -> None:
    (number,) = fresh_gpus(1)
    key = {"Idempotency-Key": f"raced-{number}"}
    body = {"targets": [unseen(number)], "reason": "it smells"}

    answers = together(*[lambda: operator.post("/v1/quarantines", body, headers=key, fresh=True)] * RACERS)

    # Whoever meets the first request in the same process is told that it is running; others wait and get its answer.
    assert {answer.status_code for answer in answers} <= {201, 409}
    made = [answer for answer in answers if answer.status_code == 201]
    assert {answer.text for answer in made} == {made[0].text}
    assert [answer.headers.get("Idempotent-Replayed") for answer in made].count(None) == 1
    busy = {answer.json()["code"] for answer in answers if answer.status_code == 409}
    assert busy <= {"idempotency_in_progress"}


def test_every_event_names_its_own_author_while_another_only_reads(server: LiveServer, auditor: Caller) -> None:
    """Case C26: 50 parallel calls by u1 to u5, and reads by u6."""
    users = [server.caller("operator", name) for name in USERS]
    reader = server.caller("operator", "u6")
    numbers = fresh_gpus(len(USERS) * 5)
    author = {number: users[at % len(users)] for at, number in enumerate(numbers)}
    author_of: dict[str, str] = {}
    before = auditor.get("/v1/events", params={"limit": 1, "order": "desc"})["items"][0]["sequence"]

    def change(number: int) -> list[int]:
        user = author[number]
        opened = user.post("/v1/quarantines", {"targets": [unseen(number)], "reason": "it smells"}, fresh=True)
        hold = opened.json()["items"][0]["quarantine"]["id"]
        author_of[hold] = user.name
        released = user.post(f"/v1/quarantines/{hold}/release", {"reason": "tested"}, fresh=True)
        return [opened.status_code, released.status_code]

    def read() -> list[int]:
        return [
            reader.ask("GET", path, fresh=True).status_code for path in ("/v1/quarantines", "/v1/events", "/v1/nodes")
        ]

    statuses = together(*(lambda number=number: change(number) for number in numbers), *[read] * 10)

    assert statuses == [[201, 200]] * len(numbers) + [[200, 200, 200]] * 10
    events = [event for event in all_events(auditor) if event["sequence"] > before]
    assert len(events) == 2 * len(numbers)
    for event in events:
        (hold,) = (subject["id"] for subject in event["subjects"] if subject["kind"] == "quarantine")
        assert event["actor"] == {"kind": "operator", "name": author_of[hold]}


def test_two_hundred_releases_are_two_hundred_entries_without_a_gap(
    server: LiveServer, operator: Caller, auditor: Caller
) -> None:
    """Case C29: a loop of changes by one client leaves as many entries."""
    items = quarantine(operator, *(unseen(number) for number in fresh_gpus(RELEASES)))
    before = auditor.get("/v1/events", params={"limit": 1, "order": "desc"})["items"][0]["sequence"]

    for item in items:
        release(operator, item["quarantine"]["id"])

    events = [event for event in all_events(auditor, type="quarantine.released") if event["sequence"] > before]
    sequences = [event["sequence"] for event in events]
    assert len(sequences) == RELEASES
    assert all(later == earlier + 1 for earlier, later in pairwise([before, *sequences]))
    named = [subject["id"] for event in events for subject in event["subjects"] if subject["kind"] == "quarantine"]
    assert named == [item["quarantine"]["id"] for item in items]


def test_a_gpu_that_many_hold_and_release_ends_free_when_all_have_released(
    server: LiveServer, operator: Caller
) -> None:
    node = Node(server)
    node.admit()
    owners = [server.caller("operator") for _ in range(6)]

    def hold_and_release(owner: Caller) -> str:
        (item,) = quarantine(owner, held(node), fresh=True)
        during = codes(node.decision(fresh=True))
        release(owner, item["quarantine"]["id"])
        return "held" if "device_quarantined" in during else "free"

    told = together(*(lambda owner=owner: hold_and_release(owner) for owner in owners))

    assert told == ["held"] * len(owners)
    assert walk(operator, "/v1/quarantines", device=serial(node.gpus[0]), state="open") == []
    node.admit()


def test_after_all_races_the_chain_holds(server: LiveServer, auditor: Caller) -> None:
    proof = auditor.get("/v1/audit/verify")

    assert proof["ok"], proof
    assert [event["sequence"] for event in all_events(auditor)] == list(range(1, proof["entries"] + 1))
