# SPDX-License-Identifier: Apache-2.0
"""Is what is asked of one device or node looked for among its own faults, and not among all of the fleet?"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry.domain.rules import Rule
from registry.store import failures, fleet, gauges, sights
from registry.store.database import Database

THEN = datetime(1970, 1, 1, tzinfo=UTC)
RULE = Rule("chatter", count=1, within_seconds=60, codes=("xid_31",))


class Seen(Exception):
    """Carries the statement and its parameters."""


class Spy:
    """Takes the one statement that a query sends to SQLite, whose plans are looked at here."""

    engine = "sqlite"

    def _tell(self, sql: str, params: Any) -> Any:
        raise Seen(sql, params)

    all = one = _tell


@pytest.mark.parametrize(
    "ask",
    [
        lambda to: failures.find_same(to, "xid_31", "d", boot_id="b", occurred_at=THEN, effect="record", muted=None),
        lambda to: failures.is_shown_in_boot(to, "xid_31", "d", "b"),
        lambda to: sights.on_devices(to, ["d"], RULE, THEN, THEN + timedelta(days=1)),
        lambda to: sights.on_node(to, "n", RULE, THEN, THEN + timedelta(days=1)),
    ],
    ids=["find_same", "is_shown_in_boot", "on_devices", "on_node"],
)
def test_faults_of_one_device_or_node_are_found_by_it(db: Database, ask: Any) -> None:
    with pytest.raises(Seen) as caught:
        ask(Spy())
    sql, params = caught.value.args
    if db.engine != "sqlite":
        return  # it keeps statistics, and of an empty table it reads everything
    plan = plan_of(db, sql, params)
    assert "failure_code" not in plan
    assert "failure_by_state" not in plan


@pytest.mark.parametrize(
    ("ask", "walked"),
    [
        (lambda to: fleet.list_met_again(to, THEN, 10), {"h"}),
        (lambda to: fleet.failed_on(to, ["d"]), set()),
        (lambda to: fleet.list_silent(to, THEN, THEN, 10), set()),
        (lambda to: fleet.count_holds_by_cause(to, THEN), set()),
        (lambda to: fleet.capacity_by_hour(to, THEN), set()),
        # How many nodes there are is counted off an index.
        (lambda to: gauges.count_nodes(to, THEN, THEN), {"CONSTANT", "node", "node_state"}),
        (lambda to: fleet.list_failing(to, THEN, 10), {"t"}),
        (lambda to: fleet.count_gpu_failures(to, THEN), set()),
    ],
    ids=["met_again", "failed_on", "silent", "holds", "hours", "nodes", "failing", "gpu_failures"],
)
def test_what_the_fleet_page_asks_walks_no_table(db: Database, ask: Any, walked: set[str]) -> None:
    with pytest.raises(Seen) as caught:
        ask(Spy())
    sql, params = caught.value.args
    if db.engine != "sqlite":
        return  # it keeps statistics, and of an empty table it reads everything
    plan = plan_of(db, sql, params)

    assert set(re.findall(r"SCAN (\w+)", plan)) <= walked, plan
    assert not re.search(r"failure_by_state|hold_target_ref \(kind=\?\)", plan), plan


def plan_of(db: Database, sql: str, params: Any) -> str:
    """How SQLite would go about a statement."""
    with db.read() as snapshot:
        return " / ".join(str(row[-1]) for row in snapshot.all("EXPLAIN QUERY PLAN " + sql, params))
