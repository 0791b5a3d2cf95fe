# SPDX-License-Identifier: Apache-2.0
"""What is on record of a node, and what does a message that comes too late leave alone?"""

from __future__ import annotations

from typing import Any

from registry.services.nodes import retire_node, show_node
from registry.store.history import page_events
from tests.fleet import ALICE, Fleet, gpu


def page(fleet: Fleet) -> dict[str, Any]:
    return show_node(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now)


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
