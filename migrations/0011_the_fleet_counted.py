# SPDX-License-Identifier: Apache-2.0
"""The newest counts of the whole fleet, kept in one row: counting a million devices takes longer than a page may."""

from typing import Any


def up(migrator: Any, db: Any) -> None:
    """Make the table. Forward only."""
    db.execute_sql(
        "CREATE TABLE fleet_count (id BIGINT PRIMARY KEY CHECK (id = 1), at BIGINT NOT NULL, body TEXT NOT NULL)"
    )
