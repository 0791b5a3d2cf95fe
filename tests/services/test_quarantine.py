# SPDX-License-Identifier: Apache-2.0
"""Whose is a hold, when is it in force, and what ends it?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import Forbidden, InvalidField, NotFound, NotOpen
from registry.services.history import list_events
from registry.services.nodes import show_node
from registry.services.quarantine import OpenQuarantines, open_quarantines, release_quarantine, show_quarantine
from registry.services.sweep import sweep
from tests.fleet import ALICE, EVERYTHING, Fleet, efa, gpu, serial, uuid

BOB = Actor(ActorKind.OPERATOR, "bob")


def outcomes(items: list[dict[str, Any]]) -> list[str]:
    return [one["outcome"] for one in items]


# --- owners and ends -------------------------------------------------------------------------------------------------


def test_a_device_is_free_when_every_owner_has_released(fleet: Fleet) -> None:
    """C101: after each step the lists, the node and the device agree."""
    fleet.admit()
    first = fleet.hold({"device": serial(1)})[0]["quarantine"]["id"]
    second = fleet.hold({"device": serial(1)}, by=BOB)[0]["quarantine"]["id"]
    assert first != second
    for remaining, hold in ((1, first), (0, second)):
        fleet.clock.advance(1)
        released = fleet.release(hold)
        assert (released["state"], released["released_by"]) == ("released", "operator:alice")
        assert len(fleet.open_holds()) == remaining
        assert ("device_quarantined" in fleet.codes()) is bool(remaining)
    with pytest.raises(NotOpen):
        fleet.release(first)
    again = fleet.hold({"device": serial(1)})[0]
    assert again["outcome"] == "opened"
    assert again["quarantine"]["id"] not in {first, second}


def test_any_operator_may_release_any_hold_that_is_not_permanent(fleet: Fleet) -> None:
    fleet.report()
    plain = fleet.hold({"device": serial(1)})[0]["quarantine"]["id"]
    fleet.release(plain, by=BOB)
    forever = fleet.hold({"device": serial(1)}, permanent=True)[0]["quarantine"]["id"]
    with pytest.raises(Forbidden):
        fleet.release(forever)
    assert [one["id"] for one in fleet.open_holds()] == [forever]
    assert fleet.release(forever, role="admin")["state"] == "released"


@pytest.mark.parametrize("reason", ["", "  "])
def test_a_release_needs_a_reason(fleet: Fleet, reason: str) -> None:
    fleet.report()
    hold = fleet.hold({"device": serial(1)})[0]["quarantine"]["id"]
    with pytest.raises(InvalidField):
        release_quarantine(fleet.db, hold, reason=reason, actor=ALICE, role="operator", now=fleet.clock.now)
    with pytest.raises(NotFound):
        fleet.release("nothing")


def test_a_hold_that_ends_at_its_expiry_ends_read_or_swept(fleet: Fleet) -> None:
    fleet.admit()
    until = fleet.clock.now + timedelta(seconds=60)
    hold = fleet.hold({"device": serial(1)}, release_policy="at_expiry", expires_at=until)[0]["quarantine"]["id"]
    fleet.clock.advance(59)
    assert fleet.codes() == ["device_quarantined"]
    fleet.clock.advance(1)
    assert fleet.decide().admitted
    assert show_quarantine(fleet.db, hold, now=fleet.clock.now)["state"] == "released"
    assert fleet.open_holds() == []
    sweep(fleet.db, now=fleet.clock.now)
    sweep(fleet.db, now=fleet.clock.now)
    told = list_events(fleet.db, {"type": "quarantine.released"}, EVERYTHING).items
    assert [one["data"]["quarantine"] for one in told] == [hold]
    assert fleet.decide().admitted


def test_a_hold_is_opened_anew_where_one_has_expired(fleet: Fleet) -> None:
    fleet.admit()
    until = fleet.clock.now + timedelta(seconds=60)
    fleet.hold({"device": serial(1)}, release_policy="at_expiry", expires_at=until)
    fleet.clock.advance(90)
    assert outcomes(fleet.hold({"device": serial(1)})) == ["opened"]
    assert "device_quarantined" in fleet.codes()


def test_a_date_on_another_hold_only_asks_for_review(fleet: Fleet) -> None:
    fleet.admit()
    until = fleet.clock.now + timedelta(seconds=60)
    (item,) = fleet.hold({"device": serial(1)}, expires_at=until, review_at=until)
    assert item["quarantine"]["review_due"] is False
    for _ in range(4):
        fleet.clock.advance(30)
        fleet.report()
    assert fleet.codes() == ["device_quarantined"]
    assert [one["review_due"] for one in fleet.open_holds()] == [True]


@pytest.mark.parametrize(
    "how",
    [
        {"reason": " "},
        {"release_policy": "at_expiry"},
        {"permanent": True, "release_policy": "after_passes"},
        {"expires_at": ALICE},
    ],
)
def test_a_hold_that_contradicts_itself_is_refused(fleet: Fleet, how: dict[str, Any]) -> None:
    fleet.report()
    if "expires_at" in how:
        how = {"expires_at": fleet.clock.now}
    with pytest.raises(InvalidField):
        fleet.hold({"device": serial(1)}, **how)
    assert fleet.open_holds() == []


def test_a_dry_run_says_the_same_and_does_nothing(fleet: Fleet) -> None:
    fleet.admit()
    before = fleet.decide().sequence
    asked = ({"device": serial(1)}, {"device": uuid(1)}, {"device": "1699999999999"}, {"node": "node-a"})
    command = OpenQuarantines(targets=asked, reason="x")
    items = open_quarantines(fleet.db, command, actor=ALICE, now=fleet.clock.now, dry_run=True)
    assert (fleet.decide().sequence, fleet.decide().admitted) == (before, True)
    assert outcomes(items) == ["opened", "already_open", "refused", "opened"]
    assert outcomes(fleet.hold(*asked)) == outcomes(items)


def test_a_dry_run_says_too_that_a_hold_would_rest_on_a_place(fleet: Fleet) -> None:
    fleet.report(devices=[*(gpu(n) for n in range(4)), efa(1)])
    command = OpenQuarantines(targets=({"device": show_node_device(fleet, "efa")},), reason="x")
    acts = [
        open_quarantines(fleet.db, command, actor=ALICE, now=fleet.clock.now, dry_run=is_dry)[0]
        for is_dry in (True, False)
    ]
    assert acts[0]["message"] == acts[1]["message"]


def test_a_hold_on_an_efa_without_hardware_identity_ends_with_the_instance_and_says_so(fleet: Fleet) -> None:
    fleet.report(devices=[*(gpu(n) for n in range(4)), efa(1)])
    ref = show_node_device(fleet, "efa")
    item = fleet.hold({"device": ref})[0]
    assert (item["quarantine"]["match"], bool(item["message"])) == ("place", True)
    assert [one["code"] for one in item["quarantine"]["warnings"]] == ["place_only"]
    fleet.report(devices=[*(gpu(n) for n in range(4)), efa(1)], boot="boot-2")
    reason = next(one for one in fleet.decide().reasons if one.code == "device_quarantined")
    assert reason.match == "place"
    fleet.report(devices=[gpu(n) for n in range(4)], boot="boot-2", covers=frozenset({"gpu", "efa"}))
    fleet.admit(instance="i-2", boot="boot-3", devices=[*(gpu(n) for n in range(4)), efa(1)])
    assert fleet.decide().admitted
    assert fleet.open_holds() == []


def test_a_hold_on_a_place_ends_with_the_instance_when_another_card_sits_there_too(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), efa(1)])
    fleet.hold({"device": show_node_device(fleet, "efa")})
    fleet.report(devices=[gpu(1), efa(2, at=1)])
    fleet.report(instance="i-2", boot="boot-2", devices=[gpu(1)])
    assert fleet.open_holds() == []


def show_node_device(fleet: Fleet, kind: str) -> str:
    """Our id of the first device of a kind on node-a."""
    shown = show_node(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now)
    return next(str(one["id"]) for one in shown["devices"] if one["kind"] == kind)
