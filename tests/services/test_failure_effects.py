# SPDX-License-Identifier: Apache-2.0
"""What follows from a fault, when does nothing follow, and who may report it?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import InvalidField, NotFound, NotOpen
from registry.domain.reports import ReportedFailure
from registry.services.failure_pages import list_failures
from registry.services.failures import record_failures, withdraw_failure
from registry.services.history import device_history
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, serial, uuid

MIG = "MIG-aaaa0001-0000-0000-0000-000000000001"
SLOT = str(gpu(1).slot)


def withdraw(fleet: Fleet, failure_id: str, reason: str = "a test") -> dict[str, Any]:
    return withdraw_failure(fleet.db, failure_id, reason=reason, actor=ALICE, now=fleet.clock.now)


def from_node(fleet: Fleet, token_of: str, **what: Any) -> dict[str, Any]:
    """Record a fault with the node's own token."""
    failure = ReportedFailure(what.pop("failure_id", "f"), what.pop("code", "xid_48"), **what)
    actor = Actor(ActorKind.NODE, token_of)
    return record_failures(
        fleet.db, [failure], actor=actor, node_scope=token_of, policy=fleet.policy, now=fleet.clock.now
    )[0]


def where(item: dict[str, Any]) -> tuple[Any, ...]:
    """Which device, node and slot a recorded fault was put to."""
    failure = item["failure"]
    return failure["serial"], failure["node"], failure["slot"], failure["attached"]


# --- what follows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "effect", "codes", "release_policy"),
    [
        ("xid_13", "record", [], None),
        ("xid_38", "hold", ["passes_insufficient"], None),
        ("a_code_of_tomorrow", "hold", ["passes_insufficient"], None),
        ("xid_48", "quarantine", ["device_quarantined", "passes_insufficient"], "after_passes"),
        ("xid_63", "quarantine", ["device_quarantined", "passes_insufficient"], "after_passes"),
        ("xid_64", "permanent", ["device_quarantined", "passes_insufficient"], "manual"),
        ("gpu.fallen_off_bus", "permanent", ["device_quarantined", "passes_insufficient"], "manual"),
    ],
)
def test_what_a_code_does(fleet: Fleet, code: str, effect: str, codes: list[str], release_policy: str | None) -> None:
    fleet.admit()
    assert fleet.fail(code, device=uuid(1))["failure"]["effect"] == effect
    assert fleet.codes() == codes
    holds = fleet.open_holds()
    assert [(one["release_policy"], one["permanent"]) for one in holds] == (
        [(release_policy, False)] if release_policy else []
    )
    assert [one["owner"] for one in holds] == ([f"rule:{code}"] if release_policy else [])


def test_worse_news_later_is_not_lost_and_the_milder_ones_end_does_not_lower_it(fleet: Fleet) -> None:
    """C102."""
    fleet.admit()
    mild = fleet.fail("xid_63", device=uuid(1))
    fleet.fail("xid_64", device=uuid(1))
    assert {one["owner"] for one in fleet.open_holds()} == {"rule:xid_63", "rule:xid_64"}
    withdraw(fleet, mild["failure"]["id"])
    fleet.release(next(one["id"] for one in fleet.open_holds() if one["owner"] == "rule:xid_63"))
    for _ in range(3):
        fleet.clock.advance(30)
        fleet.report(boot="boot-2")
    assert fleet.codes() == ["device_quarantined"]


@pytest.mark.parametrize("text", ["gpu.requires_reset", "gpu.unknown_device", "gpu.nvml_unknown"])
def test_the_relatives_of_a_fault_are_faults_too(fleet: Fleet, text: str) -> None:
    """C108."""
    fleet.admit()
    fleet.fail(text, device=uuid(1))
    assert "device_quarantined" in fleet.codes()


@pytest.mark.parametrize("code", ["xid_079", "XID_79", "xid 79", "", "x" * 65])
def test_a_code_of_another_shape_is_refused(fleet: Fleet, code: str) -> None:
    fleet.admit()
    assert fleet.fail(code, device=uuid(1))["outcome"] == "refused"


