# SPDX-License-Identifier: Apache-2.0
"""The first schema: nodes and their lives, boards and units, placements, holds, failures, conflicts, history.

Times are whole microseconds since 1970 UTC. Ids are text (UUID version 7) except where the history numbers itself.
Every table is made with raw SQL: SQLite drops triggers when a table is rebuilt, so later migrations must only ever
`ALTER TABLE … ADD COLUMN` on the guarded ones.
"""

from typing import Any

TABLES = (
    # --- who reports -------------------------------------------------------------------------------------------
    """CREATE TABLE node (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, registered_at BIGINT NOT NULL, retired_at BIGINT,
        maintenance_from BIGINT, maintenance_until BIGINT, maintenance_reason TEXT)""",
    # Maintenance that is over, so that evidence which comes late is put to the right time.
    """CREATE TABLE maintenance (
        node_id TEXT NOT NULL REFERENCES node(id), from_at BIGINT NOT NULL, until_at BIGINT NOT NULL)""",
    "CREATE INDEX maintenance_node ON maintenance (node_id, until_at)",
    """CREATE TABLE host_value (
        node_id TEXT NOT NULL REFERENCES node(id), source TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (node_id, source, name))""",
    "CREATE INDEX host_value_shared ON host_value (value, name)",
    """CREATE TABLE instance (
        id TEXT PRIMARY KEY, node_id TEXT NOT NULL REFERENCES node(id), provider_id TEXT NOT NULL,
        ordinal BIGINT NOT NULL, started_at BIGINT NOT NULL, ended_at BIGINT, chassis TEXT,
        UNIQUE (node_id, provider_id))""",
    """CREATE TABLE boot (
        id TEXT PRIMARY KEY, instance_id TEXT NOT NULL REFERENCES instance(id), boot_id TEXT NOT NULL,
        ordinal BIGINT NOT NULL, started_at BIGINT NOT NULL, UNIQUE (instance_id, boot_id))""",
    # One row a node: all that only its own reports change. An unchanged report rewrites this row and nothing else.
    # The wide columns stand last, so that reading a decision does not walk through them.
    """CREATE TABLE node_state (
        node_id TEXT PRIMARY KEY REFERENCES node(id), instance_id TEXT NOT NULL REFERENCES instance(id),
        boot_id TEXT NOT NULL REFERENCES boot(id), profile TEXT NOT NULL, zone TEXT, seq BIGINT,
        version BIGINT NOT NULL,
        reported_at BIGINT NOT NULL, have BIGINT NOT NULL, counted_start BIGINT, counted_end BIGINT,
        counted_total BIGINT NOT NULL, fault_at BIGINT, release_at BIGINT, digest TEXT NOT NULL,
        checks TEXT NOT NULL, listed TEXT NOT NULL, passes TEXT NOT NULL, runs TEXT NOT NULL, receipts TEXT NOT NULL,
        readings TEXT NOT NULL)""",
    """CREATE TABLE node_list (
        node_id TEXT NOT NULL REFERENCES node(id), kind TEXT NOT NULL, lines TEXT NOT NULL,
        PRIMARY KEY (node_id, kind))""",
    "CREATE INDEX node_state_reported ON node_state (reported_at)",
    """CREATE TABLE waiver (
        id TEXT PRIMARY KEY, node_id TEXT NOT NULL REFERENCES node(id), kind TEXT NOT NULL, count BIGINT NOT NULL,
        until_at BIGINT NOT NULL, reason TEXT NOT NULL, granted_by TEXT NOT NULL, granted_at BIGINT NOT NULL,
        ended_at BIGINT)""",
    "CREATE UNIQUE INDEX waiver_open ON waiver (node_id, kind) WHERE ended_at IS NULL",
    "CREATE TABLE profile (name TEXT PRIMARY KEY, body TEXT NOT NULL, updated_at BIGINT NOT NULL)",
    # --- what there is ---------------------------------------------------------------------------------------------
    "CREATE TABLE board (id TEXT PRIMARY KEY, kind TEXT NOT NULL, vendor TEXT NOT NULL, registered_at BIGINT NOT NULL)",
    """CREATE TABLE device (
        id TEXT PRIMARY KEY, board_id TEXT NOT NULL REFERENCES board(id), kind TEXT NOT NULL, vendor TEXT NOT NULL,
        serial TEXT, uuid TEXT, model TEXT, part_number TEXT, module_id TEXT, name TEXT, asset_tag TEXT,
        firmware TEXT NOT NULL, registered_at BIGINT NOT NULL)""",
    "CREATE INDEX device_board ON device (board_id)",
    "CREATE INDEX device_serial ON device (serial)",
    "CREATE INDEX device_uuid ON device (uuid)",
    "CREATE INDEX device_model ON device (model, id)",
    # What was printed, insert-only. A serial names a board, the others a unit. Text that names nothing is kept too.
    """CREATE TABLE identifier (
        id TEXT PRIMARY KEY, board_id TEXT NOT NULL REFERENCES board(id), device_id TEXT REFERENCES device(id),
        kind TEXT NOT NULL, vendor TEXT NOT NULL, type TEXT NOT NULL, value TEXT NOT NULL, scope TEXT NOT NULL,
        is_usable BIGINT NOT NULL, is_naming BIGINT NOT NULL, source TEXT NOT NULL, first_seen_at BIGINT NOT NULL)""",
    "CREATE UNIQUE INDEX identifier_names_one ON identifier (kind, vendor, type, value) WHERE is_naming = 1",
    "CREATE INDEX identifier_value ON identifier (value, type)",
    "CREATE INDEX identifier_board ON identifier (board_id, type)",
    "CREATE INDEX identifier_device ON identifier (device_id)",
    """CREATE TABLE placement (
        id TEXT PRIMARY KEY, device_id TEXT NOT NULL REFERENCES device(id), board_id TEXT NOT NULL REFERENCES board(id),
        instance_id TEXT NOT NULL REFERENCES instance(id), node_id TEXT NOT NULL REFERENCES node(id),
        kind TEXT NOT NULL, slot TEXT, since_at BIGINT NOT NULL, until_at BIGINT, ended_by TEXT,
        missing_since BIGINT, is_contested BIGINT NOT NULL)""",
    "CREATE UNIQUE INDEX placement_open ON placement (device_id) WHERE until_at IS NULL",
    # Carries all that a decision needs of a placement, so that forty of them are read without their rows.
    """CREATE INDEX placement_here ON placement (instance_id, kind, device_id, board_id, missing_since, until_at)
        WHERE until_at IS NULL""",
    "CREATE INDEX placement_slot ON placement (node_id, slot, since_at)",
    "CREATE INDEX placement_device ON placement (device_id, since_at)",
    "CREATE INDEX placement_contested ON placement (instance_id) WHERE is_contested = 1",
    """CREATE TABLE conflict (
        id TEXT PRIMARY KEY, rule TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
        node_id TEXT NOT NULL REFERENCES node(id), instance_id TEXT NOT NULL REFERENCES instance(id),
        kind TEXT NOT NULL, reason TEXT NOT NULL, entry TEXT NOT NULL, fingerprint TEXT NOT NULL,
        opened_at BIGINT NOT NULL, resolved_at BIGINT, resolved_by TEXT, resolved_as TEXT, resolve_reason TEXT)""",
    "CREATE UNIQUE INDEX conflict_open ON conflict (node_id, key) WHERE state = 'open'",
    "CREATE INDEX conflict_state ON conflict (state, id)",
    """CREATE TABLE conflict_party (
        conflict_id TEXT NOT NULL REFERENCES conflict(id), kind TEXT NOT NULL, ref TEXT NOT NULL,
        is_open BIGINT NOT NULL, PRIMARY KEY (conflict_id, kind, ref))""",
    "CREATE INDEX conflict_party_open ON conflict_party (kind, ref) WHERE is_open = 1",
    """CREATE TABLE ruling (
        fingerprint TEXT PRIMARY KEY, device_id TEXT NOT NULL REFERENCES device(id),
        conflict_id TEXT NOT NULL REFERENCES conflict(id), ruled_at BIGINT NOT NULL)""",
    # --- what went wrong and what was decided ------------------------------------------------------------------------
    """CREATE TABLE failure (
        id TEXT PRIMARY KEY, failure_id TEXT NOT NULL, id_scope TEXT NOT NULL, reporter TEXT NOT NULL,
        digest TEXT NOT NULL, code TEXT NOT NULL, kind TEXT, cause TEXT NOT NULL, severity TEXT NOT NULL,
        effect TEXT NOT NULL, state TEXT NOT NULL,
        device_id TEXT REFERENCES device(id), board_id TEXT REFERENCES board(id), node_id TEXT REFERENCES node(id),
        instance_id TEXT REFERENCES instance(id), boot_id TEXT REFERENCES boot(id), slot TEXT, ref TEXT,
        occurred_at BIGINT, recorded_at BIGINT NOT NULL, count BIGINT NOT NULL, last_at BIGINT NOT NULL,
        is_unattached BIGINT NOT NULL, muted TEXT, message TEXT, evidence TEXT NOT NULL,
        UNIQUE (id_scope, failure_id))""",
    "CREATE INDEX failure_device ON failure (device_id, id)",
    "CREATE INDEX failure_device_code ON failure (device_id, code)",
    "CREATE INDEX failure_device_last ON failure (device_id, last_at)",
    "CREATE INDEX failure_node_last ON failure (node_id, last_at)",
    "CREATE INDEX failure_node ON failure (node_id, id)",
    "CREATE INDEX failure_code ON failure (code, id)",
    "CREATE INDEX failure_unattached ON failure (instance_id) WHERE is_unattached = 1 AND state = 'active'",
    # One row for each time, or burst, that a fault was seen; the first is the failure's own. `said` is how many the
    # message under this id has told in all: it may come again with more.
    """CREATE TABLE sight (
        id TEXT PRIMARY KEY, failure TEXT NOT NULL REFERENCES failure(id), id_scope TEXT NOT NULL,
        failure_id TEXT NOT NULL, digest TEXT NOT NULL, first_at BIGINT NOT NULL, at BIGINT NOT NULL,
        count BIGINT NOT NULL, said BIGINT NOT NULL, first_uptime BIGINT, uptime BIGINT,
        UNIQUE (id_scope, failure_id))""",
    "CREATE INDEX sight_failure ON sight (failure, at)",
    """CREATE TABLE quarantine (
        id TEXT PRIMARY KEY, state TEXT NOT NULL, owner TEXT NOT NULL, target_kind TEXT NOT NULL,
        target_key TEXT NOT NULL, target TEXT NOT NULL, scope TEXT, match TEXT NOT NULL, reason TEXT NOT NULL,
        cause TEXT, ticket TEXT,
        release_policy TEXT NOT NULL, is_permanent BIGINT NOT NULL, is_drain BIGINT NOT NULL, opened_at BIGINT NOT NULL,
        review_at BIGINT, expires_at BIGINT, fault_at BIGINT, fault_boot TEXT, restart_at BIGINT,
        clean_runs BIGINT NOT NULL, released_at BIGINT, released_by TEXT, release_reason TEXT,
        evidence TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX quarantine_open ON quarantine (target_key, owner) WHERE state = 'open'",
    "CREATE INDEX quarantine_state ON quarantine (state, id)",
    "CREATE INDEX quarantine_expiry ON quarantine (expires_at) WHERE state = 'open' AND release_policy = 'at_expiry'",
    # What a hold binds: kind is unit, board, instance, chassis, name, identifier (nothing seen yet), or asked: the
    # node's name as it was asked for, which meets nothing.
    """CREATE TABLE hold_target (
        quarantine_id TEXT NOT NULL REFERENCES quarantine(id), kind TEXT NOT NULL, ref TEXT NOT NULL,
        is_open BIGINT NOT NULL, PRIMARY KEY (quarantine_id, kind, ref))""",
    "CREATE INDEX hold_target_open ON hold_target (kind, ref, quarantine_id) WHERE is_open = 1",
    "CREATE INDEX hold_target_ref ON hold_target (kind, ref)",
    # Which nodes rules have put out of work, and when: all that the breaker counts.
    """CREATE TABLE newly_held (
        quarantine_id TEXT NOT NULL REFERENCES quarantine(id), node_id TEXT NOT NULL REFERENCES node(id),
        opened_at BIGINT NOT NULL, profile TEXT NOT NULL, zone TEXT, PRIMARY KEY (quarantine_id, node_id))""",
    "CREATE INDEX newly_held_at ON newly_held (opened_at)",
    # Holds that rules wanted and the breaker did not let through. They bind as holds do, and block under another name.
    """CREATE TABLE withheld (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, target_kind TEXT NOT NULL, target_key TEXT NOT NULL,
        match TEXT NOT NULL, failure TEXT NOT NULL REFERENCES failure(id), reason TEXT NOT NULL,
        limited_by TEXT NOT NULL, release_policy TEXT NOT NULL, opened_at BIGINT NOT NULL, fault_at BIGINT NOT NULL,
        fault_boot TEXT, restart_at BIGINT, clean_runs BIGINT NOT NULL, ended_at BIGINT, ended_by TEXT,
        end_reason TEXT)""",
    "CREATE UNIQUE INDEX withheld_open ON withheld (target_key, owner) WHERE ended_at IS NULL",
    "CREATE INDEX withheld_failure ON withheld (failure) WHERE ended_at IS NULL",
    """CREATE TABLE withheld_target (
        withheld_id TEXT NOT NULL REFERENCES withheld(id), kind TEXT NOT NULL, ref TEXT NOT NULL,
        is_open BIGINT NOT NULL, PRIMARY KEY (withheld_id, kind, ref))""",
    "CREATE INDEX withheld_target_open ON withheld_target (kind, ref, withheld_id) WHERE is_open = 1",
    "CREATE INDEX withheld_target_ref ON withheld_target (kind, ref)",
    # --- history ------------------------------------------------------------------------------------------------
    """CREATE TABLE event (
        sequence BIGINT PRIMARY KEY, at BIGINT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL,
        prev_hash TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE INDEX event_type ON event (type, sequence)",
    """CREATE TABLE event_subject (
        kind TEXT NOT NULL, id TEXT NOT NULL, ordinal BIGINT NOT NULL, event BIGINT NOT NULL REFERENCES event(sequence),
        PRIMARY KEY (kind, id, ordinal))""",
    "CREATE INDEX event_subject_event ON event_subject (event)",
    "CREATE TABLE chain_head (id BIGINT PRIMARY KEY CHECK (id = 1), sequence BIGINT NOT NULL, hash TEXT NOT NULL)",
    f"INSERT INTO chain_head (id, sequence, hash) VALUES (1, 0, '{'0' * 64}')",
    # Roots over 2^level entries that end with entry `upto`: made at checkpoints, so that a proof reads few rows.
    """CREATE TABLE subtree (
        upto BIGINT NOT NULL, level BIGINT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (upto, level))""",
    # How far each place outside has got with the checkpoints; `event` is the last that it took.
    """CREATE TABLE sink (
        name TEXT PRIMARY KEY, event BIGINT NOT NULL, attempts BIGINT NOT NULL, retry_at BIGINT, error TEXT)""",
    # --- the service itself ---------------------------------------------------------------------------------------
    """CREATE TABLE token (
        id TEXT PRIMARY KEY, role TEXT NOT NULL, name TEXT NOT NULL, node TEXT, provider_id TEXT, profile TEXT,
        joined_with TEXT REFERENCES token(id), pattern TEXT, uses BIGINT, used BIGINT, expires_at BIGINT,
        hash TEXT NOT NULL UNIQUE, created_at BIGINT NOT NULL, created_by TEXT NOT NULL, revoked_at BIGINT,
        refusal_at BIGINT)""",
    # One instance has one token by a trade, under whichever name, whatever else goes wrong.
    """CREATE UNIQUE INDEX token_instance ON token (provider_id)
        WHERE joined_with IS NOT NULL AND revoked_at IS NULL""",
    "CREATE INDEX token_joined ON token (node, id) WHERE joined_with IS NOT NULL",
    """CREATE TABLE idempotency (
        token_id TEXT NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, status BIGINT NOT NULL,
        body TEXT NOT NULL, created_at BIGINT NOT NULL, PRIMARY KEY (token_id, route, key))""",
    "CREATE INDEX idempotency_age ON idempotency (created_at)",
    "CREATE TABLE service_life (id BIGINT PRIMARY KEY CHECK (id = 1), last_at BIGINT NOT NULL)",
    "CREATE TABLE outage (from_at BIGINT NOT NULL, to_at BIGINT PRIMARY KEY)",
    "CREATE TABLE key_fingerprint (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # Who does the background work. `token` grows with each change of hands: whoever holds an old one is too late.
    """CREATE TABLE lease (
        name TEXT PRIMARY KEY, holder TEXT NOT NULL, token BIGINT NOT NULL, until_at BIGINT NOT NULL)""",
    # Why the service is, or was, not sure of its records. While one row is open nobody is admitted.
    """CREATE TABLE alarm (
        checkpoint_hash TEXT PRIMARY KEY, cause TEXT NOT NULL, lost_from BIGINT NOT NULL, lost_to BIGINT NOT NULL,
        since_at BIGINT NOT NULL, is_open BIGINT NOT NULL, ended_at BIGINT, ended_by TEXT, end_reason TEXT)""",
    "CREATE INDEX alarm_open ON alarm (is_open) WHERE is_open = 1",
)

GUARDED = {
    "event": "history",
    "event_subject": "history",
    "subtree": "history",
    "identifier": "the list of identifiers",
}
"""Tables that only grow, and what to call them in the refusal."""

KEYS = {
    "event": (("sequence",), ("rowid",)),
    "event_subject": (("kind", "id", "ordinal"), ("rowid",)),
    "subtree": (("upto", "level"), ("rowid",)),
    "identifier": (("id",), ("is_naming = 1", "is_naming", "kind", "vendor", "type", "value"), ("rowid",)),
}
"""All that is unique in them, the number that SQLite itself gives each row included: INSERT OR REPLACE deletes every
row that is equal in one of these, without a trigger unless each connection asks for recursive ones."""


def sqlite_triggers(table: str, name: str) -> list[str]:
    """UPDATE, DELETE and replacing INSERT are refused by the database itself, whatever a connection has set."""
    keys = (" AND ".join(c if "=" in c else f"{c} = NEW.{c}" for c in columns) for columns in KEYS[table])
    same = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {key})" for key in keys)
    refuse = f"BEGIN SELECT RAISE(ABORT, '{name} only grows'); END"
    return [
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} {refuse}",
        f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} {refuse}",
        f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN {same} {refuse}",
    ]


def postgresql_triggers(table: str, name: str) -> list[str]:
    """UPDATE, DELETE and TRUNCATE are refused. The owner of the table can still drop a trigger: run as another role."""
    return [
        (
            f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION USING MESSAGE = '{name} only grows'; END $$"
        ),
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_refuse()",
        f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_refuse()",
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} EXECUTE FUNCTION {table}_refuse()",
    ]


def up(migrator: Any, db: Any) -> None:
    """Make every table, then the guards. Forward only."""
    is_sqlite = type(db).__name__.endswith("SqliteDatabase")
    for statement in TABLES:
        db.execute_sql(statement)
    guards = sqlite_triggers if is_sqlite else postgresql_triggers
    for table, name in GUARDED.items():
        for statement in guards(table, name):
            db.execute_sql(statement)
