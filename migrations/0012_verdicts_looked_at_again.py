# SPDX-License-Identifier: Apache-2.0
"""When a verdict on a failed job is looked at once more: silences, boots and failing checks come to light after it."""

from typing import Any

STATEMENTS = (
    "ALTER TABLE job_failure ADD COLUMN look_at BIGINT",
    "CREATE INDEX job_failure_look ON job_failure (look_at, id) WHERE look_at IS NOT NULL",
)


def up(migrator: Any, db: Any) -> None:
    """Add the column and its index. Forward only."""
    for statement in STATEMENTS:
        db.execute_sql(statement)
