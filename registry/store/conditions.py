# SPDX-License-Identifier: Apache-2.0
"""What is remembered of the checks of an instance that are not, or not yet long, well?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from registry.domain.condition_shown import ConditionStatus
from registry.domain.condition_words import Said, Word
from registry.domain.conditions import Record
from registry.domain.staleness import Outage
from registry.store.database import Snapshot, Transaction, from_micros, to_micros

IS_STANDING = (
    "EXISTS (SELECT 1 FROM node_condition k WHERE k.instance_id = s.instance_id "
    "AND (k.word <> 'well' OR k.since_at IS NOT NULL OR k.flaps_since IS NOT NULL))"
)
"""Whether anything is to be read for the node of a row `s` of `node_state`: SQL for its summary."""

_KEY = "instance_id, node_id, name, device_id, named"
_VALUES = (
    "word, word_since, since_at, spent, failed_at, changes, was_bad, flaps_since, reason, message, told, told_flapping"
)
_COLUMNS = f"{_KEY}, {_VALUES}, due_at"
_SAVE = (
    f"INSERT INTO node_condition ({_COLUMNS}) VALUES ({', '.join('?' * 18)}) "
    "ON CONFLICT (instance_id, name, device_id, named) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in f"{_VALUES}, due_at".split(", "))
)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Failed:
    """A condition that the history knows as a failure, and where. `device_id` is None for one of the node."""

    node_id: str
    node: str
    instance_id: str
    name: str
    device_id: str | None
    failed_at: datetime | None


def records_of(snapshot: Snapshot, instance_id: str) -> list[Record]:
    """Return what is remembered of an instance, in the order of names."""
    rows = snapshot.all(
        f"SELECT name, device_id, named, {_VALUES} FROM node_condition WHERE instance_id = ? "
        "ORDER BY name, device_id, named",
        (instance_id,),
    )
    return [_read(*row) for row in rows]


def _read(name: str, device: str, named: str, word: str, word_since: int, *more: Any) -> Record:
    since, spent, failed, changes, was_bad, flaps, reason, message, told, flapping = more
    return Record(
        name=name,
        device_id=device or None,
        named=named or None,
        word=Word(word),
        word_since=from_micros(word_since),
        since=from_micros(since),
        spent=spent * _MICROSECOND,
        failed_at=from_micros(failed),
        changes=tuple(from_micros(one) for one in json.loads(changes)),
        was_bad=bool(was_bad),
        flaps_since=from_micros(flaps),
        said=Said(reason, message),
        told=ConditionStatus(told) if told else None,
        told_flapping=ConditionStatus(flapping) if flapping else None,
    )


def save_record(tx: Transaction, instance_id: str, node_id: str, record: Record, *, due_at: datetime | None) -> None:
    """Write what is remembered of one check."""
    values = (
        *(instance_id, node_id, record.name, record.device_id or "", record.named or ""),
        *(str(record.word), to_micros(record.word_since), to_micros(record.since), record.spent // _MICROSECOND),
        *(to_micros(record.failed_at), json.dumps([to_micros(one) for one in record.changes])),
        *(int(record.was_bad), to_micros(record.flaps_since), record.said.reason, record.said.message),
        *(record.told and str(record.told), record.told_flapping and str(record.told_flapping), to_micros(due_at)),
    )
    tx.execute(_SAVE, values)


def forget_record(tx: Transaction, instance_id: str, record: Record) -> None:
    """Forget one check."""
    tx.execute(
        "DELETE FROM node_condition WHERE instance_id = ? AND name = ? AND device_id = ? AND named = ?",
        (instance_id, record.name, record.device_id or "", record.named or ""),
    )


def nodes_due(snapshot: Snapshot, now: datetime, *, limit: int) -> list[str]:
    """Return our ids of nodes for which something has come about by itself, those that wait longest first."""
    rows = snapshot.all(
        "SELECT node_id FROM (SELECT node_id, MIN(due_at) AS due FROM node_condition WHERE due_at <= ? "
        "GROUP BY node_id) AS found ORDER BY due, node_id LIMIT ?",
        (to_micros(now), limit),
    )
    return [row[0] for row in rows]


def look_again(tx: Transaction, node_id: str | None = None) -> None:
    """Let the conditions of a node, or all, be judged anew soon: their timers may run differently from now on."""
    now = to_micros(tx.now)
    one, params = ("", (now, now)) if node_id is None else ("AND node_id = ?", (now, now, node_id))
    tx.execute(f"UPDATE node_condition SET due_at = ? WHERE (due_at IS NULL OR due_at > ?) {one}", params)


def left_out(snapshot: Snapshot, node_id: str, since: datetime) -> tuple[Outage, ...]:
    """Return the times after `since` in which no timer of a node runs: our own outages, and its maintenance."""
    moment = to_micros(since)
    rows = snapshot.all(
        "SELECT from_at, to_at FROM outage WHERE to_at > ? "
        "UNION ALL SELECT from_at, until_at FROM maintenance WHERE node_id = ? AND until_at > ? "
        "UNION ALL SELECT maintenance_from, maintenance_until FROM node WHERE id = ? AND maintenance_until > ?",
        (moment, node_id, moment, node_id, moment),
    )
    return tuple(Outage(from_micros(start), from_micros(end)) for start, end in rows if start < end)


def list_failed(snapshot: Snapshot) -> list[Failed]:
    """Return all that the history knows as failures now, in the order of nodes and names.

    Of a check that only comes and goes the name is that of its flapping.
    """
    rows = snapshot.all(
        "SELECT k.node_id, n.name, k.instance_id, k.name, k.device_id, k.failed_at FROM node_condition k "
        "JOIN node n ON n.id = k.node_id WHERE k.told = 'failure' "
        "UNION ALL SELECT k.node_id, n.name, k.instance_id, k.name || '.flapping', k.device_id, NULL "
        "FROM node_condition k JOIN node n ON n.id = k.node_id WHERE k.told_flapping = 'failure' ORDER BY 1, 4, 5"
    )
    return [Failed(id_, node, life, name, unit or None, from_micros(at)) for id_, node, life, name, unit, at in rows]
