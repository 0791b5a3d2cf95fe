# SPDX-License-Identifier: Apache-2.0
"""Does the queue show what is kept out, how good its case is and whose move it is, part by part?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.hold_review import Piece
from registry.domain.reports import CheckResult, CheckStatus
from registry.services import queue_view
from registry.services.failures import withdraw_failure
from registry.services.pages import PageRequest
from registry.services.queue_view import HELD, WITHHELD, Filters, QueueItem
from registry.services.repairs import claim_repair
from registry.store.snapshots import Snapshot
from tests.fleet import ALICE, CLEAN_GPU, EVERYTHING, Fleet, efa, gpu, passing, serial, uuid
from tests.services.test_breaker import CODE, bring_up, name
from tests.services.test_repairs import EAGER, failing, listed, work

OLDEST_FIRST = PageRequest(50, None, newest_first=False)


def queue(fleet: Fleet, page: PageRequest = EVERYTHING, **filters: Any) -> list[QueueItem]:
    return list(
        queue_view.list_queue(fleet.db, Filters(**filters), page, policy=fleet.policy, now=fleet.clock.now).items
    )


def only(fleet: Fleet, **filters: Any) -> QueueItem:
    (item,) = queue(fleet, **filters)
    return item


def withhold_one(fleet: Fleet) -> None:
    """Three nodes with a GPU each; a rule holds GPU 0, and the breaker withholds GPU 1."""
    bring_up(fleet, 3)
    for number in range(2):
        fleet.fail(CODE, device=uuid(number))


def test_what_is_held_and_what_is_withheld_stand_in_one_queue_the_oldest_first(fleet: Fleet) -> None:
    withhold_one(fleet)
    found = queue(fleet)
    assert [(one.what, one.named, one.node) for one in found] == [
        (HELD, serial(0), name(0)),
        (WITHHELD, serial(1), name(1)),
    ]
    assert [one.named for one in queue(fleet, PageRequest(50))] == [serial(1), serial(0)]
    assert found[1].next_step.startswith("Decide: hold it, or let it go.")
    assert found[1].cause == "hardware"
    assert not found[1].is_overdue


def test_an_item_says_what_a_person_needs(fleet: Fleet) -> None:
    fleet.admit()
    review_at = fleet.clock.now + timedelta(hours=1)
    fleet.hold({"device": uuid(2)}, reason="it smells", cause="hardware", ticket="OPS-7", review_at=review_at)
    fleet.clock.advance(90 * 60)
    item = only(fleet)
    assert (item.named, item.node, item.owner, item.reason) == (serial(2), "node-a", "operator:alice", "it smells")
    assert (item.cause, item.ticket, item.review_at) == ("hardware", "OPS-7", review_at)
    assert (item.age_seconds, item.is_overdue) == (90 * 60, True)
    (device,) = item.devices
    assert item.places == {device.id: ("node-a", gpu(2).slot)}
    assert item.next_step.startswith("Review overdue")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"cause": "driver"}, [1]),
        ({"owner": "rule:xid_48"}, [0]),
        ({"owner": "operator:alice"}, [1, 2]),
        ({"ticket": "OPS-7"}, [2]),
        ({"node": "node-b"}, [1]),
        ({"node": "nowhere"}, []),
        ({"model": "NVIDIA A100"}, [2]),
        ({"model": "NVIDIA H100 80GB HBM3"}, [0, 1]),
        ({"is_overdue": True}, [2]),
        ({"what": WITHHELD}, []),
        ({"what": HELD, "owner": "operator:alice", "node": "node-b"}, [1]),
    ],
)
def test_each_filter_narrows_the_queue(fleet: Fleet, filters: dict[str, Any], found: list[int]) -> None:
    fleet.report(devices=[gpu(0)])
    fleet.report("node-b", [gpu(1)], instance="i-2")
    fleet.report("node-c", [gpu(2, model="NVIDIA A100")], instance="i-3")
    fleet.fail(CODE, device=uuid(0))
    fleet.hold({"device": uuid(1)}, cause="driver")
    fleet.hold({"device": uuid(2)}, ticket="OPS-7", review_at=fleet.clock.now + timedelta(seconds=1))
    fleet.clock.advance(2)
    assert [one.named for one in queue(fleet, **filters)] == [serial(number) for number in found]


def test_withheld_ones_are_narrowed_as_held_ones_are(fleet: Fleet) -> None:
    withhold_one(fleet)
    for filters in ({"node": name(1)}, {"cause": "hardware"}, {"owner": "rule:xid_48"}, {"model": gpu(1).model}):
        assert [one.named for one in queue(fleet, what=WITHHELD, **filters)] == [serial(1)]
    for filters in ({"node": name(2)}, {"cause": "user"}, {"owner": "operator:alice"}, {"model": "x"}):
        assert queue(fleet, what=WITHHELD, **filters) == []
    assert queue(fleet, what=WITHHELD, ticket="OPS-7") == []


def test_pages_go_through_all_of_it_once(fleet: Fleet) -> None:
    withhold_one(fleet)
    fleet.hold({"device": uuid(2)})
    for newest_first in (False, True):
        after, seen = None, []
        while True:
            part = PageRequest(1, after, newest_first=newest_first)
            page = queue_view.list_queue(fleet.db, Filters(), part, policy=fleet.policy, now=fleet.clock.now)
            seen += [one.named for one in page.items]
            after = page.next
            if after is None:
                break
        assert sorted(seen) == [serial(0), serial(1), serial(2)]


def test_the_counts_are_of_all_that_is_kept_out_and_of_nothing_that_was(fleet: Fleet) -> None:
    withhold_one(fleet)
    fleet.hold({"device": uuid(2)}, cause="driver", review_at=fleet.clock.now + timedelta(seconds=1))
    freed = fleet.hold({"node": name(2)}, cause="platform")[0]["quarantine"]["id"]
    fleet.release(freed)
    fleet.hold({"node": name(2)}, release_policy="at_expiry", expires_at=fleet.clock.now + timedelta(seconds=1))
    fleet.clock.advance(2)
    found = queue_view.count_queue(fleet.db, now=fleet.clock.now)
    assert (found.held, found.withheld, found.overdue) == (2, 1, 1)
    assert found.causes == (("driver", 1), ("hardware", 1))
    assert found.owners == (("operator:alice", 1), ("rule:xid_48", 1))


# --- evidence ---------------------------------------------------------------------------------------------------------


def test_the_evidence_of_a_rules_hold_is_its_fault(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_79", device=uuid(1), node="node-a", slot=gpu(1).slot)
    item = only(fleet)
    assert item.evidence.have == (Piece.FAILURE, Piece.KERNEL_LOG)
    assert (item.evidence.told(), item.next_step) == ("2 of 5", "Attach a DCGM diagnostic (dcgmi diag -r 3).")


def test_a_withdrawn_fault_is_no_evidence(fleet: Fleet) -> None:
    fleet.admit()
    fault = fleet.fail("xid_13", device=uuid(1))["failure"]
    fleet.hold({"device": uuid(1)})
    assert Piece.FAILURE in only(fleet).evidence.have
    withdraw_failure(fleet.db, fault["id"], reason="a test", actor=ALICE, now=fleet.clock.now)
    assert only(fleet).evidence.have == ()


def test_that_a_device_began_anew_is_no_fault(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("gpu_reset", device=uuid(1))
    fleet.hold({"device": uuid(1)})
    assert only(fleet).evidence.have == ()


def test_a_diagnostic_counts_from_the_fault_on(fleet: Fleet) -> None:
    looked = (*passing(*CLEAN_GPU), CheckResult("dcgm.diag", CheckStatus.PASS))
    fleet.report(checks=looked)
    fleet.clock.advance(60)
    fleet.hold({"device": uuid(1)})
    assert Piece.DIAGNOSTIC in only(fleet).evidence.missing
    fleet.clock.advance(60)
    fleet.report(checks=looked, run_id="again")
    assert Piece.DIAGNOSTIC in only(fleet).evidence.have


def test_a_diagnostic_that_was_skipped_tells_nothing(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": uuid(1)})
    fleet.clock.advance(60)
    fleet.report(checks=(*passing(*CLEAN_GPU), CheckResult("dcgm.diag", CheckStatus.SKIPPED)))
    assert Piece.DIAGNOSTIC in only(fleet).evidence.missing


def test_a_fault_that_came_along_to_another_slot_is_a_swap_test(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_79", device=uuid(1), node="node-a", slot=gpu(1).slot)
    assert Piece.SECOND_PLACE in only(fleet).evidence.missing
    fleet.clock.advance(60)
    fleet.report("node-b", [gpu(1, at=7)], instance="i-2")
    assert Piece.SECOND_PLACE in only(fleet).evidence.have
    fleet.clock.advance(60)
    fleet.fail("dcgm_ecc", device=uuid(1), node="node-b", slot=gpu(7).slot)
    item = only(fleet, node="node-b")
    assert item.evidence.missing == (Piece.TICKET,)


def test_a_machine_that_is_held_has_the_evidence_of_its_own_faults(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail("xid_79", device=uuid(1), node="node-a")
    fleet.hold({"node": "node-a"}, ticket="OPS-7")
    item = only(fleet, ticket="OPS-7")
    assert (item.named, item.node, item.devices) == ("node-a", "node-a", ())
    assert item.evidence.told() == "3 of 3"


def test_an_adapter_is_not_asked_for_what_only_gpus_have(fleet: Fleet) -> None:
    fleet.report(devices=[efa(1, serial="efa-1")], covers=frozenset({"efa"}))
    fleet.hold({"device": "efa-1"})
    assert only(fleet).evidence.told() == "0 of 3"


def test_an_identifier_that_nobody_showed_waits_for_its_device(fleet: Fleet) -> None:
    fleet.hold({"identifier": {"kind": "gpu", "type": "serial", "value": serial(9)}})
    item = only(fleet)
    assert (item.named, item.devices, item.evidence.told()) == (serial(9), (), "0 of 5")
    assert item.next_step == "Waiting: no device has shown this identifier yet."
    fleet.report(devices=[gpu(9)])
    assert (only(fleet).node, len(only(fleet).devices)) == ("node-a", 1)


def test_a_hold_that_passes_end_says_how_far_it_is(fleet: Fleet) -> None:
    fleet.admit()
    fleet.fail(CODE, device=uuid(1))
    assert only(fleet).next_step == "Waiting for a restart of node-a after the fault, then for 2 clean passes."
    fleet.clock.advance(60)
    fleet.report(boot="boot-2")
    assert only(fleet).next_step == "Waiting for passes: 1 of 2 on node-a."


def test_a_repair_that_is_ready_is_the_next_step(fleet: Fleet) -> None:
    fleet.policy = EAGER
    fleet.report(checks=failing(serial(0)))
    fleet.hold({"device": uuid(0)})
    work(fleet)
    (order,) = listed(fleet)
    assert only(fleet).next_step == "Claim its repair: reset_gpu is ready."
    claim_repair(fleet.db, order["id"], actor=ALICE, policy=fleet.policy, now=fleet.clock.now)
    assert only(fleet).next_step == "Under way: reset_gpu by operator:alice."


def test_the_items_of_some_ids_are_those_that_still_stand(fleet: Fleet) -> None:
    withhold_one(fleet)
    ids = [one.id for one in queue(fleet)]
    found = queue_view.get_items(fleet.db, [*ids, "nobody"], policy=fleet.policy, now=fleet.clock.now)
    assert [one.id for one in found] == ids
    fleet.release(ids[0])
    found = queue_view.get_items(fleet.db, ids, policy=fleet.policy, now=fleet.clock.now)
    assert [one.id for one in found] == ids[1:]


def test_a_page_asks_no_more_of_the_records_however_many_are_held(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(number) for number in range(40)])
    fleet.hold({"device": uuid(0)})
    few = _asked(fleet)
    fleet.hold(*({"device": uuid(number)} for number in range(1, 40)))
    assert _asked(fleet) == few


def _asked(fleet: Fleet) -> int:
    asked, before = 0, Snapshot.execute

    def counting(self: Snapshot, *args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return before(self, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshot, "execute", counting)
        queue(fleet, OLDEST_FIRST)
    return asked
