# SPDX-License-Identifier: Apache-2.0
"""What did strangers find who knew only the contract? Each of these was wrong once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.domain.failures import look_up
from registry.services.admission import decide_admission
from registry.services.nodes import show_node
from tests.fleet import Fleet, gpu, serial


def test_a_gpu_listed_elsewhere_takes_the_admission_of_its_old_node_with_it(fleet: Fleet) -> None:
    fleet.admit("node-a")
    fleet.admit("node-b", devices=[gpu(0), *(gpu(number) for number in range(11, 14))], instance="i-2", boot="boot-2")

    assert fleet.codes("node-b") == []
    assert fleet.codes("node-a") == ["device_missing", "passes_insufficient"]
    (missing, _) = fleet.decide("node-a").reasons
    assert (missing.have, missing.need) == (3, 4)


def test_a_gpu_may_be_listed_elsewhere_before_its_old_node_has_sent_a_list_in_its_new_boot(fleet: Fleet) -> None:
    fleet.admit("node-a")
    fleet.clock.advance(60)
    fleet.report("node-a", boot="boot-9", entries=None)

    fleet.admit("node-b", devices=[gpu(0), *(gpu(number) for number in range(11, 14))], instance="i-2", boot="boot-2")

    assert fleet.codes("node-b") == []
    assert "passes_insufficient" in fleet.codes("node-a")


def test_a_chassis_hold_follows_the_machine_into_a_new_instance_of_the_same_name(fleet: Fleet) -> None:
    host = {"chassis": {"serial": "CHASSIS0001"}}
    fleet.report(host=host)
    (item,) = fleet.hold({"node": "node-a"})
    assert item["quarantine"]["match"] == "chassis"

    fleet.clock.advance(60)
    fleet.admit(instance="i-2", boot="boot-2", host=host)

    assert fleet.codes() == ["node_quarantined"]


def test_passes_insufficient_names_only_checks_that_did_not_come(fleet: Fleet) -> None:
    fleet.report()

    (reason,) = decide_admission(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now).reasons

    assert (reason.code, reason.have) == ("passes_insufficient", 1)
    assert "No result" not in reason.message


def test_an_entry_without_a_slot_keeps_its_slot_on_the_node_page(fleet: Fleet) -> None:
    fleet.report()
    fleet.clock.advance(31)
    fleet.report(devices=[gpu(number, slot=None) for number in range(4)])

    shown = show_node(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now)["devices"]

    assert [one["slot"] for one in shown] == [gpu(number).slot for number in range(4)]


@pytest.mark.parametrize("code", ["xid_48", "xid_79"])
def test_an_old_line_after_a_release_has_no_effect_under_a_new_id(fleet: Fleet, code: str) -> None:
    fleet.admit()
    seen_at = fleet.clock.now
    fleet.fail(code, device=serial(0), occurred_at=seen_at)
    fleet.clock.advance(5)
    for hold in fleet.open_holds():
        fleet.release(hold["id"])
    fleet.clock.advance(31)
    fleet.admit()

    fleet.fail(code, device=serial(0), occurred_at=seen_at)
    assert fleet.codes() == []

    fleet.clock.advance(5)
    fleet.fail(code, device=serial(0), occurred_at=fleet.clock.now - timedelta(seconds=1))
    assert fleet.codes() == ["device_quarantined", "passes_insufficient"]


def test_an_xid_of_five_digits_is_an_unknown_code_and_holds() -> None:
    assert look_up("xid_99999").effect == "hold"
