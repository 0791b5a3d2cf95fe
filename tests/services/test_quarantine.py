# SPDX-License-Identifier: Apache-2.0
"""What does a hold meet, where does it follow, and what ends it?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import Forbidden, InvalidField, NotFound, NotOpen
from registry.services.conflicts import list_conflicts, resolve_conflict
from registry.services.history import device_history, list_events
from registry.services.nodes import show_node
from registry.services.quarantine import OpenQuarantines, open_quarantines, release_quarantine, show_quarantine
from registry.services.sweep import sweep
from tests.fleet import ALICE, EVERYTHING, Fleet, efa, gpu, serial, uuid

BOB = Actor(ActorKind.OPERATOR, "bob")
TWINS = [gpu(n, serial=serial(50), model="NVIDIA GB200") for n in (1, 2)]


def outcomes(items: list[dict[str, Any]]) -> list[str]:
    return [one["outcome"] for one in items]


def ident(type_: str, value: str, **more: str) -> dict[str, Any]:
    """A target by an identifier of a GPU."""
    return {"identifier": {"kind": "gpu", "type": type_, "value": value, **more}}


def held(fleet: Fleet, node: str = "node-a") -> list[str | None]:
    """The serials or UUIDs of the devices that a decision calls quarantined."""
    reasons = [one for one in fleet.decide(node).reasons if one.code == "device_quarantined"]
    return [one.device.uuid for one in reasons if one.device]


# --- units and boards ------------------------------------------------------------------------------------------------


def test_a_held_device_is_not_admitted_under_any_name_of_any_node(fleet: Fleet) -> None:
    fleet.admit()
    assert outcomes(fleet.hold({"device": serial(1)})) == ["opened"]
    assert fleet.codes() == ["device_quarantined"]
    fleet.clock.advance(30)
    fleet.admit(instance="i-2", boot="boot-2", devices=[gpu(n) for n in range(4, 8)])
    assert fleet.decide().admitted
    moved = [gpu(8), gpu(9), gpu(10), gpu(1, at=7)]
    fleet.admit("elsewhere", instance="i-3", boot="boot-3", profile="g5.12xlarge", devices=moved)
    assert fleet.codes("elsewhere") == ["device_quarantined"]


def test_passes_stand_while_a_device_is_held(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": uuid(1)})
    fleet.clock.advance(30)
    fleet.report()
    assert fleet.decide().have == 2


def test_a_gpu_is_held_with_its_board_and_units_found_later_are_held_too(fleet: Fleet) -> None:
    fleet.report(devices=TWINS[:1])
    hold = fleet.hold({"device": uuid(1)})[0]["quarantine"]
    assert (hold["scope"], hold["target_kind"], hold["match"]) == ("board", "board", "hardware")
    fleet.report(devices=TWINS)
    assert held(fleet) == [uuid(1), uuid(2)]
    told = device_history(fleet.db, uuid(2), EVERYTHING, now=fleet.clock.now).items
    assert "device.registered" in [one["type"] for one in told]


def test_a_unit_may_be_held_alone(fleet: Fleet) -> None:
    fleet.report(devices=TWINS)
    fleet.hold({"device": uuid(1)}, scope="unit")
    assert held(fleet) == [uuid(1)]


def test_an_efa_is_held_as_a_unit_by_default(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1), efa(1, serial="EFA0001")])
    hold = fleet.hold({"device": "EFA0001"})[0]["quarantine"]
    assert (hold["scope"], hold["match"], hold["warnings"]) == ("unit", "hardware", [])


def test_a_serial_of_several_units_is_one_board_and_no_one_unit(fleet: Fleet) -> None:
    fleet.report(devices=TWINS)
    item = fleet.hold({"device": serial(50)}, scope="unit")[0]
    assert (item["outcome"], item["code"], len(item["candidates"])) == ("refused", "device_ambiguous", 2)
    assert outcomes(fleet.hold({"device": serial(50)})) == ["opened"]
    assert held(fleet) == [uuid(1), uuid(2)]


def test_a_gpu_and_its_boards_serial_are_one_target(fleet: Fleet) -> None:
    fleet.report()
    items = fleet.hold({"device": uuid(1)}, {"device": serial(1)}, ident("serial", serial(1)), ident("uuid", uuid(1)))
    assert outcomes(items) == ["opened", "already_open", "already_open", "already_open"]
    assert len({one["quarantine"]["id"] for one in items}) == 1


def test_one_makers_serial_is_not_anothers(fleet: Fleet) -> None:
    """C20."""
    fleet.report(devices=[gpu(1), gpu(2, vendor="amd", serial=serial(1))])
    item = fleet.hold({"device": serial(1)})[0]
    assert (item["outcome"], item["code"]) == ("refused", "device_ambiguous")
    assert outcomes(fleet.hold(ident("serial", serial(1), vendor="amd"))) == ["opened"]
    assert held(fleet) == [uuid(2)]


@pytest.mark.parametrize("ref", ["MIG-aaaa0001-0000-0000-0000-000000000001", f"MIG-{uuid(1)}/1/0", "1699999999999"])
def test_what_is_no_device_is_refused(fleet: Fleet, ref: str) -> None:
    fleet.report()
    assert outcomes(fleet.hold({"device": ref}, {"device": serial(2)})) == ["refused", "opened"]


# --- identifiers never seen ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"vendor": "nvidia"}])
@pytest.mark.parametrize(("type_", "value"), [("serial", serial(1)), ("uuid", uuid(1)), ("uuid", uuid(1).upper())])
def test_an_identifier_never_seen_is_held_when_it_turns_up(
    fleet: Fleet, type_: str, value: str, more: dict[str, str]
) -> None:
    hold = fleet.hold(ident(type_, value, **more))[0]["quarantine"]
    assert (hold["target_kind"], hold["devices"]) == ("identifier", [])
    fleet.admit()
    assert fleet.codes() == ["device_quarantined"]
    assert held(fleet) == [uuid(1)]
    assert len(show_quarantine(fleet.db, hold["id"], now=fleet.clock.now)["devices"]) == 1
    events = device_history(fleet.db, uuid(1), EVERYTHING, now=fleet.clock.now).items
    assert events[0]["data"]["quarantines"] == [hold["id"]]


def test_an_identifier_of_another_vendor_or_kind_is_not_meant(fleet: Fleet) -> None:
    fleet.hold(ident("serial", serial(1), vendor="amd"))
    fleet.hold({"identifier": {"kind": "efa", "type": "serial", "value": serial(2)}})
    fleet.admit()
    assert fleet.decide().admitted


def test_an_identifier_without_vendor_meets_every_vendor(fleet: Fleet) -> None:
    fleet.hold(ident("serial", serial(1)))
    fleet.report(devices=[gpu(1), gpu(2, vendor="amd", serial=serial(1))])
    assert held(fleet) == [uuid(1), uuid(2)]


def test_an_identifier_that_a_known_unit_shows_later_meets_it(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(1, serial=None)])
    fleet.hold(ident("serial", serial(1)))
    fleet.report(devices=[gpu(1)])
    assert held(fleet) == [uuid(1)]


def test_an_identifier_that_an_operator_rules_to_be_a_known_unit_meets_it(fleet: Fleet) -> None:


    fleet.report(devices=[gpu(1)])
    fleet.hold(ident("serial", serial(77)))
    fleet.report(devices=[gpu(1, serial=serial(77))])
    assert "identity_conflict" in fleet.codes()
    conflict = list_conflicts(fleet.db, {}, EVERYTHING, now=fleet.clock.now).items[0]["id"]
    resolve_conflict(
        fleet.db, conflict, reason="new label", as_="same_device", actor=ALICE, policy=fleet.policy, now=fleet.clock.now
    )
    fleet.report(devices=[gpu(1, serial=serial(77))])
    assert held(fleet) == [uuid(1)]


@pytest.mark.parametrize("value", ["N/A", "0000000000000", "", "[Unknown Error]", "To be filled by O.E.M."])
def test_a_placeholder_cannot_be_held(fleet: Fleet, value: str) -> None:
    assert outcomes(fleet.hold(ident("serial", value))) == ["refused"]


def test_an_imported_list_twice_opens_each_once(fleet: Fleet) -> None:
    asked = [ident("serial", serial(n)) for n in range(5)]
    assert outcomes(fleet.hold(*asked)) == ["opened"] * 5
    assert outcomes(fleet.hold(*asked)) == ["already_open"] * 5


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_a_node_is_held_as_its_instance_and_not_its_name(fleet: Fleet) -> None:
    fleet.admit()
    assert fleet.hold({"node": "node-a"})[0]["quarantine"]["match"] == "instance"
    assert fleet.codes() == ["node_quarantined"]
    fleet.clock.advance(30)
    fleet.admit(instance="i-2", boot="boot-2", devices=[gpu(n) for n in range(4, 8)])
    assert fleet.decide().admitted


def test_a_node_is_held_as_its_chassis_under_any_name(fleet: Fleet) -> None:
    host = {"chassis": {"serial": "CH-0042"}}
    fleet.admit(host=host)
    assert fleet.hold({"node": "node-a"})[0]["quarantine"]["match"] == "chassis"
    fleet.clock.advance(30)
    fleet.admit("node-b", instance="i-2", boot="boot-2", devices=[gpu(n) for n in range(4, 8)], host=host)
    assert fleet.codes("node-b") == ["node_quarantined"]


def test_a_chassis_learnt_after_the_hold_does_not_lose_it(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"node": "node-a"})
    fleet.report(host={"chassis": {"serial": "CH-0042"}})
    assert "node_quarantined" in fleet.codes()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_node_is_held_by_name_when_asked_or_unknown(fleet: Fleet, is_known: bool) -> None:
    if is_known:
        fleet.admit()
    how = {"match": "name"} if is_known else {}
    assert fleet.hold({"node": "node-a"}, **how)[0]["quarantine"]["match"] == "name"
    fleet.clock.advance(30)
    fleet.admit(instance="i-2", boot="boot-2", devices=[gpu(n) for n in range(4, 8)])
    assert fleet.codes() == ["node_quarantined"]


@pytest.mark.parametrize(("drain", "disposition"), [(True, "drain"), (False, "hold")])
def test_only_a_hold_with_drain_drains(fleet: Fleet, drain: bool, disposition: str) -> None:
    """C106."""
    fleet.admit()
    fleet.hold({"device": serial(1)}, drain=drain)
    assert fleet.decide().disposition == disposition


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
        release_quarantine(
            fleet.db, hold, reason=reason, actor=ALICE, role="operator", policy=fleet.policy, now=fleet.clock.now
        )
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
    sweep(fleet.db, policy=fleet.policy, now=fleet.clock.now)
    sweep(fleet.db, policy=fleet.policy, now=fleet.clock.now)
    told = list_events(fleet.db, {"type": "quarantine.released"}, EVERYTHING, now=fleet.clock.now).items
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
    fleet.hold({"device": serial(1)}, expires_at=until, review_at=until)
    for _ in range(4):
        fleet.clock.advance(30)
        fleet.report()
    assert fleet.codes() == ["device_quarantined"]


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
    items = open_quarantines(
        fleet.db, command, actor=ALICE, policy=fleet.policy, now=fleet.clock.now, dry_run=True
    )
    assert (fleet.decide().sequence, fleet.decide().admitted) == (before, True)
    assert outcomes(items) == ["opened", "already_open", "refused", "opened"]
    assert outcomes(fleet.hold(*asked)) == outcomes(items)


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
