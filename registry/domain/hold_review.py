# SPDX-License-Identifier: Apache-2.0
"""What is known about something that is held, what is still missing to decide, and what should be done next?"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from registry.domain.errors import FieldError, InvalidField, NotOpen
from registry.domain.policy import Policy
from registry.domain.quarantine import Hold, ReleasePolicy, TargetKind, asks_for_review, is_in_force
from registry.domain.repair_orders import Order, OrderState
from registry.domain.reports import Kind
from registry.domain.times import brief


class Piece(StrEnum):
    """One kind of evidence. A maker who is asked to take a board back asks for all of them."""

    FAILURE = "failure record"
    """A fault of it is on record."""
    KERNEL_LOG = "kernel log or Xid"
    """The kernel's own words about the fault, or the number that they carry."""
    DIAGNOSTIC = "DCGM diagnostic"
    """A result of `dcgmi diag` since the fault, whichever it is."""
    SECOND_PLACE = "second slot or node"
    """It was looked at in another place: the fault came along, or stayed behind."""
    TICKET = "ticket"
    """Somebody outside knows of it under a number."""


_PIECES: Mapping[str | None, tuple[Piece, ...]] = MappingProxyType(
    {
        Kind.GPU: tuple(Piece),
        # No Xid and no DCGM test speaks of a network adapter.
        Kind.EFA: (Piece.FAILURE, Piece.SECOND_PLACE, Piece.TICKET),
        # A machine has no other slot to be tried in.
        None: (Piece.FAILURE, Piece.KERNEL_LOG, Piece.TICKET),
    }
)
"""Which pieces there can be, for a kind of device and for a whole node."""

_HOW_TO_GET: Mapping[Piece, str] = MappingProxyType(
    {
        Piece.FAILURE: "Record the failure that was seen.",
        Piece.KERNEL_LOG: "Attach the kernel log of the fault.",
        Piece.DIAGNOSTIC: "Attach a DCGM diagnostic (dcgmi diag -r 3).",
        Piece.SECOND_PLACE: "Try it in another slot or node: does the fault come along?",
        Piece.TICKET: "Open a ticket, and set it here.",
    }
)

