# SPDX-License-Identifier: Apache-2.0
"""Is what the page of a node shows found by its own rows, however many others there are?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from registry.store import node_words, placements, tenants
from registry.store.database import Database
from registry.store.placements import Placement
from tests.store.test_plans import Seen, Spy

THEN = datetime(2026, 1, 1, tzinfo=UTC)
STAY = Placement("p", "d", "b", "i", "n", "node-a", "gpu", "0000:10:00.0", THEN, THEN, "moved", None, False)


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda to: tenants.slots_ever(to, "n", 10), "placement_slot"),
        (lambda to: placements.newest_closed(to, "n", "0000:10:00.0", 10), "placement_slot"),
        (lambda to: tenants.faults_during(to, STAY, 3), "failure_device_last"),
        (lambda to: tenants.lives_of(to, "n", 10), "sqlite_autoindex_instance_2"),
        (lambda to: tenants.boots_of(to, "i", 10), "sqlite_autoindex_boot_2"),
        (lambda to: node_words.profiles_named(to, 10), "node_state_by_profile"),
        (lambda to: node_words.zones_named(to, 10), "node_state_by_zone"),
    ],
    ids=["slots_ever", "newest_closed", "faults_during", "lives_of", "boots_of", "profiles_named", "zones_named"],
)
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_past_of_one_node_is_read_along_an_index(db: Database, ask: Any, index: str) -> None:
    with pytest.raises(Seen) as caught:
        ask(Spy())
    sql, params = caught.value.args
    with db.read() as snapshot:
        plan = [str(row[-1]) for row in snapshot.all("EXPLAIN QUERY PLAN " + sql, params)]
    assert any(index in step for step in plan), plan
    assert not [step for step in plan if step.startswith("SCAN") and "INDEX" not in step and not _is_own(step)], plan


def _is_own(step: str) -> bool:
    """A walk over rows that the statement itself has made few of."""
    return step.split()[1] in {"s", "w", "i", "seen", "word", "CONSTANT"}
