# SPDX-License-Identifier: Apache-2.0
"""Which devices are in no node now: marked, so that the few are found without a look at the places of all others."""

from typing import Any

STATEMENTS = (
    "ALTER TABLE device ADD COLUMN is_detached BIGINT NOT NULL DEFAULT 0",
    """UPDATE device SET is_detached = 1 WHERE NOT EXISTS
        (SELECT 1 FROM placement p WHERE p.device_id = device.id AND p.until_at IS NULL)""",
    "CREATE INDEX device_detached ON device (id) WHERE is_detached = 1",
)


def up(migrator: Any, db: Any) -> None:
    """Add the mark, set it and index it. Forward only."""
    for statement in STATEMENTS:
        db.execute_sql(statement)
