# SPDX-License-Identifier: Apache-2.0
"""What is a hold, when is it in force, who may end it, and when does it end by itself?"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from registry.domain.errors import FieldError, Forbidden, InvalidField, NotOpen
from registry.domain.events import Actor, ActorKind
from registry.domain.failures import Effect, FailureKind
from registry.domain.policy import Policy
from registry.domain.rules import Rule

ADMIN_ROLE = "admin"
"""The role that may undo a permanent hold."""


class ReleasePolicy(StrEnum):
    """What ends a hold."""

    MANUAL = "manual"
    """A person. A date on it only asks for a review."""
    AT_EXPIRY = "at_expiry"
    """Its own date."""
    AFTER_PASSES = "after_passes"
    """Clean runs that cover the device, after a restart that is newer than the fault. A person may end it sooner."""


class TargetKind(StrEnum):
    """What a hold can be laid on."""

    UNIT = "unit"
    """One GPU or EFA adapter."""
    BOARD = "board"
    """A board with all its units, those found later included."""
    IDENTIFIER = "identifier"
    """A serial, UUID or the like that was never seen: the hold waits for it."""
    NODE = "node"
    """A machine: its instance and chassis where known, its name where not."""


class Scope(StrEnum):
    """How far a hold on a device reaches."""

    BOARD = "board"
    """The whole board: the default for a GPU."""
    UNIT = "unit"
    """This unit only."""


class HoldMatch(StrEnum):
    """What ties a hold to what stands before us, and so how far it follows."""

    HARDWARE = "hardware"
    """An identifier of the hardware: the hold follows the device wherever it goes."""
    PLACE = "place"
    """A place on one instance: the hold ends with that instance."""
    INSTANCE = "instance"
    """The instance of a node, by its provider id: the hold meets that machine under any name, and no other."""
    CHASSIS = "chassis"
    """The serial of the chassis: the hold follows the machine under any name."""
    NAME = "name"
    """The node's name: the hold meets whatever machine bears it."""


class HoldState(StrEnum):
    """Where a hold stands."""

    OPEN = "open"
    """It blocks, unless its date ended it."""
    RELEASED = "released"
    """It ended and stays as history."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Our decision to keep something out. `target_key` is our id of the target, or the identifier or name itself.

    `drain` asks that running work be moved away too; without it only new work is refused.
    """

    id: str
    owner: Actor
    target_kind: TargetKind
    target_key: str
    reason: str
    opened_at: datetime
    state: HoldState = HoldState.OPEN
    scope: Scope | None = None
    match: HoldMatch = HoldMatch.HARDWARE
    cause: str | None = None
    ticket: str | None = None
    release_policy: ReleasePolicy = ReleasePolicy.MANUAL
    permanent: bool = False
    drain: bool = False
    review_at: datetime | None = None
    expires_at: datetime | None = None
    released_at: datetime | None = None
    released_by: Actor | None = None
    release_reason: str | None = None


@dataclass(frozen=True, slots=True)
class RuleHold:
    """What a rule opens for a fault: whose it is, why, and what will end it."""

    owner: Actor
    reason: str
    cause: str
    release_policy: ReleasePolicy
    scope: Scope | None = None
    is_permanent: bool = False
    """The evidence outlives a boot: the breaker lets a few more of these through."""


def is_in_force(hold: Hold, now: datetime) -> bool:
    """Does the hold block at this moment? One that ends at its date is over then, swept or not."""
    if hold.state is not HoldState.OPEN:
        return False
    if hold.release_policy is not ReleasePolicy.AT_EXPIRY or hold.expires_at is None:
        return True
    return now < hold.expires_at


def asks_for_review(hold: Hold, now: datetime) -> bool:
    """Is a date of a hold over that does not end by it, so that a person should look again?"""
    dates = (hold.review_at, hold.expires_at)
    return is_in_force(hold, now) and any(date is not None and date <= now for date in dates)


_STRICTNESS = {ReleasePolicy.AT_EXPIRY: 0, ReleasePolicy.AFTER_PASSES: 1, ReleasePolicy.MANUAL: 2}
"""How much it takes to end a hold: time alone, proof, a person."""


def is_stronger(wanted: Hold, held: Hold) -> bool:
    """Would a hold keep its target out longer, or more firmly, than the one its owner has on it already?"""
    if (wanted.permanent and not held.permanent) or (wanted.drain and not held.drain):
        return True
    if wanted.release_policy is not held.release_policy:
        return _STRICTNESS[wanted.release_policy] > _STRICTNESS[held.release_policy]
    return wanted.release_policy is ReleasePolicy.AT_EXPIRY and _end_of(wanted) > _end_of(held)


def stronger_of(wanted: Hold, held: Hold) -> Hold:
    """Give the wanted hold with whatever of the held one is stronger: asking for more never gives less."""
    stricter = max(wanted, held, key=lambda one: (_STRICTNESS[one.release_policy], _end_of(one)))
    return replace(
        wanted,
        permanent=wanted.permanent or held.permanent,
        drain=wanted.drain or held.drain,
        release_policy=stricter.release_policy,
        expires_at=stricter.expires_at,
        ticket=wanted.ticket or held.ticket,
        cause=wanted.cause or held.cause,
    )


def _end_of(hold: Hold) -> datetime:
    return hold.expires_at or datetime.max.replace(tzinfo=UTC)


