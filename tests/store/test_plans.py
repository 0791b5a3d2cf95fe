# SPDX-License-Identifier: Apache-2.0
"""Failing tests of a review: what is asked for one device must not be looked for among all faults of the fleet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry.store import failures, sights
from registry.store.database import Database

THEN = datetime(1970, 1, 1, tzinfo=UTC)


class Seen(Exception):
    """Carries the statement and its parameters."""


class Spy:
    """Takes the one statement that a query sends."""

    def all(self, sql: str, params: Any) -> Any:
        raise Seen(sql, params)

    one = all


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """SQLite keeps no statistics here; PostgreSQL does."""
    return str(request.param)


@pytest.mark.parametrize(
    "ask",
    [
        lambda to: failures.find_same(
            to, "xid_31", "d", boot_id="b", occurred_at=THEN, effect="record", muted=None
        ),
        lambda to: failures.is_shown_in_boot(to, "xid_31", "d", "b"),
        lambda to: sights.on_devices(to, ["d"], THEN, THEN + timedelta(days=1)),
        lambda to: sights.on_node(to, "n", THEN, THEN + timedelta(days=1)),
    ],
    ids=["find_same", "is_shown_in_boot", "on_devices", "on_node"],
)
def test_faults_of_one_device_or_node_are_found_by_it(db: Database, engine: str, ask: Any) -> None:
    with pytest.raises(Seen) as caught:
        ask(Spy())
    sql, params = caught.value.args
    how = "EXPLAIN QUERY PLAN " if engine == "sqlite" else "EXPLAIN "
    with db.read() as snapshot:
        plan = " / ".join(str(row[-1]) for row in snapshot.all(how + sql, params))
    assert "failure_code" not in plan and "failure_by_state" not in plan, plan
