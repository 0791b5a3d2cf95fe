# SPDX-License-Identifier: Apache-2.0
"""Is a list news when another came in between? Random stories found these, and something held slipped through."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

import pytest

from registry.domain.errors import CoversRequired
from registry.services.nodes import retire_node
from registry.store.nodes import find_state_by_name
from tests.fleet import ALICE, Fleet, efa, gpu, uuid

BOTH = frozenset({"gpu", "efa"})


def test_a_list_that_comes_again_after_another_of_its_kinds_is_applied_again(fleet: Fleet) -> None:
    old = [gpu(number) for number in range(4)]
    swapped = [*old[:3], gpu(9, at=3)]
    fleet.admit(devices=old, covers=BOTH)
    fleet.clock.advance(31)
    fleet.admit(devices=swapped, covers=frozenset({"gpu"}))
    fleet.hold({"device": uuid(3)})

    fleet.clock.advance(31)
    answer = fleet.report(devices=old, covers=BOTH)

    assert answer["admission"]["reasons"][0]["code"] == "device_quarantined"
    assert answer["admission"]["reasons"][0]["device"]["uuid"] == uuid(3)


def test_a_list_that_comes_again_after_another_profile_was_named_is_judged_by_its_own(fleet: Fleet) -> None:
    fleet.admit()
    fleet.report(devices=None, entries=None, profile="nobody-knows-it")
    assert "profile_unknown" in fleet.codes()

    fleet.clock.advance(31)
    fleet.admit()

    assert fleet.codes() == []


def test_a_list_that_says_what_it_covers_excuses_none_that_does_not(fleet: Fleet) -> None:
    devices = [gpu(number) for number in range(8)]
    fleet.report(devices=devices, covers=BOTH, profile="p5.48xlarge")

    with pytest.raises(CoversRequired):
        fleet.report(devices=devices, profile="p5.48xlarge")


def test_a_held_adapter_without_serial_stays_held_when_its_node_is_retired_and_comes_back(fleet: Fleet) -> None:
    devices = [*(gpu(number) for number in range(4)), efa(1)]
    fleet.admit(devices=devices, covers=BOTH)
    fleet.fail("xid_79", node="node-a", slot=efa(1).slot)
    retire_node(fleet.db, "node-a", reason="sold", actor=ALICE, policy=fleet.policy, now=fleet.clock.advance(1))
    fleet.clock.advance(31)
    fleet.admit(devices=devices, covers=BOTH)

    assert fleet.codes() == ["device_quarantined"]


def test_a_list_may_teach_a_board_its_serial_by_a_new_unit_before_a_known_one(fleet: Fleet) -> None:
    left = gpu(1, model="NVIDIA GB200", module_id="1")
    right = gpu(2, model="NVIDIA GB200", module_id="2", serial=left.serial)
    fleet.report(devices=[gpu(2, model="NVIDIA GB200", module_id="2", serial="[N/A]")])

    fleet.report(devices=[left, right])

    assert "identity_conflict" not in fleet.codes()


def test_a_report_that_says_the_same_stands_and_falls_with_the_transaction_around_it(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(31)

    with suppress(ZeroDivisionError), fleet.db.write(fleet.clock.now):
        fleet.report()
        raise ZeroDivisionError
    assert reported_at(fleet) < fleet.clock.now

    with fleet.db.write(fleet.clock.now):
        fleet.report()
    assert reported_at(fleet) == fleet.clock.now


def reported_at(fleet: Fleet) -> datetime:
    with fleet.db.read() as snapshot:
        state = find_state_by_name(snapshot, "node-a")
    assert state is not None
    return state.reported_at