_XID = re.compile(r"\bs?xid\b|\bs?xid_[0-9]", re.IGNORECASE)
_DCGM = re.compile(r"dcgm", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Known:
    """What is on record of the units, or of the node, that a hold keeps out.

    `kind` is None for a node. `codes` are those of its faults, `fault_places` the (node, slot) pairs where they were
    seen, `later_places` those where it has been since the first of them. `diagnosed` tells of a result of `dcgm.diag`
    since the fault, `logged` of a fault that the kernel's log told, `evidence` is the text that came with the hold.
    `nodes` are where it is now.
    """

    kind: str | None
    codes: frozenset[str] = frozenset()
    fault_places: frozenset[tuple[str, str]] = frozenset()
    later_places: frozenset[tuple[str, str]] = frozenset()
    diagnosed: bool = False
    logged: bool = False
    evidence: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A hold that waits for its end, as people work on it. `limited_by` is set for one that the breaker withheld."""

    hold: Hold
    known: Known
    limited_by: str | None = None
    restart_at: datetime | None = None
    clean_runs: int = 0
    order: Order | None = None


@dataclass(frozen=True, slots=True)
class Completeness:
    """Which pieces of evidence there are, and which could be there and are not."""

    have: tuple[Piece, ...]
    missing: tuple[Piece, ...]

    def told(self) -> str:
        """Say it like `3 of 5`."""
        return f"{len(self.have)} of {len(self.have) + len(self.missing)}"


def weigh(case: Case) -> Completeness:
    """Tell which evidence there is. What cannot be had of this kind of thing is not missing."""
    found = _found(case)
    pieces = _PIECES.get(case.known.kind, tuple(Piece))
    return Completeness(tuple(one for one in pieces if one in found), tuple(one for one in pieces if one not in found))


def _found(case: Case) -> Collection[Piece]:
    known = case.known
    has_xid = any(code.startswith(("xid_", "sxid_")) for code in known.codes)
    has_dcgm = any(code.startswith("dcgm_") for code in known.codes)
    is_tried = len(known.fault_places) > 1 or bool(known.later_places - known.fault_places)
    answers = {
        Piece.FAILURE: bool(known.codes),
        Piece.KERNEL_LOG: known.logged or has_xid or _XID.search(known.evidence) is not None,
        Piece.DIAGNOSTIC: known.diagnosed or has_dcgm or _DCGM.search(known.evidence) is not None,
        Piece.SECOND_PLACE: is_tried,
        Piece.TICKET: bool(case.hold.ticket),
    }
    return [piece for piece, is_there in answers.items() if is_there]


def next_step(case: Case, *, policy: Policy, now: datetime) -> str:
    """Say in one sentence what ends the waiting: whose move it is, and what it is. The most urgent comes first."""
    urgent = _told_of_breaker(case) or _told_of_review(case, now) or _told_of_order(case)
    return urgent or _told_of_end(case, policy) or _told_of_evidence(case)


def _told_of_breaker(case: Case) -> str | None:
    if case.limited_by is None:
        return None
    return f"Decide: hold it, or let it go. The breaker withheld this hold: {case.limited_by}."


def _told_of_review(case: Case, now: datetime) -> str | None:
    hold = case.hold
    if not asks_for_review(hold, now):
        return None
    due = min(one for one in (hold.review_at, hold.expires_at) if one is not None)
    return f"Review overdue since {brief(due)}: release it, or set a new date."


def _told_of_order(case: Case) -> str | None:
    order = case.order
    if order is None:
        return None
    if order.state is OrderState.CLAIMED:
        return f"Under way: {order.action} by {order.claimed_by}."
    if order.state is OrderState.READY:
        return f"Claim its repair: {order.action} is ready."
    return f"Its repair ({order.action}) waits: {order.waits_for or 'for the budget'}."


def _told_of_end(case: Case, policy: Policy) -> str | None:
    """Say what ends a hold besides a person; None where nothing else does."""
    hold = case.hold
    if hold.permanent:
        return "Kept out for good: only an admin may release it."
    if hold.target_kind is TargetKind.IDENTIFIER and not case.known.nodes:
        return "Waiting: no device has shown this identifier yet."
    if hold.release_policy is ReleasePolicy.AFTER_PASSES:
        return _told_of_passes(case, policy)
    if hold.release_policy is ReleasePolicy.AT_EXPIRY and hold.expires_at is not None:
        return f"Ends by itself at {brief(hold.expires_at)}."
    return None


def _told_of_passes(case: Case, policy: Policy) -> str:
    need = policy.after_passes_count
    if not case.known.nodes:
        return f"Put it into a node: {need} clean passes after a restart end this hold."
    where = ", ".join(case.known.nodes)
    if case.restart_at is None:
        return f"Waiting for a restart of {where} after the fault, then for {need} clean passes."
    return f"Waiting for passes: {min(case.clean_runs, need)} of {need} on {where}."


def _told_of_evidence(case: Case) -> str:
    known, hold = case.known, case.hold
    missing = weigh(case).missing
    if Piece.FAILURE in missing:
        return _HOW_TO_GET[Piece.FAILURE]
    if known.kind is not None and len(known.fault_places) == 1 and known.later_places - known.fault_places:
        return "The fault stayed behind when it was moved: look at the slot where it was, and release it."
    if missing:
        return _HOW_TO_GET[missing[0]]
    if len(known.fault_places) > 1:
        return f"Return it under RMA: its faults came along through {len(known.fault_places)} places."
    return f"Decide: return it under {hold.ticket}, or release it."


@dataclass(frozen=True, slots=True)
class Review:
    """A person's second look at a hold that goes on: why, when to look next, and under which ticket. None changes
    nothing.
    """

    reason: str
    review_at: datetime | None = None
    ticket: str | None = None


def reviewed(hold: Hold, review: Review, *, now: datetime) -> Hold:
    """Give a hold with what a review says. A date that was over and only asked for the review is answered by it.

    Raises NotOpen for a hold that has ended, InvalidField naming every wrong field.
    """
    if not is_in_force(hold, now):
        raise NotOpen(f"Quarantine {hold.id} is no longer open.", quarantine=hold.id)
    errors: list[FieldError] = []
    if not review.reason.strip():
        errors.append(FieldError("/reason", "A review needs a reason: what was looked at, and why the hold goes on."))
    if review.review_at is None and review.ticket is None:
        errors.append(FieldError("/review_at", "A review sets a new date, a ticket, or both."))
    if review.review_at is not None and review.review_at <= now:
        errors.append(FieldError("/review_at", "This is not in the future."))
    is_dated = hold.release_policy is ReleasePolicy.AT_EXPIRY
    if review.review_at is not None and is_dated and hold.expires_at is not None and review.review_at > hold.expires_at:
        errors.append(FieldError("/review_at", "This is after the quarantine has ended."))
    if errors:
        raise InvalidField(errors[0].detail, errors=tuple(errors))
    is_over = not is_dated and hold.expires_at is not None and hold.expires_at <= now
    return replace(
        hold,
        review_at=review.review_at or hold.review_at,
        ticket=review.ticket or hold.ticket,
        expires_at=None if is_over and review.review_at else hold.expires_at,
    )
