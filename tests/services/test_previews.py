# SPDX-License-Identifier: Apache-2.0
"""What would be decided about a node or about identifiers, when somebody only asks?"""

from __future__ import annotations

import pytest

from registry.services.admission import preview
from tests.fleet import Fleet, gpu, serial, uuid


def test_asking_writes_nothing(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(1000)
    sequences = {fleet.decide().sequence for _ in range(3)}
    ask = [{"node": "node-a"}, {"node": "never"}, {"identifiers": [{"kind": "gpu", "type": "uuid", "value": uuid(1)}]}]
    items = preview(fleet.db, ask, policy=fleet.policy, now=fleet.clock.now)
    assert sequences == {fleet.decide().sequence}
    assert [[reason["code"] for reason in one["reasons"]] for one in items] == [
        ["report_stale", "passes_insufficient"],
        ["node_unknown"],
        [],
    ]


@pytest.mark.parametrize("is_seen", [True, False])
def test_identifiers_alone_are_judged_by_the_holds_they_meet(fleet: Fleet, is_seen: bool) -> None:
    if is_seen:
        fleet.report()
    fleet.hold({"identifier": {"kind": "gpu", "type": "serial", "value": serial(1)}})
    ask = [
        {"identifiers": [{"kind": "gpu", "type": "serial", "value": serial(n)} for n in range(3)]},
        {"node": "never", "identifiers": [{"kind": "gpu", "type": "serial", "value": serial(1)}]},
        {"identifiers": [{"kind": "efa", "type": "serial", "value": serial(1)}]},
    ]
    items = preview(fleet.db, ask, policy=fleet.policy, now=fleet.clock.now)
    assert [[reason["code"] for reason in one["reasons"]] for one in items] == [
        ["device_quarantined"],
        ["device_quarantined"],
        [],
    ]


def test_free_identifiers_do_not_let_an_unknown_node_in(fleet: Fleet) -> None:
    free = {"kind": "gpu", "type": "serial", "value": serial(1)}
    (item,) = preview(fleet.db, [{"node": "never", "identifiers": [free]}], policy=fleet.policy, now=fleet.clock.now)
    assert (item["admitted"], [reason["code"] for reason in item["reasons"]]) == (False, ["node_unknown"])


def test_a_device_named_beside_its_own_node_is_one_reason(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": serial(1)})
    mine = {"kind": "gpu", "type": "serial", "value": serial(1)}
    (item,) = preview(fleet.db, [{"node": "node-a", "identifiers": [mine]}], policy=fleet.policy, now=fleet.clock.now)
    held = [reason for reason in item["reasons"] if reason["code"] == "device_quarantined"]
    assert [reason["device"]["slot"] for reason in held] == [gpu(1).slot]


def test_a_boot_that_has_not_reported_has_no_passes(fleet: Fleet) -> None:
    fleet.admit()
    ask = [{"node": "node-a", "boot_id": "boot-2"}, {"node": "never", "boot_id": "boot-2"}]

    items = preview(fleet.db, ask, policy=fleet.policy, now=fleet.clock.now)

    assert [[reason["code"] for reason in one["reasons"]] for one in items] == [
        ["passes_insufficient"],
        ["node_unknown"],
    ]
    assert items[0]["passes"]["have"] == 0


def test_a_boot_that_has_not_reported_is_not_called_silent(fleet: Fleet) -> None:
    fleet.admit()
    fleet.clock.advance(1000)

    (item,) = preview(fleet.db, [{"node": "node-a", "boot_id": "boot-2"}], policy=fleet.policy, now=fleet.clock.now)

    assert [reason["code"] for reason in item["reasons"]] == ["passes_insufficient"]


def test_the_boot_that_reported_is_admitted(fleet: Fleet) -> None:
    fleet.admit()

    (item,) = preview(fleet.db, [{"node": "node-a", "boot_id": "boot-1"}], policy=fleet.policy, now=fleet.clock.now)

    assert item["admitted"]
