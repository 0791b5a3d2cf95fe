# SPDX-License-Identifier: Apache-2.0
"""Indexes for the fields that lists are filtered by, each with the key that lists are ordered by.

What few rows have is indexed for those rows alone, so that opening a hold or learning a device writes no more than it
must. Words of which there are only a handful (a hold's scope, match, target and release policy) have none: a page of a
common one is found at once, and holds are few enough to look through for a rare one.
"""

from typing import Any

ALWAYS = {
    "node": ("registered_at",),
    "node_state": ("profile", "zone", "instance_id", "boot_id"),
    "instance": ("provider_id",),
    "boot": ("boot_id",),
    "device": ("kind", "vendor", "registered_at"),
    "failure": (
        *("failure_id", "kind", "cause", "severity", "effect", "state", "reporter"),
        *("occurred_at", "recorded_at", "last_at"),
    ),
    "quarantine": ("owner", "opened_at"),
    "conflict": ("rule", "kind", "node_id", "opened_at"),
}
"""Columns of each table that every row has."""

WHERE_SET = {
    "node": ("retired_at", "maintenance_until"),
    "device": ("part_number", "module_id", "name", "asset_tag"),
    "failure": ("slot", "ref", "muted"),
    "quarantine": ("cause", "ticket", "review_at", "expires_at", "released_at", "released_by"),
    "conflict": ("resolved_at", "resolved_by", "resolved_as"),
}
"""Columns that some rows have."""

PROSE = {
    "node": ("maintenance_reason",),
    "failure": ("message",),
    "quarantine": ("reason", "release_reason"),
    "conflict": ("reason", "resolve_reason"),
}
"""Columns that people wrote: an index has their beginning, because an entry of one must not be as long as they may be.

https://www.postgresql.org/docs/current/btree.html"""

KEY = {"node_state": "node_id"}
"""By what the rows of a table are told apart, where that is not `id`."""

OTHERS = (
    "CREATE INDEX quarantine_permanent ON quarantine (id) WHERE is_permanent = 1",
    "CREATE INDEX quarantine_drain ON quarantine (id) WHERE is_drain = 1",
    "CREATE INDEX conflict_party_ref ON conflict_party (kind, ref)",
    "CREATE INDEX placement_at_slot ON placement (slot) WHERE until_at IS NULL",
    "CREATE INDEX placement_on_node ON placement (node_id) WHERE until_at IS NULL",
    # A stretch of time is walked in the order of times: a clock that is set back makes them fall along the sequences.
    "CREATE INDEX event_at ON event (at, sequence)",
    "CREATE INDEX event_type_at ON event (type, at, sequence)",
    "CREATE INDEX placement_missing ON placement (device_id) WHERE until_at IS NULL AND missing_since IS NOT NULL",
)

# Keys are sorted in a body, so it begins with its actor, which ends where the time begins.
ACTOR = 'CREATE INDEX event_actor ON event (substr(body, 1, {find}(body, \'}},"at":"\')), at, sequence)'


def up(migrator: Any, db: Any) -> None:
    """Make the indexes. No table is rebuilt, so that every guard stays where it is."""
    for table, names in ALWAYS.items():
        for name in names:
            db.execute_sql(f"CREATE INDEX {table}_by_{name} ON {table} ({name}, {KEY.get(table, 'id')})")
    for table, names in WHERE_SET.items():
        for name in names:
            db.execute_sql(f"CREATE INDEX {table}_by_{name} ON {table} ({name}, id) WHERE {name} IS NOT NULL")
    for table, names in PROSE.items():
        for name in names:
            begins = f"{table}_by_{name} ON {table} (substr({name}, 1, 64), id)"
            db.execute_sql(f"CREATE INDEX {begins} WHERE {name} IS NOT NULL")
    for statement in OTHERS:
        db.execute_sql(statement)
    is_sqlite = type(db).__name__.endswith("SqliteDatabase")
    db.execute_sql(ACTOR.format(find="instr" if is_sqlite else "strpos"))
