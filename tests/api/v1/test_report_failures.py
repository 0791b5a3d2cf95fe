# SPDX-License-Identifier: Apache-2.0
"""May a report bring the faults that the node saw on itself, in one message with its list?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Asker
from tests.api.v1.fleet import PROFILE, SERIALS, admit, gpu, report, send
from tests.clock import NOON, Clock

FAULT = {"failure_id": "kernel-1", "code": "xid_79", "slot": "0000:10:00.0"}


def test_a_fault_and_the_list_that_places_it_take_effect_together(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    now = clock.advance(31).isoformat()

    answered = send(node, failures=[{**FAULT, "occurred_at": now, "count": 3, "last_at": now}])

    (reason,) = [one for one in answered["admission"]["reasons"] if one["code"] == "device_quarantined"]
    (failure,) = operator.get("/v1/failures").json["items"]
    assert reason["device"]["serial"] == SERIALS[0]
    assert (failure["failure_id"], failure["code"], failure["count"]) == ("kernel-1", "xid_79", 3)


def test_the_same_fault_in_the_next_report_is_the_same(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    fault = {**FAULT, "occurred_at": clock.now.isoformat()}

    for _ in range(2):
        clock.advance(31)
        send(node, failures=[fault])

    assert [one["count"] for one in operator.get("/v1/failures").json["items"]] == [1]


def test_evidence_of_an_earlier_boot_undoes_no_pass(operator: Asker, node: Asker, clock: Clock) -> None:
    send(node)
    clock.advance(31)
    operator.put("/v1/profiles/tiny", json=PROFILE)
    for _ in range(2):
        clock.advance(31)
        assert send(node, boot_id="boot-2")["pass"]["counted"]
    late = {"boot_id": "boot-1", "failures": [{**FAULT, "code": "xid_119", "occurred_at": NOON.isoformat()}]}

    answered = send(node, **late)

    (failure,) = operator.get("/v1/failures").json["items"]
    assert failure["code"] == "xid_119"
    assert answered["pass"]["because"] == "not_current"
    assert answered["admission"]["admitted"], answered


def test_a_boot_that_is_named_as_an_earlier_one_moves_nothing(operator: Asker, node: Asker) -> None:
    send(node)
    send(node, boot_id="boot-3", earlier_boots=["boot-2"])

    assert send(node, boot_id="boot-2")["pass"]["detail"] == "boot"
    assert operator.get("/v1/nodes/node-a").json["boot_id"] == "boot-3"


@pytest.mark.parametrize(
    ("given", "pointer"), [("boot-2", "/earlier_boots"), (["b", ""], "/earlier_boots/1"), ([7], "/earlier_boots/0")]
)
def test_earlier_boots_are_a_list_of_ids(node: Asker, given: object, pointer: str) -> None:
    answer = node.post("/v1/nodes/node-a/reports", json=report(earlier_boots=given))

    assert (answer.status_code, [one["pointer"] for one in answer.json["errors"]]) == (422, [pointer])


@pytest.mark.parametrize(("partial", "state"), [([], "missing"), (["gpu"], "in_service")])
def test_a_list_that_says_it_is_partial_calls_no_device_missing(
    operator: Asker, node: Asker, clock: Clock, partial: list[str], state: str
) -> None:
    admit(operator, node, clock)
    clock.advance(31)

    answered = send(node, devices=[gpu(SERIALS[0])], checks=[], partial=partial)

    assert operator.get(f"/v1/devices/{SERIALS[1]}").json["state"] == state
    assert not answered["admission"]["admitted"]


@pytest.mark.parametrize(
    ("fault", "pointer"),
    [
        ("xid_79", "/failures/0"),
        ({**FAULT, "code": "Xid 79"}, "/failures/0/code"),
        ({**FAULT, "failure_id": ""}, "/failures/0/failure_id"),
        ({**FAULT, "slot": "3b"}, "/failures/0/slot"),
        ({**FAULT, "occurred_at": "yesterday"}, "/failures/0/occurred_at"),
        ({**FAULT, "count": 0}, "/failures/0/count"),
        ({**FAULT, "evidence": [1]}, "/failures/0/evidence"),
        ({**FAULT, "evidence": {"a": "\u0000"}}, "/failures/0/evidence"),
        ({**FAULT, "node": "node-b"}, "/failures/0/node"),
    ],
)
def test_a_fault_that_cannot_be_read_refuses_the_report(node: Asker, fault: Any, pointer: str) -> None:
    answer = node.post("/v1/nodes/node-a/reports", json=report(failures=[fault]))

    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.json["errors"]] == [pointer]


def test_a_kind_that_is_no_kind_cannot_be_partial(node: Asker) -> None:
    answer = node.post("/v1/nodes/node-a/reports", json=report(partial=["tpu"]))

    assert [one["pointer"] for one in answer.json["errors"]] == ["/partial/0"]
