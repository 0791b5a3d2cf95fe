# SPDX-License-Identifier: Apache-2.0
"""What do the checks of a node change in its conditions, and what comes about with nobody asking?

Whatever changes writes its event. The worker escalates in time; an answer never waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from registry.domain.actors import SYSTEM, Actor
from registry.domain.checks import CLEAN, CheckState
from registry.domain.condition_words import BLIND, Heard, Said, Word, words_of
from registry.domain.conditions import Judge, Record, ended
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus
from registry.services.condition_news import tell
from registry.services.conditions import fallen_silent, goes_silent_at, judge_for
from registry.services.evidence import Places
from registry.services.lives import Arrival
from registry.store import conditions as store
from registry.store import nodes, placements
from registry.store.database import Database, Transaction
from registry.store.nodes import Node

RECORDS_MAX = 256
"""Conditions of one instance that are remembered: four for each of 64 devices; a node gone wild must not fill a table.
"""

NODES_AT_ONCE = 500
"""Nodes that one round of the worker looks at, so that its transaction ends soon; the rest has its turn in the next."""

Key: TypeAlias = tuple[str, str | None, str | None]
"""Of a record: its name, unit and text."""

_NOT_LOOKED = Said(BLIND, "nobody has looked in this boot yet")
_MISSING = Said(BLIND, "the device is missing")


def note(tx: Transaction, arrival: Arrival, actor: Actor, policy: Policy) -> None:
    """Let the conditions of a node follow the checks of its report, whose states are up to date."""
    node, instance_id = arrival.node, arrival.instance.id
    before = {one.key: one for one in store.records_of(tx, instance_id)}
    checks = arrival.state.checks
    troubled = {name: words_of(one) for name, one in checks.items() if one.status not in CLEAN}
    if not before and not troubled:
        return
    here = _Here(tx, arrival, troubled, before.values())
    wanted = here.words(troubled)
    records = here.adopt(before)
    for key in [key for key, (word, _) in wanted.items() if word is not Word.WELL and key not in records]:
        if len(records) < RECORDS_MAX:
            name, device_id, named = key
            records[key] = Record(name, Word.WELL, tx.now, device_id, named)
    if not records:
        return
    judge = judge_for(tx, node.id, list(records.values()), policy)
    after: dict[Key, Record] = {}
    for key, record in records.items():
        if here.is_gone(record):
            tell(tx, node, record, ended(record, tx.now), actor, why="device_gone")
            continue
        word, said = wanted.get(key) or here.unnamed(record, checks, troubled)
        after[key], news = judge.hear(record, word, said, tx.now)
        tell(tx, node, after[key], news, actor)
    _save(tx, node, instance_id, before, after, judge)


def fall_silent(tx: Transaction, arrival: Arrival, policy: Policy) -> None:
    """Note of a node that reports again after a silence that nobody could look meanwhile.

    To be called before the time of its last report is overwritten.
    """
    instance_id = arrival.instance.id
    before = {one.key: one for one in store.records_of(tx, instance_id)}
    if before:
        _bring_up(tx, arrival.node, instance_id, before, arrival.state.reported_at, policy)


def escalate(db: Database, *, policy: Policy, now: datetime, afresh: bool = False) -> None:
    """Write the events of what has lasted its time, or is over. Any number of processes may call it.

    `afresh`, all that is remembered is judged anew, because it may have been under another policy.
    """
    if afresh:
        with db.write(now) as tx:
            store.look_again(tx)
    with db.read() as snapshot:
        due = store.nodes_due(snapshot, now, limit=NODES_AT_ONCE)
    if not due:
        return
    with db.write(now) as tx:
        for node_id in sorted(due):
            node, state = nodes.get_node_by_id(tx, node_id), nodes.find_state(tx, node_id, lock=True)
            before = {one.key: one for one in store.records_of(tx, state.instance_id)} if state else {}
            if node is not None and state is not None and before:
                _bring_up(tx, node, state.instance_id, before, state.reported_at, policy)


# --- one node -----------------------------------------------------------------------------------------------------


def _bring_up(
    tx: Transaction, node: Node, instance_id: str, before: Mapping[Key, Record], reported_at: datetime, policy: Policy
) -> None:
    """Bring the records of a node up to now, without a new word of it."""
    judge = judge_for(tx, node.id, list(before.values()), policy)
    silent_at = goes_silent_at(judge, reported_at)
    after: dict[Key, Record] = {}
    for key, record in before.items():
        silenced, news = fallen_silent(judge, record, silent_at) if silent_at < tx.now else (record, ())
        after[key], more = judge.catch_up(silenced, tx.now)
        tell(tx, node, after[key], (*news, *more), SYSTEM)
    # All are written: what is as before may be due at another time, because we were away.
    _save(tx, node, instance_id, before, after, judge, is_due_anew=True)


def _save(
    tx: Transaction,
    node: Node,
    instance_id: str,
    before: Mapping[Key, Record],
    after: Mapping[Key, Record],
    judge: Judge,
    *,
    is_due_anew: bool = False,
) -> None:
    """Write what is another than before, and forget what is not worth remembering."""
    kept = {key: one for key, one in after.items() if not judge.is_forgotten(one)}
    for key in before.keys() - kept.keys():
        store.forget_record(tx, instance_id, before[key])
    for key, record in kept.items():
        if is_due_anew or before.get(key) != record:
            store.save_record(tx, instance_id, node.id, record, due_at=judge.due_at(record))


class _Here:
    """What is placed on the instance of a report, and which unit each text of its checks means."""

    def __init__(
        self, tx: Transaction, arrival: Arrival, troubled: Mapping[str, Heard], records: Iterable[Record]
    ) -> None:
        texts = {text for heard in troubled.values() for text in heard.named if text}
        is_asked = bool(texts) or any(one.device_id for one in records)
        placed = placements.open_here(tx, arrival.instance.id) if is_asked else []
        self._missing = {one.device_id: one.missing_since is not None for one in placed}
        asked = [CheckResult("", CheckStatus.FAIL, device=text) for text in sorted(texts)]
        found = Places(tx, arrival).put(asked) if asked else ()
        self._units = {one.device: device.id for device, _, one in found}

    def words(self, troubled: Mapping[str, Heard]) -> dict[Key, tuple[Word, Said]]:
        """Give what is said of each device that is named. Of two texts for one unit the worse counts."""
        said: dict[Key, tuple[Word, Said]] = {}
        for name, heard in troubled.items():
            for text in sorted(heard.named, key=str):
                unit = self._units.get(text)
                key = (name, unit, None if unit else text)
                word = heard.named[text]
                said[key] = word if key not in said or word[0] is Word.BAD else said[key]
        return said

    def adopt(self, before: Mapping[Key, Record]) -> dict[Key, Record]:
        """Give the records; one of a text that is known by now as a unit goes on as that of the unit."""
        adopted: dict[Key, Record] = {}
        for (name, device_id, named), record in before.items():
            unit = self._units.get(named) if named else None
            if unit is None or (name, unit, None) in before:
                adopted[name, device_id, named] = record
            else:
                adopted[name, unit, None] = replace(record, device_id=unit, named=None)
        return adopted

    def is_gone(self, record: Record) -> bool:
        """Tell whether the device of a record is placed here no more."""
        return record.device_id is not None and record.device_id not in self._missing

    def unnamed(
        self, record: Record, checks: Mapping[str, CheckState], troubled: Mapping[str, Heard]
    ) -> tuple[Word, Said]:
        """Give what is said of a device that its check does not name. What was well is not made unknown by silence."""
        if record.name not in checks:
            word, said = Word.UNKNOWN, _NOT_LOOKED
        elif self._missing.get(record.device_id or "", False):
            word, said = Word.UNKNOWN, _MISSING
        else:
            heard = troubled.get(record.name)
            word, said = (heard.others if heard else Word.WELL), _NOT_LOOKED
        is_trouble = record.since is not None or record.word is not Word.WELL
        return (word, said) if is_trouble or word is not Word.UNKNOWN else (record.word, record.said)
