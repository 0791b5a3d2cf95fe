# SPDX-License-Identifier: Apache-2.0
"""What can have happened, and how is an entry of the history sealed so that tampering shows?

The body of an entry is canonical JSON, kept exactly as it was hashed. Each hash covers the one before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

from registry.domain.actors import Actor, ActorKind, Subject, SubjectKind
from registry.domain.canonical import JSON, canonical
from registry.domain.times import rfc3339

__all__ = [
    "BODY_VERSION",
    "GENESIS",
    "JSON",
    "Actor",
    "ActorKind",
    "Draft",
    "Entry",
    "Event",
    "EventType",
    "Subject",
    "SubjectKind",
    "SubjectRow",
    "canonical",
    "hash_of",
    "seal",
    "unseal",
    "verify_entry",
]

SubjectRow: TypeAlias = tuple[str, str, int]
"""Kind, id and ordinal of a subject, as table `event_subject` has them."""

BODY_VERSION = 1
GENESIS = "0" * 64
"""What stands in place of a previous hash before the first entry."""


class EventType(StrEnum):
    """Every kind of entry: a noun and what was done to it."""

    NODE_REGISTERED = "node.registered"
    """A node reported for the first time."""
    NODE_BOOTED = "node.booted"
    """A boot id of this instance was seen for the first time."""
    NODE_REPLACED = "node.replaced"
    """Another instance took over the node's name."""
    NODE_RETIRED = "node.retired"
    """An operator said that the node will not come back."""
    NODE_HOST_CHANGED = "node.host_changed"
    """A host serial or UUID differs from the one the same source gave before."""
    MAINTENANCE_STARTED = "maintenance.started"
    """An operator keeps the node out of work until a time."""
    MAINTENANCE_ENDED = "maintenance.ended"
    """The maintenance was ended by an operator."""
    WAIVER_GRANTED = "waiver.granted"
    """An operator accepts another device count for a while."""
    WAIVER_ENDED = "waiver.ended"
    """The waiver was ended by an operator or replaced."""
    DEVICE_REGISTERED = "device.registered"
    """A unit was seen for the first time anywhere."""
    DEVICE_ATTACHED = "device.attached"
    """A unit was listed in a slot where it was not before."""
    DEVICE_DETACHED = "device.detached"
    """A unit's placement was closed."""
    DEVICE_MOVED = "device.moved"
    """A unit changed its slot or its node."""
    DEVICE_SWAPPED = "device.swapped"
    """One unit took the slot of another."""
    DEVICE_VANISHED = "device.vanished"
    """A placed unit was not in a list that speaks for its kind."""
    DEVICE_RETURNED = "device.returned"
    """A missing unit was listed again where it had been."""
    DEVICE_CHANGED = "device.changed"
    """An attribute of a unit (model, name, firmware, asset tag) is another than before."""
    DEVICE_NOTED = "device.noted"
    """A person wrote a note about a unit."""
    IDENTIFIER_ADDED = "identifier.added"
    """One more string is known that points at a unit or board."""
    PASS_COUNTED = "pass.counted"  # noqa: S105 - a pass of checks
    """A run of checks counted towards admission."""
    PASSES_RESET = "passes.reset"
    """The counted passes of a node went back to zero."""
    CHECK_CHANGED = "check.changed"
    """The status of a check is another than before."""
    CONDITION_OPENED = "condition.opened"
    """A check began to fail or to come and go, or nobody could look for too long."""
    CONDITION_FAILED = "condition.failed"
    """A condition has lasted longer than is tolerated."""
    CONDITION_CLEARED = "condition.cleared"
    """A condition is over: all has been well for long enough, or what it was of is gone."""
    FAILURE_RECORDED = "failure.recorded"
    """A fault of a device or node was put on record."""
    FAILURE_WITHDRAWN = "failure.withdrawn"
    """An operator said that a recorded fault was none."""
    QUARANTINE_OPENED = "quarantine.opened"
    """A person or a rule put hardware or a node on hold."""
    QUARANTINE_REVIEWED = "quarantine.reviewed"
    """A person looked at a hold again: it goes on, with a new date or ticket."""
    QUARANTINE_RELEASED = "quarantine.released"
    """A hold ended."""
    QUARANTINE_WITHHELD = "quarantine.withheld"
    """The breaker kept a rule from opening a hold."""
    WITHHOLDING_ENDED = "withholding.ended"
    """What the breaker had withheld stands against nothing any more."""
    CONFLICT_OPENED = "conflict.opened"
    """What was seen contradicts what is known of a device's identity."""
    CONFLICT_RESOLVED = "conflict.resolved"
    """The contradiction went away or an operator ruled on it."""
    PROFILE_SET = "profile.set"
    """What is expected of a sort of node was written or changed."""
    TOKEN_CREATED = "token.created"  # noqa: S105 - an event name
    """A credential was handed out."""
    TOKEN_REVOKED = "token.revoked"  # noqa: S105 - an event name
    """A credential stopped working."""
    JOIN_REFUSED = "join.refused"
    """Somebody with a join token asked for a node's token and did not get it."""
    JOB_STARTED = "job.started"
    """A job got its nodes, and began or began again."""
    JOB_INTERRUPTED = "job.interrupted"
    """A job was stopped and means to go on."""
    JOB_ENDED = "job.ended"
    """A job is over."""
    JOB_FAILURE_JUDGED = "job_failure.judged"
    """A failed job was told, and who is to blame."""
    JOB_FAILURE_REVISED = "job_failure.revised"
    """Later evidence gave another verdict, or more was told of the failure."""
    REPAIR_PLANNED = "repair.planned"
    """A failure asks for a repair, which waits for the budget."""
    REPAIR_READIED = "repair.readied"
    """Whoever carries out repairs may claim this one."""
    REPAIR_DEFERRED = "repair.deferred"
    """A repair that nobody had claimed waits again."""
    REPAIR_CLAIMED = "repair.claimed"
    """Somebody carries a repair out, or needs longer for it."""
    REPAIR_LAPSED = "repair.lapsed"
    """Whoever had claimed a repair was silent for too long: another may claim it."""
    REPAIR_COMPLETED = "repair.completed"
    """A repair was carried out; whether it helped shows in the condition."""
    REPAIR_FAILED = "repair.failed"
    """A repair could not be carried out, or was claimed too often in vain."""
    REPAIR_CANCELLED = "repair.cancelled"
    """A repair is not to be carried out."""
    REPAIRS_STOPPED = "repairs.stopped"
    """An operator stopped all repairs."""
    REPAIRS_RESUMED = "repairs.resumed"
    """An operator let repairs go on."""
    DETECTOR_SUSPECTED = "detector.suspected"
    """A check turned more nodes bad at once than are believed: its repairs wait for a person."""
    DETECTOR_TRUSTED = "detector.trusted"
    """An operator believes a check that was suspected."""
    SUBSCRIPTION_CREATED = "subscription.created"
    """An administrator let an address be told of events."""
    SUBSCRIPTION_CHANGED = "subscription.changed"
    """A subscription has another address or secret, or was switched on or off."""
    SUBSCRIPTION_REMOVED = "subscription.removed"
    """An address is told of nothing any more."""
    DELIVERY_ABANDONED = "delivery.abandoned"
    """An event was given up for a subscription after the last try: it is a dead letter."""
    DELIVERY_REPLAYED = "delivery.replayed"
    """An administrator sent dead letters on their way again."""
    SERVICE_RESUMED = "service.resumed"
    """The service came back after an outage, which is left out of all ages."""
    SERVICE_RESTORED = "service.restored"
    """The records were put back from a backup."""
    SERVICE_SUSPENDED = "service.suspended"
    """The records are not what was seen of them outside: nobody is admitted until an administrator takes note."""
    SERVICE_ACKNOWLEDGED = "service.acknowledged"
    """An administrator took note of what is lost, and nodes are admitted again."""
    CHECKPOINT_SIGNED = "checkpoint.signed"
    """The head of the history was signed."""
    KEY_ROTATED = "key.rotated"
    """The key that signs checkpoints was handed over to another."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An event before it has a place in the history. A subject named twice is kept once."""

    type: EventType
    actor: Actor
    subjects: tuple[Subject, ...] = ()
    data: Mapping[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "subjects", tuple(dict.fromkeys(self.subjects)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the history as it is stored: the columns of table `event`."""

    sequence: int
    at: datetime
    type: str
    body: str
    prev_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class Event:
    """A sealed entry. `subjects` holds each subject with its own count; `type` may be newer than this code knows."""

    sequence: int
    at: datetime
    type: str
    actor: Actor
    subjects: tuple[tuple[Subject, int], ...]
    data: Mapping[str, Any]
    body: str
    prev_hash: str
    hash: str

    def to_json(self) -> dict[str, Any]:
        """Give the entry in the shape the API answers."""
        return {
            "sequence": self.sequence,
            "at": rfc3339(self.at),
            "type": str(self.type),
            "actor": {"kind": str(self.actor.kind), "name": self.actor.name},
            "subjects": _subjects_json(self.subjects),
            "data": dict(self.data),
            "prev_hash": self.prev_hash,
            "hash": self.hash,
        }


def hash_of(prev_hash: str, body: str) -> str:
    """Hash an entry: lower-case hex SHA-256 of the previous hash as 64 hex characters, then the body."""
    return hashlib.sha256(f"{prev_hash}{body}".encode()).hexdigest()


def seal(draft: Draft, *, sequence: int, at: datetime, ordinals: Sequence[int], prev_hash: str) -> Event:
    """Give a draft its place in the chain.

    `ordinals` holds, in the order of the draft's subjects, the number this event has in each subject's own history.
    Raises ValueError when the counts differ or the data cannot be written canonically.
    """
    subjects = tuple(zip(draft.subjects, ordinals, strict=True))
    body = _write_body(draft, sequence, rfc3339(at), subjects)
    return Event(
        sequence=sequence,
        at=at,
        type=draft.type,
        actor=draft.actor,
        subjects=subjects,
        data=draft.data,
        body=body,
        prev_hash=prev_hash,
        hash=hash_of(prev_hash, body),
    )


def _write_body(draft: Draft, sequence: int, at: str, subjects: Sequence[tuple[Subject, int]]) -> str:
    """Write the body in its canonical form. Raises ValueError.

    Put together from its parts, because an event may have a hundred subjects, and they are known to be plain.
    """
    actor = _write_actor(draft.actor)
    told = _write_plain(_subjects_json(subjects))
    body = (
        f'{{"actor":{actor},"at":"{at}","data":{canonical(draft.data, "/data")},"sequence":{sequence:d},'
        f'"subjects":{told},"type":"{draft.type}","v":{BODY_VERSION:d}}}'
    )
    body.encode()  # an id that cannot be UTF-8 is a UnicodeEncodeError, which is a ValueError
    return body


@lru_cache(maxsize=64)  # one act has many events
def _write_actor(actor: Actor) -> str:
    return canonical({"kind": actor.kind, "name": actor.name})


_write_plain = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def unseal(entry: Entry) -> Event:
    """Make a stored row an event again. Trusts the row: `verify_entry` checks it. Raises ValueError."""
    parsed = _parse(entry.body)
    try:
        actor = Actor(ActorKind(parsed["actor"]["kind"]), parsed["actor"]["name"])
        subjects = tuple((Subject(one["kind"], one["id"]), one["ordinal"]) for one in parsed["subjects"])
        data = parsed["data"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"the body of event {entry.sequence} lacks {error}") from error
    return Event(
        sequence=entry.sequence,
        at=entry.at,
        type=entry.type,
        actor=actor,
        subjects=subjects,
        data=data,
        body=entry.body,
        prev_hash=entry.prev_hash,
        hash=entry.hash,
    )


def verify_entry(
    entry: Entry,
    *,
    expected_sequence: int | None = None,
    expected_prev_hash: str | None = None,
    subjects: Sequence[SubjectRow] | None = None,
) -> str | None:
    """Say why a stored entry is bad, or None when every column follows from its body.

    `expected_*` are what the entry before demands; `subjects` are the stored subject rows, in any order.
    """
    if expected_sequence is not None and entry.sequence != expected_sequence:
        return f"sequence {entry.sequence} stands where {expected_sequence} belongs"
    if expected_prev_hash is not None and entry.prev_hash != expected_prev_hash:
        return "prev_hash is not the hash of the entry before"
    if hash_of(entry.prev_hash, entry.body) != entry.hash:
        return "hash does not fit prev_hash and body"
    try:
        return _verify_body(entry, subjects)
    except (ValueError, RecursionError) as error:
        return f"the body cannot be read: {error}"


def _verify_body(entry: Entry, subjects: Sequence[SubjectRow] | None) -> str | None:
    """Compare the columns and subject rows with the body. Raises ValueError when it cannot be read."""
    parsed = _parse(entry.body)
    if _write_plain(parsed) != entry.body:
        return "the body is not in canonical form"
    columns = (("v", BODY_VERSION), ("sequence", entry.sequence), ("type", entry.type), ("at", rfc3339(entry.at)))
    for column, value in columns:
        if parsed.get(column) != value:
            return f"{column} differs from the body"
    try:
        ActorKind(parsed["actor"]["kind"]), parsed["actor"]["name"], parsed["data"]
        written = sorted((one["kind"], one["id"], one["ordinal"]) for one in parsed["subjects"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"the body of event {entry.sequence} lacks {error}") from error
    if subjects is not None and sorted(subjects) != written:
        return "the subject rows differ from the body"
    return None


def _subjects_json(subjects: Sequence[tuple[Subject, int]]) -> list[dict[str, JSON]]:
    return [{"id": one.id, "kind": str(one.kind), "ordinal": ordinal} for one, ordinal in subjects]


def _parse(body: str) -> dict[str, Any]:
    """Read a body. Raises ValueError when it is no JSON object, or holds a number that is not whole."""
    parsed = _read_plain(body)
    if isinstance(parsed, dict):
        return parsed
    raise ValueError("not an object")


def _refuse_float(text: str) -> NoReturn:
    raise ValueError(f"it holds {text}, which is no whole number")


_read_plain = json.JSONDecoder(parse_float=_refuse_float, parse_constant=_refuse_float).decode