def test_a_failure_id_is_recorded_once(fleet: Fleet) -> None:
    fleet.admit()
    at = fleet.clock.now
    first = fleet.fail("xid_48", device=uuid(1), failure_id="f-1", occurred_at=at)
    sequence = fleet.decide().sequence
    again = fleet.fail("xid_48", device=uuid(1), failure_id="f-1", occurred_at=at)
    assert (first["outcome"], again["outcome"]) == ("recorded", "already_recorded")
    assert again["failure"] == first["failure"]
    assert fleet.decide().sequence == sequence
    other = fleet.fail("xid_79", device=uuid(1), failure_id="f-1", occurred_at=at)
    assert (other["outcome"], other["code"]) == ("refused", "invalid_field")


def test_a_fault_seen_again_in_a_boot_is_one_fault_with_a_count_and_a_last_time(fleet: Fleet) -> None:
    """C119."""
    start: datetime = fleet.clock.now
    for number, seconds in enumerate((0, 1108, 1843, 2501)):
        fleet.clock.now = start + timedelta(seconds=seconds)
        seen = (ReportedFailure(f"f-{number}", "xid_79", slot=SLOT, occurred_at=fleet.clock.now),) if seconds else ()
        fleet.report(failures=seen)
    failures = list_failures(fleet.db, {}, EVERYTHING).items
    assert [(one["count"], one["last_at"]) for one in failures] == [(3, "2026-11-29T12:41:41.000000Z")]
    assert len(fleet.open_holds()) == 1


def test_a_log_that_is_read_from_its_beginning_again_and_again_is_counted_once(fleet: Fleet) -> None:
    """C57, C119: each report brings all lines of the boot."""
    fleet.report()
    lines: list[ReportedFailure] = []
    for number in range(3):
        fleet.clock.advance(30)
        lines.append(ReportedFailure(f"line-{number}", "xid_38", slot=SLOT, occurred_at=fleet.clock.now))
        fleet.report(failures=tuple(lines))
    for _ in range(2):
        fleet.clock.advance(30)
        fleet.report(failures=tuple(lines))
    assert fleet.decide().admitted
    (failure,) = list_failures(fleet.db, {}, EVERYTHING).items
    assert (failure["count"], failure["last_at"]) == (3, "2026-11-29T12:01:30.000000Z")


def test_evidence_from_before_a_persons_release_opens_nothing_again_and_later_evidence_does(fleet: Fleet) -> None:
    """C57."""
    fleet.admit()
    occurred = fleet.clock.now
    fleet.fail("xid_79", device=uuid(1), occurred_at=occurred, failure_id="old")
    fleet.clock.advance(60)
    fleet.release(fleet.open_holds()[0]["id"])
    fleet.clock.advance(60)
    fleet.fail("xid_79", device=uuid(1), occurred_at=occurred, failure_id="old")
    fleet.fail("xid_79", device=uuid(1), occurred_at=occurred, failure_id="old line, new id")
    fleet.fail("xid_48", device=uuid(1), occurred_at=occurred)
    assert fleet.open_holds() == []
    fleet.fail("xid_79", device=uuid(1), occurred_at=fleet.clock.now)
    assert [one["owner"] for one in fleet.open_holds()] == ["rule:xid_79"]


def test_later_evidence_in_a_report_of_the_same_boot_opens_a_hold_again(fleet: Fleet) -> None:
    """C57, by reports."""

    def log(number: int, at: datetime) -> None:
        fleet.report(failures=(ReportedFailure(f"line-{number}", "xid_79", slot=SLOT, occurred_at=at),))

    fleet.report()
    first = fleet.clock.now
    log(1, first)
    fleet.clock.advance(60)
    fleet.release(fleet.open_holds()[0]["id"])
    fleet.clock.advance(60)
    log(1, first)
    assert fleet.open_holds() == []
    log(2, fleet.clock.now)
    assert [one["owner"] for one in fleet.open_holds()] == ["rule:xid_79"]


def test_withdrawing_needs_a_reason_and_happens_once(fleet: Fleet) -> None:
    fleet.admit()
    id_ = fleet.fail("xid_48", device=uuid(1))["failure"]["id"]
    with pytest.raises(InvalidField):
        withdraw(fleet, id_, reason=" ")
    with pytest.raises(NotFound):
        withdraw(fleet, "nothing")
    assert withdraw(fleet, id_)["state"] == "withdrawn"
    with pytest.raises(NotOpen):
        withdraw(fleet, id_)
    assert [one["owner"] for one in fleet.open_holds()] == ["rule:xid_48"]


