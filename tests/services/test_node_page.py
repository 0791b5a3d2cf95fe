# SPDX-License-Identifier: Apache-2.0
"""What is on record of a node, and what does a message that comes too late leave alone?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.reports import CheckResult, CheckStatus
from registry.services import nodes
from registry.services.nodes import list_nodes, retire_node, set_maintenance, show_node
from registry.services.pages import PageRequest
from registry.store.history import page_events
from tests.fleet import ALICE, Fleet, gpu, passing


def page(fleet: Fleet) -> dict[str, Any]:
    return show_node(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now)


def walk(fleet: Fleet, limit: int, **filters: str) -> list[list[str]]:
    """The names on each page, newest first."""
    pages: list[list[str]] = []
    after: str | None = None
    while after or not pages:
        found = list_nodes(fleet.db, filters, PageRequest(limit, after), policy=fleet.policy, now=fleet.clock.now)
        pages.append([one["name"] for one in found.items])
        after = found.next
    return pages


def test_a_page_by_state_looks_at_so_many_nodes_and_no_more(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "LOOKED_AT_MAX", 3)
    for number in range(7):
        fleet.report(f"node-{number}", instance=f"i-{number}", devices=[gpu(4 * number + at) for at in range(4)])
    fleet.clock.advance(30)
    for number in (0, 6):
        fleet.report(f"node-{number}", instance=f"i-{number}", devices=[gpu(4 * number + at) for at in range(4)])

    assert walk(fleet, 100, state="admitted") == [["node-6"], [], ["node-0"]]
    assert walk(fleet, 1, state="admitted") == [["node-6"], [], ["node-0"]]
    assert walk(fleet, 2, state="held") == [["node-5", "node-4"], ["node-3", "node-2"], ["node-1"]]
    assert walk(fleet, 5) == [["node-6", "node-5", "node-4", "node-3", "node-2"], ["node-1", "node-0"]]
    assert walk(fleet, 7) == [[f"node-{number}" for number in range(6, -1, -1)]]


def test_the_few_that_are_retired_or_in_maintenance_are_found_at_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "LOOKED_AT_MAX", 1)
    for number in range(4):
        fleet.report(f"node-{number}", instance=f"i-{number}", devices=[gpu(4 * number + at) for at in range(4)])
    how = {"actor": ALICE, "policy": fleet.policy, "now": fleet.clock.now}
    retire_node(fleet.db, "node-0", reason=None, **how)
    set_maintenance(fleet.db, "node-1", until=fleet.clock.now + timedelta(hours=1), reason="x", **how)
    fleet.clock.advance(1)

    assert walk(fleet, 100, state="retired") == [["node-0"]]
    assert walk(fleet, 100, state="maintenance") == [["node-1"]]


def test_the_few_that_are_stale_are_found_at_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        fleet.report(f"node-{number}", instance=f"i-{number}", devices=[gpu(4 * number + at) for at in range(4)])
    fleet.fail("xid_79", node="node-8", slot="0000:10:00.0")  # it never reported
    how = {"actor": ALICE, "policy": fleet.policy, "now": fleet.clock.now}
    retire_node(fleet.db, "node-0", reason=None, **how)
    fleet.clock.advance(fleet.policy.report_stale_seconds + 1)
    for number in (2, 3):
        fleet.report(f"node-{number}", instance=f"i-{number}", devices=[gpu(4 * number + at) for at in range(4)])
    monkeypatch.setattr(nodes, "LOOKED_AT_MAX", 2)

    assert walk(fleet, 100, state="stale") == [["node-8", "node-1"]]


def test_the_few_that_may_drain_are_found_at_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.policy = replace(fleet.policy, condition_accelerated_seconds=60)
    bad = (*passing("gpu.row_remap", "gpu.xid"), CheckResult("gpu.ecc", CheckStatus.FAIL))
    for number in range(4):
        devices = [gpu(4 * number + at) for at in range(4)]
        fleet.report(f"node-{number}", devices, instance=f"i-{number}", **({"checks": bad} if number == 1 else {}))
    monkeypatch.setattr(nodes, "LOOKED_AT_MAX", 1)
    assert walk(fleet, 100, state="draining") == [[]]

    fleet.clock.advance(60)
    assert walk(fleet, 100, state="draining") == [["node-1"]]

    fleet.hold({"node": "node-3"}, drain=True)
    assert sorted(one for page in walk(fleet, 100, state="draining") for one in page) == ["node-1", "node-3"]


def test_a_late_message_changes_nothing_that_is_known_of_the_host(fleet: Fleet) -> None:
    fleet.report(seq=2, host={"dmi": {"serial": "X1"}})
    fleet.report(seq=1, host={"dmi": {"serial": "Y2"}})
    assert page(fleet)["host"] == {"dmi": {"serial": "X1"}}
    with fleet.db.read() as snapshot:
        assert page_events(snapshot, types=["node.host_changed"]) == []


def test_a_message_of_a_boot_that_is_over_does_not_bring_a_retired_node_back(fleet: Fleet) -> None:
    fleet.report()
    fleet.report(boot="boot-2")
    retire_node(fleet.db, "node-a", reason=None, actor=ALICE, policy=fleet.policy, now=fleet.clock.now)
    fleet.report(boot="boot-1")
    assert fleet.codes() == ["node_unknown"]
    fleet.report(boot="boot-2")
    assert fleet.codes() != ["node_unknown"]


def test_a_module_id_that_is_a_placeholder_is_null_on_the_node_page(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(0, module_id="N/A"), gpu(1, module_id="2"), gpu(2), gpu(3)])
    lines = page(fleet)["devices"]
    assert [line["module_id"] for line in lines] == [None, "2", None, None]
    assert {"type": "module_id", "value": "N/A", "usable": False} in lines[0]["identifiers"]
