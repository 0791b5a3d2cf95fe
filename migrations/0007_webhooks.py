# SPDX-License-Identifier: Apache-2.0
"""Addresses that are told of events, what signs for them, and the deliveries that did not arrive at the first try.

There is no row for each event: `position` says how far a subscription has got in the history, which is written in the
transaction of the event itself, without a gap, and in the order of commits. So no event costs more for being told.
`url` and `sealed` are enciphered. The row of a removed subscription stays, so that its counts do.
"""

from typing import Any

TABLES = (
    """CREATE TABLE subscription (
        id TEXT PRIMARY KEY, description TEXT, url TEXT NOT NULL, address TEXT NOT NULL, format TEXT NOT NULL,
        algorithm TEXT NOT NULL, types TEXT NOT NULL, causes TEXT NOT NULL, profiles TEXT NOT NULL,
        created_at BIGINT NOT NULL, created_by TEXT NOT NULL, is_enabled BIGINT NOT NULL, disabled_because TEXT,
        position BIGINT NOT NULL, failures BIGINT NOT NULL, failing_since BIGINT, retry_at BIGINT, error TEXT,
        delivered BIGINT NOT NULL, failed BIGINT NOT NULL, abandoned BIGINT NOT NULL, delivered_at BIGINT,
        removed_at BIGINT)""",
    """CREATE TABLE subscription_secret (
        id TEXT PRIMARY KEY, subscription_id TEXT NOT NULL REFERENCES subscription(id), sealed TEXT NOT NULL,
        public_key TEXT, created_at BIGINT NOT NULL, drop_at BIGINT)""",
    "CREATE INDEX subscription_secret_of ON subscription_secret (subscription_id, id)",
    # `event` is null of a message that only tries the way.
    """CREATE TABLE delivery (
        id TEXT PRIMARY KEY, subscription_id TEXT NOT NULL REFERENCES subscription(id),
        event BIGINT REFERENCES event(sequence), state TEXT NOT NULL, attempts BIGINT NOT NULL,
        created_at BIGINT NOT NULL, tried_at BIGINT, retry_at BIGINT, ended_at BIGINT, status BIGINT, error TEXT)""",
    "CREATE UNIQUE INDEX delivery_of_event ON delivery (subscription_id, event) WHERE event IS NOT NULL",
    "CREATE INDEX delivery_pending ON delivery (subscription_id, event) WHERE state = 'pending'",
    "CREATE INDEX delivery_by_state ON delivery (subscription_id, state, id)",
    "CREATE INDEX delivery_of ON delivery (subscription_id, id)",
    "CREATE INDEX delivery_delivered ON delivery (ended_at) WHERE state = 'delivered'",
)


def up(migrator: Any, db: Any) -> None:
    """Make the tables and their indexes. Forward only."""
    for statement in TABLES:
        db.execute_sql(statement)
