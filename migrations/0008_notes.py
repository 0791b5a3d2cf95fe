# SPDX-License-Identifier: Apache-2.0
"""Notes of people about devices. Each is an event too; here they are found without walking a device's whole history."""

from typing import Any

TABLES = (
    """CREATE TABLE device_note (
        id TEXT PRIMARY KEY, device_id TEXT NOT NULL REFERENCES device(id), text TEXT NOT NULL, noted_by TEXT NOT NULL,
        noted_at BIGINT NOT NULL)""",
    "CREATE INDEX device_note_device ON device_note (device_id, id)",
)


def up(migrator: Any, db: Any) -> None:
    """Make the table and its index. Forward only."""
    for statement in TABLES:
        db.execute_sql(statement)
