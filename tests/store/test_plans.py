# SPDX-License-Identifier: Apache-2.0
"""Is what is asked of one device or node looked for among its own faults, and not among all of the fleet?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry.domain.rules import Rule
from registry.store import failures, sights
from registry.store.database import Database

THEN = datetime(1970, 1, 1, tzinfo=UTC)
RULE = Rule("chatter", count=1, within_seconds=60, codes=("xid_31",))


class Seen(Exception):
    """Carries the statement and its parameters."""


class Spy:
    """Takes the one statement that a query sends."""

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
    with db.read() as snapshot:
        plan = " / ".join(str(row[-1]) for row in snapshot.all("EXPLAIN QUERY PLAN " + sql, params))
    assert "failure_code" not in plan
    assert "failure_by_state" not in plan
