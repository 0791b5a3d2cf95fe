# SPDX-License-Identifier: Apache-2.0
"""Orders to repair something, the switch that stops them, and the checks whose word on many nodes is doubted.

`attempts` counts the claims of an order and is the token that whoever claimed it shows. `settled_at` is when the budget
let go of a node whose repair is over: until then it counts as disturbed.
"""

from typing import Any

TABLES = (
    """CREATE TABLE repair (
        id TEXT PRIMARY KEY, action TEXT NOT NULL, condition TEXT NOT NULL, node_id TEXT NOT NULL REFERENCES node(id),
        instance_id TEXT NOT NULL REFERENCES instance(id), device_id TEXT REFERENCES device(id), because TEXT NOT NULL,
        planned_at BIGINT NOT NULL, state TEXT NOT NULL, waits_for TEXT, ready_at BIGINT, claimed_by TEXT,
        claimed_at BIGINT, lease_until BIGINT, attempts BIGINT NOT NULL, ended_at BIGINT, outcome TEXT, detail TEXT,
        settled_at BIGINT)""",
    "CREATE INDEX repair_open ON repair (planned_at, id) WHERE state IN ('planned', 'ready', 'claimed')",
    # Those that are over and whose node still counts as disturbed.
    """CREATE INDEX repair_unsettled ON repair (node_id)
        WHERE settled_at IS NULL AND attempts > 0 AND state IN ('done', 'failed', 'cancelled')""",
    # What was done before for the same condition of a device, wherever it was.
    "CREATE INDEX repair_of_device ON repair (device_id, condition, id) WHERE device_id IS NOT NULL",
    """CREATE TABLE repair_stop (
        id BIGINT PRIMARY KEY CHECK (id = 1), at BIGINT NOT NULL, stopped_by TEXT NOT NULL, reason TEXT NOT NULL)""",
    # `since_at` is null of a check that is believed; `trusted_at` when a person last said so.
    """CREATE TABLE repair_suspicion (
        condition TEXT PRIMARY KEY, since_at BIGINT, nodes BIGINT NOT NULL, most BIGINT NOT NULL, trusted_at BIGINT)""",
)

COLUMNS = ("action", "condition", "node_id", "instance_id", "state", "planned_at")
WHERE_SET = ("ready_at", "claimed_by", "claimed_at", "lease_until", "ended_at", "outcome", "settled_at")
"""What orders are asked for by, of which every row has the first ones."""

PROSE = ("because", "detail", "waits_for")


def up(migrator: Any, db: Any) -> None:
    """Make the tables and their indexes. Forward only."""
    for statement in TABLES:
        db.execute_sql(statement)
    for name in COLUMNS:
        db.execute_sql(f"CREATE INDEX repair_by_{name} ON repair ({name}, id)")
    for name in WHERE_SET:
        db.execute_sql(f"CREATE INDEX repair_by_{name} ON repair ({name}, id) WHERE {name} IS NOT NULL")
    for name in PROSE:
        db.execute_sql(f"CREATE INDEX repair_by_{name} ON repair (substr({name}, 1, 64), id) WHERE {name} IS NOT NULL")
