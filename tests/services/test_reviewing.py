# SPDX-License-Identifier: Apache-2.0
"""Is a second look at a hold kept and told, and does one refusal among many hinder no other?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import InvalidField, NotFound, NotOpen
from registry.domain.hold_review import Review
from registry.domain.rules import Over, Rule
from registry.services.history import list_events
from registry.services.quarantine import list_quarantines
from registry.services.reviewing import DONE, REFUSED, hold_many, release_many, review_many, review_quarantine
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, serial, uuid
from tests.services.test_breaker import is_withheld, name
from tests.services.test_queue import only, queue, withhold_one

BOB = Actor(ActorKind.OPERATOR, "bob")


def hold(fleet: Fleet, number: int = 1, **how: Any) -> str:
    return str(fleet.hold({"device": uuid(number)}, **how)[0]["quarantine"]["id"])


def told(fleet: Fleet, type_: str = "quarantine.reviewed") -> list[dict[str, Any]]:
    return list_events(fleet.db, {"type": type_}, EVERYTHING).items


def release(fleet: Fleet, *ids: str, role: str = "operator", reason: str = "tested") -> list[str]:
    results = release_many(fleet.db, ids, reason=reason, actor=BOB, role=role, now=fleet.clock.now)
    return [f"{one.outcome} {one.code}" if one.code else one.outcome for one in results]


def test_a_review_is_kept_and_told_under_the_device_and_its_node(fleet: Fleet) -> None:
    fleet.admit()
    held = hold(fleet, review_at=fleet.clock.now + timedelta(hours=1))
    fleet.clock.advance(7200)
    assert only(fleet).is_overdue
    again = fleet.clock.now + timedelta(days=7)
    review = Review(" asked the maker ", again, "RMA-7")
    shown = review_quarantine(fleet.db, held, review, actor=BOB, now=fleet.clock.now)
    assert (shown["state"], shown["ticket"], shown["review_due"]) == ("open", "RMA-7", False)
    assert (only(fleet).ticket, only(fleet).review_at) == ("RMA-7", again)
    (event,) = told(fleet)
    assert (event["actor"]["name"], event["data"]["why"], event["data"]["ticket"]) == (
        "bob",
        "asked the maker",
        "RMA-7",
    )
    assert event["data"]["node"] == "node-a"
    assert {one["kind"] for one in event["subjects"]} >= {"quarantine", "device", "node"}


def test_what_cannot_be_reviewed_changes_nothing(fleet: Fleet) -> None:
    fleet.admit()
    held = hold(fleet)
    with pytest.raises(InvalidField):
        review_quarantine(fleet.db, held, Review("", ticket="x"), actor=BOB, now=fleet.clock.now)
    with pytest.raises(NotFound):
        review_quarantine(fleet.db, "nobody", Review("x", ticket="x"), actor=BOB, now=fleet.clock.now)
    fleet.release(held)
    with pytest.raises(NotOpen):
        review_quarantine(fleet.db, held, Review("x", ticket="x"), actor=BOB, now=fleet.clock.now)
    assert told(fleet) == []


def test_several_are_reviewed_and_the_one_that_is_over_is_named(fleet: Fleet) -> None:
    fleet.admit()
    mine, over = hold(fleet, 1), hold(fleet, 2)
    fleet.release(over)
    review = Review("all under one", ticket="RMA-8")
    first, second = review_many(fleet.db, [mine, over, mine], review, actor=BOB, now=fleet.clock.now)
    assert (first.id, first.outcome, first.message) == (mine, DONE, "reviewed")
    assert (second.id, second.outcome, second.code) == (over, REFUSED, "not_open")
    assert len(told(fleet)) == 1
    assert only(fleet).ticket == "RMA-8"


def test_several_are_released_and_each_that_is_refused_says_why(fleet: Fleet) -> None:
    fleet.admit()
    mine, forever = hold(fleet, 1), hold(fleet, 2, permanent=True)
    assert release(fleet, mine, forever, "nobody") == [DONE, f"{REFUSED} forbidden", f"{REFUSED} not_found"]
    assert release(fleet, mine, forever, role="admin") == [f"{REFUSED} not_open", DONE]
    assert queue(fleet) == []
    assert {one["data"]["why"] for one in told(fleet, "quarantine.released")} == {"tested"}


def test_without_a_reason_nothing_is_released(fleet: Fleet) -> None:
    fleet.admit()
    assert release(fleet, hold(fleet), reason=" ") == [f"{REFUSED} invalid_field"]
    assert len(queue(fleet)) == 1


def test_what_ended_by_its_date_is_refused_and_written_down_as_ended(fleet: Fleet) -> None:
    fleet.admit()
    held = hold(fleet, release_policy="at_expiry", expires_at=fleet.clock.now + timedelta(seconds=5))
    fleet.clock.advance(6)
    assert release(fleet, held) == [f"{REFUSED} not_open"]
    (shown,) = list_quarantines(fleet.db, {}, EVERYTHING, now=fleet.clock.now).items
    assert shown["release_reason"] == "expired"


def test_what_the_breaker_withheld_is_settled_with_the_others(fleet: Fleet) -> None:
    withhold_one(fleet)
    assert is_withheld(fleet, 1)
    assert release(fleet, *(one.id for one in queue(fleet))) == [DONE, DONE]
    assert queue(fleet) == []
    assert not is_withheld(fleet, 1)
    assert len(told(fleet, "withholding.ended")) == 1


def test_what_the_breaker_withheld_is_held_by_a_person_instead(fleet: Fleet) -> None:
    withhold_one(fleet)
    before = fleet.codes(name(1))[0]
    (mine,) = [one.id for one in queue(fleet, what="withheld")]
    (done,) = hold_many(fleet.db, [mine], reason="sure of it", ticket="OPS-9", actor=BOB, now=fleet.clock.now)
    assert (done.outcome, done.message) == (DONE, "held")
    item = only(fleet, owner="operator:bob")
    assert (item.named, item.what, item.cause, item.ticket) == (serial(1), "held", "hardware", "OPS-9")
    assert queue(fleet, what="withheld") == []
    assert (before, fleet.codes(name(1))[0]) == ("quarantine_withheld", "device_quarantined")
    (ended,) = told(fleet, "withholding.ended")
    assert ended["data"]["why"] == f"opened as {item.id}"
    (again,) = hold_many(fleet.db, [mine], reason="x", ticket=None, actor=BOB, now=fleet.clock.now)
    assert (again.outcome, again.code) == (REFUSED, "not_found")


def test_without_a_reason_nothing_withheld_is_held(fleet: Fleet) -> None:
    withhold_one(fleet)
    (mine,) = [one.id for one in queue(fleet, what="withheld")]
    (refused,) = hold_many(fleet.db, [mine], reason=" ", ticket=None, actor=BOB, now=fleet.clock.now)
    assert (refused.outcome, refused.code) == (REFUSED, "invalid_field")
    assert len(queue(fleet, what="withheld")) == 1


def test_a_node_that_was_withheld_is_held_as_that_machine(fleet: Fleet) -> None:
    fleet.policy = replace(fleet.policy, rules=(Rule("two", 2, 600, codes=("xid_13",), over=Over.NODE),))
    for number in range(2):
        fleet.report(name(number), [gpu(4 * number + at, at=at) for at in range(4)], instance=f"i-{number}")
        for at in range(2):
            fleet.fail("xid_13", device=uuid(4 * number + at), node=name(number), slot=gpu(at).slot)
    item = only(fleet, what="withheld")
    assert (item.named, item.node, item.devices) == (name(1), name(1), ())
    (done,) = hold_many(fleet.db, [item.id], reason="x", ticket=None, actor=BOB, now=fleet.clock.now)
    assert done.outcome == DONE
    assert only(fleet, owner="operator:bob").named == name(1)
    assert "node_quarantined" in fleet.codes(name(1))


def test_a_node_whose_device_is_let_go_starts_its_passes_anew(fleet: Fleet) -> None:
    fleet.admit()
    release(fleet, hold(fleet))
    assert not fleet.decide().admitted
    fleet.clock.advance(30)
    fleet.admit()
    assert fleet.decide().admitted


def test_a_review_leaves_the_passes_and_the_decision_alone(fleet: Fleet) -> None:
    fleet.admit("node-b", instance="i-2", devices=[gpu(number) for number in range(4)])
    held = hold(fleet)
    before = fleet.codes("node-b")
    review_quarantine(fleet.db, held, Review("x", ticket="T-1"), actor=ALICE, now=fleet.clock.now)
    assert fleet.codes("node-b") == before == ["device_quarantined"]
