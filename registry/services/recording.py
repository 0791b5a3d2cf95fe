# SPDX-License-Identifier: Apache-2.0
"""How is a fault put on record, is it one more sight of one that is there, and does it have any effect?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.events import Draft, EventType
from registry.domain.failures import INJECTED, MAINTENANCE, Effect, FailureKind
from registry.domain.policy import Policy
from registry.domain.reports import ReportedFailure
from registry.domain.times import rfc3339_or_none
from registry.services.effects import take_effect
from registry.services.job_revisions import note_fault
from registry.services.locating import Located
from registry.services.ruling import ask_rules
from registry.services.subjects import of_devices, told
from registry.store import failures, nodes, sights
from registry.store.database import Transaction, new_id
from registry.store.devices import Device
from registry.store.failures import Failure
from registry.store.maintenance import was_in_maintenance
from registry.store.sights import Told

SAME_LINE = timedelta(seconds=2)
"""How far apart one line of a log may be in two readings: dmesg adds the time since boot to a boot time that it makes
anew at each run, of a clock that is being set (https://man7.org/linux/man-pages/man1/dmesg.1.html, `--ctime`)."""


@dataclass(frozen=True, slots=True)
class Message:
    """A fault as it was told, and where it belongs. `is_of_report`: a report carried it, so its boot is certain."""

    reported: ReportedFailure
    located: Located
    actor: Actor
    id_scope: str
    digest: str
    is_of_report: bool

    @property
    def boot_id(self) -> str | None:
        """The boot that it is certainly of."""
        boot = self.located.boot
        is_certain = self.is_of_report or (self.located.is_of_boot and not self.located.is_past)
        return boot.id if boot and is_certain else None


def put_on_record(tx: Transaction, told: Message, policy: Policy) -> Failure:
    """Record a fault of which nothing was told under this id, or count it where it is on record already."""
    reported, located = told.reported, told.located
    at = _seen_at(tx, reported)
    muted = _why_muted(tx, reported, located, at)
    kind = policy.look_up(reported.code)
    if muted is not None:
        kind = replace(kind, effect=Effect.RECORD)
    seen = _same_line(tx, reported, located, told.boot_id, muted)
    if seen is None and located.device is not None:
        seen = failures.find_same(
            tx,
            reported.code,
            located.device.id,
            boot_id=told.boot_id,
            occurred_at=reported.occurred_at,
            effect=kind.effect,
            muted=muted,
        )
    if seen is not None:
        return _again(tx, seen, told, kind, at, policy)
    failure = _failure(tx, told, kind, muted)
    failures.insert_failure(tx, failure)
    sights.insert_told(tx, _told(failure, told, at, reported.count))
    record_event(tx, failure, located.device, located.node, told.actor)
    note_fault(tx, failure, _first_at(reported, at), at, policy)
    take_effect(tx, _seen(failure, reported, at, told.boot_id), located, kind, told.actor, policy)
    return failure


def _again(tx: Transaction, seen: Failure, told: Message, kind: FailureKind, at: datetime, policy: Policy) -> Failure:
    """A boot shows a fault that it has shown before: one fault, counted, whose newest sight has effect.

    The same time again is the same sight, and an older one only completes what rules count. What somebody has withdrawn
    stays withdrawn. The message of a person is kept in any case, so that its id is its own.
    """
    reported = told.reported
    give = SAME_LINE if told.is_of_report else timedelta(0)
    is_dated, lines = reported.occurred_at is not None, _lines(reported)
    # Lines of which both times since boot are known are told apart by these, however near they are.
    has_line = lines is not None and told.boot_id is not None
    is_known = seen.state != "active" or (is_dated and sights.is_seen_at(tx, seen, at, give=give, has_line=has_line))
    is_known = is_known or _same_line(tx, reported, told.located, told.boot_id, seen.muted) is not None
    # The same burst, read again when it had gone on: what it counted then is counted.
    first_at = _first_at(reported, at)
    before = sights.count_within(tx, seen, first_at, at, give=give, has_line=has_line) if give and is_dated else 0
    before = max(before, sights.count_lines(tx, seen, *lines)) if lines else before
    times = 0 if is_known else max(1, reported.count - before)
    if times or not told.is_of_report:  # a log that is read all day would fill the table with one line
        sights.insert_told(tx, _told(seen, told, at, times))
    counted = sights.count_again(tx, seen, at, times) if times else seen
    if times:
        note_fault(tx, counted, first_at, at, policy)
    newest = _seen(counted, reported, at, told.boot_id)
    if not told.is_of_report:  # a log repeats itself at every report; what somebody comes to tell is an act of theirs
        more = {"count": counted.count, "failure_id": reported.failure_id}
        record_event(tx, newest, told.located.device, told.located.node, told.actor, more)
    if is_known or (told.located.is_past and kind.effect is not Effect.PERMANENT):
        return counted
    if at > seen.last_at:
        take_effect(tx, newest, told.located, kind, told.actor, policy)
    elif newest.muted is None:
        ask_rules(tx, newest, kind, told.located, policy)
    return counted


def _lines(reported: ReportedFailure) -> tuple[int, int] | None:
    """Between which times since the boot its lines are. Those of a log of an earlier boot count from another one."""
    return None if (reported.evidence or {}).get("earlier_boot") else reported.uptimes


def _same_line(
    tx: Transaction, reported: ReportedFailure, located: Located, boot_id: str | None, muted: str | None
) -> Failure | None:
    """Return the failure to which the newest of these lines was put, by whichever reader of the log and with any date.

    An agent dates a line when it is written; `dmesg` may not, and the journal does by its own clock. The kernel counts
    the time since boot once: it tells lines apart to the microsecond.
    """
    lines = _lines(reported)
    if located.device is None or boot_id is None or lines is None:
        return None
    return sights.find_line(tx, reported.code, located.device.id, boot_id, lines[1], muted=muted)


def go_on(
    tx: Transaction, known: Told, reported: ReportedFailure, located: Located, actor: Actor, policy: Policy
) -> Failure:
    """A burst that was told before has gone on.

    What outlasts the maintenance that muted it, or comes again after somebody has withdrawn what was told of it, is a
    fault from then on.
    """
    at, times = _seen_at(tx, reported), max(1, reported.count - known.said)
    if _same_line(tx, reported, located, known.failure.boot_id, known.failure.muted) is not None:
        sights.note_told(tx, known, at, times)  # another reader of the log was faster
        return known.failure
    is_outlasting = known.failure.muted == MAINTENANCE and _why_muted(tx, reported, located, at) is None
    if is_outlasting or known.failure.state != "active":
        sights.note_told(tx, known, at, times)
        later = replace(
            reported,
            failure_id=f"{reported.failure_id[:230]}-{known.said + times}",
            occurred_at=at if reported.occurred_at else None,
            slow_by=timedelta(0),
            count=times,
        )
        told = Message(later, located, actor, known.id_scope, known.digest, is_of_report=located.boot is not None)
        return put_on_record(tx, told, policy)
    said, lines = known.said + times, _lines(reported)
    if lines is not None and known.uptimes is not None:  # a reader that began later has counted some of them
        times = max(1, times - sights.count_lines(tx, known.failure, known.uptimes[1] + 1, lines[1]))
    counted = sights.grow(tx, known, at, times, said, lines)
    note_fault(tx, counted, known.at, at, policy)
    if counted.state == "active" and (not located.is_past or counted.effect == Effect.PERMANENT):
        kind = replace(policy.look_up(reported.code), effect=Effect(counted.effect))
        boot_id = located.boot.id if located.boot and located.is_of_boot else None
        take_effect(tx, _seen(counted, reported, at, boot_id), located, kind, actor, policy)
    return counted


def _seen_at(tx: Transaction, reported: ReportedFailure) -> datetime:
    """When the fault was last seen: the reporter's claim, but never later than its receipt."""
    claimed = reported.last_at or reported.occurred_at
    return tx.now if claimed is None else min(claimed + reported.slow_by, tx.now)


def _first_at(reported: ReportedFailure, at: datetime) -> datetime:
    """When what is told began. A log without dates still tells how far apart its lines are."""
    return min(reported.occurred_at + reported.slow_by, at) if reported.occurred_at else at - reported.lasted


def _told(failure: Failure, told: Message, at: datetime, times: int) -> Told:
    reported = told.reported
    first_at = _first_at(reported, at)
    said = reported.count
    lines = _lines(reported) if told.boot_id else None
    return Told(failure, told.id_scope, reported.failure_id, told.digest, first_at, at, times, said, lines)


def _seen(failure: Failure, reported: ReportedFailure, at: datetime, boot_id: str | None) -> Failure:
    """The failure as its newest sight shows it, with the boot of that."""
    occurred_at = at if reported.occurred_at else None
    recorded_at = max(at, failure.recorded_at)
    evidence = reported.evidence
    return replace(failure, occurred_at=occurred_at, recorded_at=recorded_at, boot_id=boot_id, evidence=evidence)


def _why_muted(tx: Transaction, reported: ReportedFailure, located: Located, at: datetime) -> str | None:
    """Say why a fault has no effect. A driver that is being changed looks like a fault, and late news of it too."""
    if (reported.evidence or {}).get("injected") is True:
        return INJECTED
    if located.node is not None and was_in_maintenance(tx, located.node, at):
        return MAINTENANCE
    return None


def _is_waiting(located: Located, kind: FailureKind) -> bool:
    """Tell whether a fault keeps its node out until a person says which device it means.

    One in a place where no device is known does, unless it is of a boot that is over, with which it ended. So does one
    that passes do not end and that names no device: there is none to hold.
    """
    if kind.effect is Effect.PERMANENT:
        return located.is_unattached or (located.device is None and located.node is not None)
    return located.is_unattached and not located.is_past


def _failure(tx: Transaction, told: Message, kind: FailureKind, muted: str | None) -> Failure:
    reported, located = told.reported, told.located
    device, boot = located.device, located.boot
    return Failure(
        id=new_id(tx.now),
        failure_id=reported.failure_id,
        id_scope=told.id_scope,
        reporter=str(told.actor),
        digest=told.digest,
        code=reported.code,
        kind=kind.kind,
        cause=kind.cause,
        severity=kind.severity,
        effect=kind.effect,
        state="active",
        device_id=device.id if device else None,
        board_id=device.board_id if device else None,
        node_id=located.node.id if located.node else None,
        instance_id=boot.instance_id if boot else None,
        boot_id=boot.id if boot and located.is_of_boot else None,
        slot=located.slot,
        ref=reported.device,
        occurred_at=reported.occurred_at,
        recorded_at=tx.now,
        count=reported.count,
        last_at=_seen_at(tx, reported),
        is_unattached=_is_waiting(located, kind),
        muted=muted,
        message=reported.message,
        evidence=reported.evidence,
    )


def record_event(
    tx: Transaction,
    failure: Failure,
    device: Device | None,
    node: nodes.Node | None,
    actor: Actor,
    more: dict[str, Any] | None = None,
    *,
    type_: EventType = EventType.FAILURE_RECORDED,
) -> None:
    """Put a fault's event into the history."""
    name = node.name if node else None
    where = (
        told(device, node=name, slot=failure.slot) if device else {"node": name, "slot": failure.slot, "serial": None}
    )
    tx.record(
        Draft(
            type_,
            actor,
            (Subject(SubjectKind.FAILURE, failure.id), *of_devices([device] if device else [], nodes=[name])),
            {
                **where,
                "failure": failure.id,
                "failure_id": failure.failure_id,
                "code": failure.code,
                "cause": failure.cause,
                "severity": failure.severity,
                "effect": failure.effect,
                **({"muted": failure.muted} if failure.muted else {}),
                "observed_at": rfc3339_or_none(failure.occurred_at),
                "message": failure.message,
                **(more or {}),
            },
        )
    )