def test_everything_about_a_fault_is_in_the_devices_history(fleet: Fleet) -> None:
    fleet.report()
    id_ = fleet.fail("xid_48", device=uuid(1), occurred_at=fleet.clock.now)["failure"]["id"]
    withdraw(fleet, id_)
    told = device_history(fleet.db, serial(1), {}, EVERYTHING).items
    kept = [one for one in told if one["type"].startswith(("failure.", "quarantine."))]
    assert [one["type"] for one in kept] == ["failure.recorded", "quarantine.opened", "failure.withdrawn"]
    assert {one["data"]["serial"] for one in kept} == {serial(1)}
    assert {one["data"]["node"] for one in kept} == {"node-a"}


# --- who may say so --------------------------------------------------------------------------------------------------


def test_a_node_may_speak_of_its_own_devices_then_or_now(fleet: Fleet) -> None:
    fleet.report()
    then = fleet.clock.now
    assert from_node(fleet, "node-a", device=uuid(1))["outcome"] == "recorded"
    assert where(from_node(fleet, "node-a", slot=SLOT, failure_id="f2"))[0] == serial(1)
    fleet.clock.advance(60)
    fleet.report("node-b", devices=[gpu(1)], instance="i-9")
    fleet.clock.advance(60)
    assert (
        from_node(fleet, "node-a", device=uuid(1), occurred_at=then, failure_id="f3", code="xid_63")["outcome"]
        == "recorded"
    )
    for later in ({}, {"occurred_at": fleet.clock.now}):
        item = from_node(fleet, "node-a", device=uuid(1), failure_id=f"f4{later}", **later)
        assert (item["outcome"], item["code"]) == ("refused", "forbidden")


@pytest.mark.parametrize("what", [{"node": "node-b"}, {"device": uuid(7)}, {"node": "node-b", "device": uuid(1)}])
def test_a_node_may_not_speak_of_others(fleet: Fleet, what: dict[str, str]) -> None:
    fleet.report()
    fleet.report("node-b", devices=[gpu(7)], instance="i-9")
    item = from_node(fleet, "node-a", **what)
    assert (item["outcome"], item["code"]) == ("refused", "forbidden")
    assert fleet.open_holds() == []


# --- what names no device --------------------------------------------------------------------------------------------


def passes(fleet: Fleet, **changes: Any) -> None:
    for _ in range(2):
        fleet.clock.advance(30)
        fleet.report(**changes)


@pytest.mark.parametrize("code", ["xid_79", "xid_64", "gpu.row_remap.failed"])
def test_a_permanent_fault_without_a_place_keeps_the_node_out_until_it_is_withdrawn(fleet: Fleet, code: str) -> None:
    fleet.admit()
    fleet.report(failures=(ReportedFailure("f-1", code, occurred_at=fleet.clock.now),))
    passes(fleet)
    passes(fleet, boot="boot-2")
    decision = fleet.decide()
    assert [str(one.code) for one in decision.reasons] == ["fault_unattached"]
    assert "names no device" in decision.reasons[0].message
    assert "withdraw" in decision.reasons[0].message
    assert fleet.open_holds() == []

    (failure,) = list_failures(fleet.db, {"attached": "false"}, EVERYTHING).items
    withdraw(fleet, failure["id"], "it was GPU 1, which is held now")
    assert fleet.decide().admitted


def test_a_permanent_fault_without_a_place_ends_with_the_instance(fleet: Fleet) -> None:
    fleet.fail("xid_79", node="node-a")
    passes(fleet)
    assert fleet.codes() == ["fault_unattached"]
    passes(fleet, instance="i-2")
    assert fleet.decide().admitted


@pytest.mark.parametrize("code", ["xid_48", "xid_119", "xid_999"])
def test_a_milder_fault_without_a_place_asks_for_passes_only(fleet: Fleet, code: str) -> None:
    fleet.admit()
    fleet.report(failures=(ReportedFailure("f-1", code, occurred_at=fleet.clock.now),))
    assert fleet.codes() == ["passes_insufficient"]
    passes(fleet)
    assert fleet.decide().admitted


def test_a_permanent_fault_without_a_place_that_a_test_put_in_hinders_nothing(fleet: Fleet) -> None:
    fleet.admit()
    fleet.report(failures=(ReportedFailure("f-1", "xid_79", evidence={"injected": True}),))
    assert fleet.decide().admitted