def may_release(hold: Hold, actor_role: str, reason: str, *, now: datetime | None = None) -> None:
    """Let a release through, or say what stands against it.

    Raises InvalidField without a reason, NotOpen when the hold has ended already (with `now`: also by its date), and
    Forbidden for a permanent hold unless the role is admin.
    """
    if not reason.strip():
        raise _invalid(
            FieldError("/reason", "A release needs a reason: the next one to hold this device will read it.")
        )
    if hold.state is not HoldState.OPEN or (now is not None and not is_in_force(hold, now)):
        raise NotOpen(f"Quarantine {hold.id} is no longer open.", quarantine=hold.id)
    if hold.permanent and actor_role != ADMIN_ROLE:
        raise Forbidden(f"Quarantine {hold.id} is permanent: only the role admin may release it.", quarantine=hold.id)


def validate_opening(
    *,
    reason: str,
    now: datetime,
    release_policy: ReleasePolicy = ReleasePolicy.MANUAL,
    permanent: bool = False,
    review_at: datetime | None = None,
    expires_at: datetime | None = None,
) -> None:
    """Refuse a hold that contradicts itself. Raises InvalidField that names every wrong field at once."""
    errors: list[FieldError] = []
    if not reason.strip():
        errors.append(FieldError("/reason", "A quarantine needs a reason."))
    if permanent and release_policy is not ReleasePolicy.MANUAL:
        errors.append(FieldError("/release_policy", f"A permanent quarantine does not end {_ending(release_policy)}."))
    if release_policy is ReleasePolicy.AT_EXPIRY and expires_at is None:
        errors.append(FieldError("/expires_at", "A quarantine that ends at its expiry needs one."))
    for pointer, date in (("/review_at", review_at), ("/expires_at", expires_at)):
        if date is not None and date <= now:
            errors.append(FieldError(pointer, "This is not in the future."))
    if review_at is not None and expires_at is not None and release_policy is ReleasePolicy.AT_EXPIRY:
        errors.extend(_late_review(review_at, expires_at))
    if errors:
        raise _invalid(*errors)


def is_after_restart(run_end: datetime, restart_at: datetime, policy: Policy) -> bool:
    """Does a clean run speak for the time after a restart?

    A boot is first seen when its first report arrives, and that may belong to a run that ended a moment earlier: as
    much as clocks may differ is forgiven.
    """
    return run_end >= restart_at - timedelta(seconds=policy.future_tolerance_seconds)


@dataclass(frozen=True, slots=True)
class BootSeen:
    """One boot of one instance: our id, the node's own, and when its first report came. It began before that."""

    id: str
    boot_id: str
    seen_at: datetime


_RANDOM_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.IGNORECASE)
"""The kernel's own boot id, a random UUID: no two boots of any two machines share one.
https://www.kernel.org/doc/html/latest/admin-guide/sysctl/kernel.html#random"""


def is_later_boot(boot: BootSeen, *, fault_at: datetime, fault_boot: BootSeen | None) -> bool:
    """Does a boot come after a fault, so that clean runs in it speak of its cure?

    The boot that showed the fault never does, however much later than the fault its first report came, nor the same
    boot under another name. A boot of another instance does when it was first seen after the fault, whenever the device
    came to it: nobody plugs a GPU into a running node. One that was up before the fault does not, for that the device
    was moved there is no restart that anybody saw.
    """
    if boot.seen_at <= fault_at:
        return False
    if fault_boot is None:
        return True
    is_same_kernel = boot.boot_id == fault_boot.boot_id and _RANDOM_ID.fullmatch(boot.boot_id) is not None
    return boot.id != fault_boot.id and not is_same_kernel and boot.seen_at > fault_boot.seen_at


def after_passes_done(
    hold: Hold, *, clean_runs_since: int, restart_at: datetime | None, fault_at: datetime, policy: Policy
) -> bool:
    """Has a hold earned its end?

    `clean_runs_since` counts the clean runs since that restart which cover the device, on any node; `restart_at` is
    its newest boot, driver load or reset. Volatile error counters vanish with a restart and prove nothing; a restart
    before the fault cures nothing.
    """
    if hold.state is not HoldState.OPEN or hold.release_policy is not ReleasePolicy.AFTER_PASSES or hold.permanent:
        return False
    if restart_at is None or restart_at <= fault_at:
        return False
    return clean_runs_since >= policy.after_passes_count


def rule_hold_for(kind: FailureKind, *, rule: Rule | None = None, detail: str | None = None) -> RuleHold | None:
    """Say what hold a fault opens: None when its effect is weaker than quarantine and no rule is given.

    The owner is the rule, by default named after the code; `detail` is what was seen, for people. A counting rule
    that fires holds for a code that does nothing alone, too.
    """
    if rule is None and kind.effect.rank < Effect.QUARANTINE.rank:
        return None
    told = [rule.told()] if rule else []
    return RuleHold(
        owner=Actor(ActorKind.RULE, rule.name if rule else kind.code),
        reason=": ".join([*told, kind.title, *([detail] if detail else [])]),
        cause=kind.cause,
        release_policy=ReleasePolicy(rule.release_policy if rule else kind.release_policy),
        scope=Scope(rule.scope) if rule and rule.scope else None,
        is_permanent=kind.effect is Effect.PERMANENT,
    )


def is_stricter(wanted: ReleasePolicy, held: ReleasePolicy) -> bool:
    """Does one way to end a hold ask for more than another?"""
    return _STRICTNESS[wanted] > _STRICTNESS[held]


def _ending(release_policy: ReleasePolicy) -> str:
    return "at a date" if release_policy is ReleasePolicy.AT_EXPIRY else "after passes"


def _late_review(review_at: datetime, expires_at: datetime) -> list[FieldError]:
    if review_at <= expires_at:
        return []
    return [FieldError("/review_at", "This is after the quarantine has ended.")]


def _invalid(*errors: FieldError) -> InvalidField:
    return InvalidField(errors[0].detail, errors=errors)
