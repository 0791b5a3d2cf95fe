# SPDX-License-Identifier: Apache-2.0
"""What is remembered of the checks of an instance that are not, or not yet long, well.

A row is gone when nothing of it is worth remembering: then the history alone knows of it. `device_id` is empty for a
condition of the node, `named` is the text where it names no device that is known here. `due_at` is when something comes
about by itself, `told` and `told_flapping` what the history heard last.
"""

from typing import Any

STATEMENTS = (
    """CREATE TABLE node_condition (
        instance_id TEXT NOT NULL REFERENCES instance(id), node_id TEXT NOT NULL REFERENCES node(id),
        name TEXT NOT NULL, device_id TEXT NOT NULL, named TEXT NOT NULL,
        word TEXT NOT NULL, word_since BIGINT NOT NULL, since_at BIGINT, spent BIGINT NOT NULL, failed_at BIGINT,
        changes TEXT NOT NULL, was_bad BIGINT NOT NULL, flaps_since BIGINT, reason TEXT NOT NULL, message TEXT NOT NULL,
        told TEXT, told_flapping TEXT, due_at BIGINT,
        PRIMARY KEY (instance_id, name, device_id, named))""",
    "CREATE INDEX node_condition_due ON node_condition (due_at, node_id) WHERE due_at IS NOT NULL",
    # How many nodes turned bad through one check of late.
    "CREATE INDEX node_condition_name ON node_condition (name, since_at, node_id) WHERE since_at IS NOT NULL",
    """CREATE INDEX node_condition_failed ON node_condition (node_id)
        WHERE told = 'failure' OR told_flapping = 'failure'""",
)


def up(migrator: Any, db: Any) -> None:
    """Make the table and its indexes. Forward only."""
    for statement in STATEMENTS:
        db.execute_sql(statement)
