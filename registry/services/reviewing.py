# SPDX-License-Identifier: Apache-2.0
"""How does a person work on what is kept out: look at a hold again, or end many at once, item by item?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.actors import SYSTEM, Actor, Subject, SubjectKind
from registry.domain.errors import InvalidField, NotFound, PratiqueError, StoreUnavailable
from registry.domain.events import Draft, EventType
from registry.domain.hold_review import Review, reviewed
from registry.domain.quarantine import Scope, TargetKind, may_release
from registry.domain.times import rfc3339_or_none
from registry.services import withholding
from registry.services.holding import end, get_record, release_expired, shown, units_of
from registry.services.quarantine import OpenQuarantines, open_quarantines
from registry.services.subjects import nodes_of, of_devices
from registry.store import devices, failures, holds, queue, withheld
from registry.store.database import Database, Transaction
from registry.store.holds import HoldRecord
from registry.store.withheld import WithheldRecord

DONE, REFUSED = "done", "refused"


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What came of one item of several; `code` and `message` say why it was refused."""

    id: str
    outcome: str
    message: str
    code: str | None = None


def review_quarantine(db: Database, hold_id: str, review: Review, *, actor: Actor, now: datetime) -> dict[str, Any]:
    """Note that a person looked at a hold again, with its new date of review and ticket. Raises NotFound, NotOpen,
    InvalidField.
    """
    with db.write(now) as tx:
        release_expired(tx)
        return shown(tx, _review(tx, hold_id, review, actor), now)


def review_many(
    db: Database, hold_ids: Sequence[str], review: Review, *, actor: Actor, now: datetime
) -> list[ItemResult]:
    """Look at several holds again in one transaction; one that is refused hinders no other."""

    def one(tx: Transaction, hold_id: str) -> str:
        _review(tx, hold_id, review, actor)
        return "reviewed"

    return _each(db, hold_ids, one, now=now)


def release_many(
    db: Database, ids: Sequence[str], *, reason: str, actor: Actor, role: str, now: datetime
) -> list[ItemResult]:
    """End several holds, and settle what the breaker withheld, in one transaction; one refused hinders no other."""

    def one(tx: Transaction, id_: str) -> str:
        record = holds.find_hold(tx, id_)
        if record is None:
            _settle(tx, id_, reason=reason, actor=actor)
            return "settled: what the breaker withheld stands no more"
        may_release(record.hold, role, reason, now=now)
        end(tx, record, reason=reason, actor=actor)
        return "released"

    return _each(db, ids, one, now=now)


def hold_many(
    db: Database, ids: Sequence[str], *, reason: str, ticket: str | None, actor: Actor, now: datetime
) -> list[ItemResult]:
    """Open a person's hold in place of each that the breaker withheld, in one transaction: it never limits people."""

    def one(tx: Transaction, id_: str) -> str:
        record = withheld.find_record(tx, id_)
        if record is None:
            raise NotFound(f"The breaker withholds nothing under {id_}: it was settled or opened meanwhile.")
        fault = failures.find_failure(tx, record.failure)
        asked, scope = _target_of(tx, record)
        cause = fault.cause if fault else None
        command = OpenQuarantines((asked,), reason, cause=cause, ticket=ticket, scope=scope, evidence=_evidence(record))
        (item,) = open_quarantines(db, command, actor=actor, now=now)
        if "quarantine" not in item:
            raise InvalidField(item["message"])
        withholding.end(tx, record, reason=f"opened as {item['quarantine']['id']}", actor=SYSTEM)
        return "held"

    return _each(db, ids, one, now=now)


def _target_of(tx: Transaction, record: WithheldRecord) -> tuple[dict[str, Any], str | None]:
    """Name what was withheld as a person would: a device with the reach of the hold, or a node."""
    kind, ref = withheld.binds_of(tx, record.id)[0]
    if kind == TargetKind.BOARD:
        return {"device": devices.devices_of_boards(tx, [ref])[0].id}, Scope.BOARD
    if kind == TargetKind.UNIT:
        return {"device": ref}, Scope.UNIT
    return {"node": queue.name_of_machine(tx, record.target_key)}, None


def _evidence(record: WithheldRecord) -> dict[str, str]:
    return {"failure": record.failure, "rule": record.owner.name, "limited_by": record.limited_by}


def _each(
    db: Database, ids: Sequence[str], act: Callable[[Transaction, str], str], *, now: datetime
) -> list[ItemResult]:
    """Act on each. What an act refuses it refuses before it has written anything."""
    results: list[ItemResult] = []
    with db.write(now) as tx:
        release_expired(tx)
        for id_ in dict.fromkeys(ids):
            try:
                results.append(ItemResult(id_, DONE, act(tx, id_)))
            except StoreUnavailable:
                raise
            except PratiqueError as error:
                results.append(ItemResult(id_, REFUSED, error.detail, error.code))
    return results


def _settle(tx: Transaction, withheld_id: str, *, reason: str, actor: Actor) -> None:
    """Say that what the breaker withheld is nothing to keep out for. Raises NotFound, InvalidField."""
    record = withheld.find_record(tx, withheld_id)
    if record is None:
        raise NotFound(f"There is no quarantine {withheld_id} that is open or withheld.")
    withholding.dismiss(tx, withheld.binds_of(tx, record.id), reason=reason.strip(), actor=actor)


def _review(tx: Transaction, hold_id: str, review: Review, actor: Actor) -> HoldRecord:
    record = get_record(tx, hold_id)
    after = reviewed(record.hold, review, now=tx.now)
    holds.set_review(tx, after)
    units = units_of(tx, record)
    node = record.target.get("node")
    where = [str(node)] if node else nodes_of(tx, units)
    tx.record(
        Draft(
            EventType.QUARANTINE_REVIEWED,
            actor,
            (Subject(SubjectKind.QUARANTINE, hold_id), *of_devices(units, nodes=where)),
            {
                "quarantine": hold_id,
                "owner": str(after.owner),
                "why": review.reason.strip(),
                "ticket": after.ticket,
                "review_at": rfc3339_or_none(after.review_at),
                "expires_at": rfc3339_or_none(after.expires_at),
                "serial": units[0].serial if units else None,
                "node": where[0] if where else None,
            },
        )
    )
    return get_record(tx, hold_id)
