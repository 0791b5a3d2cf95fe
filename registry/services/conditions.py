# SPDX-License-Identifier: Apache-2.0
"""Which conditions stand on a node now? Judged at the read, so that no answer waits for anybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from registry.domain.checks import CheckState, kind_of
from registry.domain.condition_shown import Condition, worst_first
from registry.domain.condition_words import BLIND, Said, Word, words_of
from registry.domain.conditions import Judge, News, Record
from registry.domain.decision import DeviceRef
from registry.domain.policy import Policy
from registry.domain.staleness import moment_after
from registry.store import conditions as store
from registry.store import devices, placements
from registry.store.database import Snapshot

SILENT = Said(BLIND, "the node does not report")


def standing_on(
    snapshot: Snapshot,
    node_id: str,
    instance_id: str,
    *,
    reported_at: datetime,
    checks: Mapping[str, CheckState],
    policy: Policy,
    now: datetime,
) -> tuple[Condition, ...]:
    """Give the conditions of an instance that are not ok at `now`, the worst first.

    `checks` are those of its current boot, whose newest words are told; a node that is silent by now is told as one
    that nobody can look at since it went silent.
    """
    records = store.records_of(snapshot, instance_id)
    if not records:
        return ()
    judge = judge_for(snapshot, node_id, records, policy)
    silent_at = goes_silent_at(judge, reported_at)
    refs = _refs(snapshot, instance_id, records)
    found: list[Condition] = []
    for record in records:
        seen = fallen_silent(judge, record, silent_at)[0] if silent_at < now else record
        device = _device(record, refs)
        told = _said_now(checks, seen, device)
        for one in judge.standing(seen, now):
            said = told if told and one.name == record.name else Said(one.reason, one.message)
            found.append(replace(one, device=device, reason=said.reason, message=said.message))
    return tuple(worst_first(found))


def judge_for(snapshot: Snapshot, node_id: str, records: Sequence[Record], policy: Policy) -> Judge:
    """Make the judge of what is remembered of a node, who knows which times are left out."""
    begins = [moment for one in records for moment in (one.word_since, one.flaps_since) if moment]
    return Judge(policy, store.left_out(snapshot, node_id, min(begins)))


def goes_silent_at(judge: Judge, reported_at: datetime) -> datetime:
    """Give the moment from which a node that reported last at `reported_at` counts as silent."""
    return moment_after(reported_at, timedelta(seconds=judge.policy.report_stale_seconds), judge.left_out)


def fallen_silent(judge: Judge, record: Record, at: datetime) -> tuple[Record, tuple[News, ...]]:
    """Let nobody have looked since `at` at what was in trouble; what was well is not made unknown by silence."""
    is_trouble = record.since is not None or record.word is Word.BAD
    return judge.hear(record, Word.UNKNOWN, SILENT, max(at, record.word_since)) if is_trouble else (record, ())


def _device(record: Record, refs: Mapping[str, DeviceRef]) -> DeviceRef | None:
    if record.device_id is not None:
        return refs.get(record.device_id, DeviceRef(record.device_id))
    return DeviceRef.named(record.named, kind_of(record.name)) if record.named else None


def _refs(snapshot: Snapshot, instance_id: str, records: Sequence[Record]) -> dict[str, DeviceRef]:
    ids = [one.device_id for one in records if one.device_id]
    if not ids:
        return {}
    slots = {one.device_id: one.slot for one in placements.open_here(snapshot, instance_id)}
    units = devices.get_devices(snapshot, ids)
    return {id_: DeviceRef(id_, one.kind, one.serial, one.uuid, slots.get(id_)) for id_, one in units.items()}


def _said_now(checks: Mapping[str, CheckState], record: Record, device: DeviceRef | None) -> Said | None:
    """What the check says by now, if it still says the same word: its reason may be another than when it began."""
    check = checks.get(record.name)
    if check is None or record.word is Word.WELL:
        return None
    heard = words_of(check)
    names = {None} if device is None else {device.id, device.serial, device.uuid, device.slot} - {None}
    said = [heard.named[name] for name in sorted(names, key=str) if name in heard.named]
    return next((one for word, one in said if word is record.word), None)
