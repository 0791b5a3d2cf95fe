# SPDX-License-Identifier: Apache-2.0
"""Which nodes are there, which life and boot of each is current, and what did its own reports last say?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from registry.domain.checks import CheckState
from registry.store.check_column import dump_checks, load_checks
from registry.store.column_json import dump, load
from registry.store.database import Snapshot, Transaction, from_micros, new_id, to_micros
from registry.store.devices import in_chunks


@dataclass(frozen=True, slots=True)
class Node:
    """A name under which machines appear."""

    id: str
    name: str
    registered_at: datetime
    retired_at: datetime | None
    maintenance_from: datetime | None
    maintenance_until: datetime | None
    maintenance_reason: str | None


@dataclass(frozen=True, slots=True)
class Instance:
    """One life of a node."""

    id: str
    node_id: str
    provider_id: str
    started_at: datetime
    ended_at: datetime | None
    chassis: str | None


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of an instance."""

    id: str
    instance_id: str
    boot_id: str
    started_at: datetime


@dataclass(slots=True)
class NodeState:
    """The row that a node's own reports rewrite, and nothing but they.

    `listed` holds per kind what the last list amounted to and when the first of this boot came, `readings` what was
    read from its devices, `runs` the newest rounds of checks, `passes` the ids of counted runs, their stamps and the
    per-boot checks that came clean.
    `digest` maps the kinds a message spoke for to the digest of what it said, with the results derived from it: the
    same said again is an unchanged report. `version` counts the writes of the row, by whomever.
    """

    node_id: str
    instance_id: str
    boot_id: str
    profile: str
    zone: str | None
    seq: int | None
    reported_at: datetime
    version: int = 0
    have: int = 0
    counted_start: datetime | None = None
    counted_end: datetime | None = None
    counted_total: int = 0
    fault_at: datetime | None = None
    release_at: datetime | None = None
    digest: dict[str, dict[str, Any]] = field(default_factory=dict)
    checks: dict[str, CheckState] = field(default_factory=dict)
    listed: dict[str, dict[str, Any]] = field(default_factory=dict)
    passes: dict[str, list[str]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    receipts: str = ""
    readings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


_NODE = "id, name, registered_at, retired_at, maintenance_from, maintenance_until, maintenance_reason"
_INSTANCE = "id, node_id, provider_id, started_at, ended_at, chassis"
STATE_FIELDS = tuple(one.name for one in fields(NodeState))
"""The columns of the row that a node's reports rewrite, in the order of the fields of `NodeState`."""

_STATE = ", ".join(STATE_FIELDS)
_STATE_BY_NAME = (
    f"SELECT {', '.join(f's.{name}' for name in STATE_FIELDS)} FROM node n JOIN node_state s ON s.node_id = n.id "
    "WHERE n.name = ? AND n.retired_at IS NULL"
)
_TIMES = ("reported_at", "counted_start", "counted_end", "fault_at", "release_at")
_JSON = ("digest", "listed", "passes", "runs", "readings")

_HEARTBEAT = (
    *("seq", "reported_at", "have", "counted_start", "counted_end", "counted_total"),
    *("checks", "passes", "runs", "receipts", "readings"),
)
_MOVE_ON = (
    f"UPDATE node_state SET {', '.join(f'{name} = ?' for name in _HEARTBEAT)}, version = version + 1 "
    "WHERE node_id = ? AND version = ?"
)
# PostgreSQL reads at the end of a transaction whether it has to wait for the disk. Asked for in the statement itself,
# this is one trip to the server and not three: https://www.postgresql.org/docs/current/functions-admin.html, set_config
_SAVE_HEARTBEAT = {
    "sqlite": _MOVE_ON,
    "postgresql": f"{_MOVE_ON} AND set_config('synchronous_commit', 'off', true) = 'off'",
}
Heartbeat = tuple[object, ...]
"""The values of what an unchanged report moves on, then the node's id and the version that was read."""


def find_node(snapshot: Snapshot, name: str) -> Node | None:
    """Return the node of this name, retired or not."""
    return _node(snapshot.one(f"SELECT {_NODE} FROM node WHERE name = ?", (name,)))


def ids_of(snapshot: Snapshot, names: Iterable[str]) -> dict[str, str]:
    """Return our ids of the nodes of these names that there are, retired ones included, by name."""
    return dict(in_chunks(snapshot, lambda marks: f"SELECT name, id FROM node WHERE name IN ({marks})", names))


def get_node_by_id(snapshot: Snapshot, node_id: str) -> Node | None:
    """Return the node with our id."""
    return _node(snapshot.one(f"SELECT {_NODE} FROM node WHERE id = ?", (node_id,)))


def _node(row: tuple[Any, ...] | None) -> Node | None:
    if row is None:
        return None
    id_, name, registered, retired, since, until, reason = row
    at = from_micros
    return Node(id_, name, at(registered), at(retired), at(since), at(until), reason)


def insert_node(tx: Transaction, name: str) -> Node:
    """Make the node's record."""
    node = Node(new_id(tx.now), name, tx.now, None, None, None, None)
    tx.execute("INSERT INTO node (id, name, registered_at) VALUES (?, ?, ?)", (node.id, name, to_micros(tx.now)))
    return node


def set_node(tx: Transaction, node_id: str, **changes: object) -> None:
    """Write some columns of the node's row; times are datetimes."""
    columns = ", ".join(f"{name} = ?" for name in changes)
    values = [to_micros(value) if isinstance(value, datetime) else value for value in changes.values()]
    tx.execute(f"UPDATE node SET {columns} WHERE id = ?", (*values, node_id))


def host_of(snapshot: Snapshot, node_id: str) -> dict[str, dict[str, str]]:
    """Return what each source said of the node's host, usable values only."""
    host: dict[str, dict[str, str]] = {}
    for source, name, value in snapshot.all("SELECT source, name, value FROM host_value WHERE node_id = ?", (node_id,)):
        host.setdefault(source, {})[name] = value
    return host


def save_host_value(tx: Transaction, node_id: str, source: str, name: str, value: str) -> None:
    """Keep what one source says of the host."""
    tx.execute(
        "INSERT INTO host_value (node_id, source, name, value) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (node_id, source, name) DO UPDATE SET value = excluded.value",
        (node_id, source, name, value),
    )


def nodes_sharing(snapshot: Snapshot, name: str, value: str, *, besides: str) -> list[str]:
    """Return the names of other nodes, not retired, whose host gives the same value."""
    rows = snapshot.all(
        "SELECT DISTINCT n.name FROM host_value h JOIN node n ON n.id = h.node_id "
        "WHERE h.value = ? AND h.name = ? AND n.id <> ? AND n.retired_at IS NULL ORDER BY n.name LIMIT 8",
        (value, name, besides),
    )
    return [row[0] for row in rows]


def find_instance(snapshot: Snapshot, node_id: str, provider_id: str) -> Instance | None:
    """Return the life of this node that bears this provider id."""
    row = snapshot.one(
        f"SELECT {_INSTANCE} FROM instance WHERE node_id = ? AND provider_id = ?", (node_id, provider_id)
    )
    return _instance(row)


def get_instance(snapshot: Snapshot, instance_id: str) -> Instance:
    """Return the instance with our id, which must exist."""
    found = _instance(snapshot.one(f"SELECT {_INSTANCE} FROM instance WHERE id = ?", (instance_id,)))
    assert found is not None  # noqa: S101 - a foreign key points at it
    return found


def _instance(row: tuple[Any, ...] | None) -> Instance | None:
    if row is None:
        return None
    id_, node_id, provider_id, started, ended, chassis = row
    return Instance(id_, node_id, provider_id, from_micros(started), from_micros(ended), chassis)


def insert_instance(tx: Transaction, node_id: str, provider_id: str) -> Instance:
    """Begin a life of the node."""
    instance = Instance(new_id(tx.now), node_id, provider_id, tx.now, None, None)
    tx.execute(
        "INSERT INTO instance (id, node_id, provider_id, ordinal, started_at) VALUES (?, ?, ?, "
        "(SELECT COUNT(*) + 1 FROM instance WHERE node_id = ?), ?)",
        (instance.id, node_id, provider_id, node_id, to_micros(tx.now)),
    )
    return instance


def end_instance(tx: Transaction, instance_id: str) -> None:
    """End a life: another instance bears the name now."""
    tx.execute("UPDATE instance SET ended_at = ? WHERE id = ?", (to_micros(tx.now), instance_id))


def set_chassis(tx: Transaction, instance_id: str, chassis: str) -> None:
    """Note the serial of the chassis this instance runs in."""
    tx.execute("UPDATE instance SET chassis = ? WHERE id = ?", (chassis, instance_id))


def find_boot(snapshot: Snapshot, instance_id: str, boot_id: str) -> Boot | None:
    """Return the boot of this instance that the node calls by this id."""
    row = snapshot.one(
        "SELECT id, instance_id, boot_id, started_at FROM boot WHERE instance_id = ? AND boot_id = ?",
        (instance_id, boot_id),
    )
    return Boot(row[0], row[1], row[2], from_micros(row[3])) if row else None


def is_current_boot(snapshot: Snapshot, name: str, boot_id: str) -> bool:
    """Is this the boot of which the newest reports of the node of this name are?"""
    row = snapshot.one(
        "SELECT 1 FROM node n JOIN node_state s ON s.node_id = n.id JOIN boot b ON b.id = s.boot_id "
        "WHERE n.name = ? AND b.boot_id = ?",
        (name, boot_id),
    )
    return row is not None


def get_boot(snapshot: Snapshot, row_id: str) -> Boot:
    """Return the boot with our id, which must exist."""
    row = snapshot.one("SELECT id, instance_id, boot_id, started_at FROM boot WHERE id = ?", (row_id,))
    assert row is not None  # noqa: S101 - a foreign key points at it
    return Boot(row[0], row[1], row[2], from_micros(row[3]))


def insert_boot(tx: Transaction, instance_id: str, boot_id: str) -> Boot:
    """Begin a boot."""
    boot = Boot(new_id(tx.now), instance_id, boot_id, tx.now)
    tx.execute(
        "INSERT INTO boot (id, instance_id, boot_id, ordinal, started_at) VALUES (?, ?, ?, "
        "(SELECT COUNT(*) + 1 FROM boot WHERE instance_id = ?), ?)",
        (boot.id, instance_id, boot_id, instance_id, to_micros(tx.now)),
    )
    return boot


def had_earlier_boot(snapshot: Snapshot, node_id: str, boot: Boot) -> bool:
    """Return True when the node was up under another boot before this one."""
    row = snapshot.one(
        "SELECT 1 FROM boot b JOIN instance i ON i.id = b.instance_id WHERE i.node_id = ? AND b.id <> ? LIMIT 1",
        (node_id, boot.id),
    )
    return row is not None


def find_state(snapshot: Snapshot, node_id: str, *, lock: bool = False) -> NodeState | None:
    """Return what the node's reports last said; with `lock`, nobody else changes it until the transaction ends."""
    suffix = " FOR UPDATE" if lock and snapshot.engine == "postgresql" else ""
    row = snapshot.one(f"SELECT {_STATE} FROM node_state WHERE node_id = ?{suffix}", (node_id,))
    return read_state(row) if row else None


def find_state_by_name(snapshot: Snapshot, name: str) -> NodeState | None:
    """Return what the reports of the node of this name last said; None for one that is retired."""
    row = snapshot.one(_STATE_BY_NAME, (name,))
    return read_state(row) if row else None


def read_state(row: tuple[Any, ...]) -> NodeState:
    """Read the columns `STATE_FIELDS` of a node's row."""
    values = dict(zip(STATE_FIELDS, row, strict=True))
    for name in _TIMES:
        values[name] = from_micros(values[name])
    for name in _JSON:
        values[name] = load(values[name])
    values["checks"] = load_checks(values["checks"])
    return NodeState(**values)


def save_state(tx: Transaction, state: NodeState) -> None:
    """Write the whole row."""
    columns = ", ".join(f"{name} = excluded.{name}" for name in STATE_FIELDS[1:] if name != "version")
    marks = ", ".join("?" for _ in STATE_FIELDS)
    tx.execute(
        f"INSERT INTO node_state ({_STATE}) VALUES ({marks}) ON CONFLICT (node_id) DO UPDATE SET {columns}, "
        "version = node_state.version + 1",
        tuple(_stored(state, name) for name in STATE_FIELDS),
    )


def save_heartbeats(tx: Transaction, moved: Sequence[Heartbeat]) -> list[bool]:
    """Write what unchanged reports move on; the nodes' other columns stay as they are.

    False, and nothing written, for a node whose row anybody has written since it was read.
    """
    sql = _SAVE_HEARTBEAT[tx.engine]
    return [bool(tx.execute(sql, one).rowcount) for one in moved]


def heartbeat_of(state: NodeState) -> Heartbeat:
    """Return what `save_heartbeats` writes of a node, made where nobody waits for it."""
    return (*(_stored(state, name) for name in _HEARTBEAT), state.node_id, state.version)


def _stored(state: NodeState, name: str) -> object:
    value = getattr(state, name)
    if name in _TIMES:
        return None if value is None else to_micros(value)
    if name in _JSON:
        return dump(value)
    return dump_checks(value) if name == "checks" else value


def forget_digest(tx: Transaction, *, node_id: str) -> None:
    """Let the next report of a node be looked at in full: something else than its own reports changed what it means."""
    tx.execute("UPDATE node_state SET digest = '{}', version = version + 1 WHERE node_id = ?", (node_id,))


def names_of_machines(snapshot: Snapshot, machine: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names of the nodes whose current instance is, or stands in, any of these: instance, chassis, name."""
    column = {"instance": "i.provider_id", "chassis": "i.chassis", "name": "n.name"}
    rows = [
        row
        for kind, ref in machine
        for row in snapshot.all(
            "SELECT n.name FROM instance i JOIN node_state s ON s.instance_id = i.id JOIN node n ON n.id = s.node_id "
            f"WHERE {column[kind]} = ?",
            (ref,),
        )
    ]
    return sorted({row[0] for row in rows})


def find_last_report(snapshot: Snapshot, node_id: str) -> datetime | None:
    """Return when a node reported last; None for one that never did or is retired."""
    row = snapshot.one(
        "SELECT s.reported_at FROM node n JOIN node_state s ON s.node_id = n.id "
        "WHERE n.id = ? AND n.retired_at IS NULL",
        (node_id,),
    )
    return from_micros(row[0]) if row else None


def out_of_maintenance(snapshot: Snapshot, now: datetime) -> list[Node]:
    """Return the nodes whose maintenance is over and not ended in the records yet."""
    rows = snapshot.all(f"SELECT {_NODE} FROM node WHERE maintenance_until <= ? ORDER BY id", (to_micros(now),))
    return [found for row in rows if (found := _node(row))]
