# SPDX-License-Identifier: Apache-2.0
"""Why is a device in the state it is in? One plain sentence, with what a person may want to know next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from registry.domain.times import brief


@dataclass(frozen=True, slots=True)
class HoldTold:
    """What a sentence needs of a hold in force."""

    owner: str
    reason: str
    opened_at: datetime
    release_policy: str
    is_permanent: bool = False
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlaceTold:
    """What a sentence needs of the device's newest place. `until` is None while it is there."""

    node: str
    slot: str | None
    since: datetime
    until: datetime | None = None
    missing_since: datetime | None = None


_ENDS = {
    "manual": "until a person releases it",
    "after_passes": "until clean runs after a restart earn its release",
}


def sentence_of(
    state: str, *, holds: Sequence[HoldTold], place: PlaceTold | None, conflict: str | None, failures: int
) -> str:
    """Say why a device is in this state. `conflict` is what contradicts its records, `failures` how many it has."""
    by_state = {
        "quarantined": lambda: _held(holds),
        "conflict": lambda: f"Kept out: {_trimmed(conflict or 'what was printed contradicts the records')}.",
        "missing": lambda: _missing(place),
        "detached": lambda: _detached(place),
        "in_service": lambda: _in_service(place, failures),
    }
    told = by_state.get(state)
    return told() if told else f"Its state is {state}."


def _held(holds: Sequence[HoldTold]) -> str:
    """The oldest hold is why; the others are counted."""
    if not holds:
        return "Kept out by a hold."
    first = min(holds, key=lambda one: one.opened_at)
    ends = _ends(first)
    others = len(holds) - 1
    more = f" {others} more {'hold stands' if others == 1 else 'holds stand'} on it." if others else ""
    return f"Held by {first.owner} since {brief(first.opened_at)}, {ends}: {_trimmed(first.reason)}.{more}"


def _ends(hold: HoldTold) -> str:
    if hold.is_permanent:
        return "for good"
    if hold.release_policy == "at_expiry" and hold.expires_at is not None:
        return f"until {brief(hold.expires_at)}"
    return _ENDS.get(hold.release_policy, _ENDS["manual"])


def _missing(place: PlaceTold | None) -> str:
    if place is None or place.missing_since is None:
        return "Its node no longer lists it."
    gone = f"but the node has not listed it since {brief(place.missing_since)}"
    return f"{_where(place)} since {brief(place.since)}, {gone}."


def _detached(place: PlaceTold | None) -> str:
    if place is None:
        return "On record, and in no node so far."
    until = f" until {brief(place.until)}" if place.until else ""
    return f"In no node now: last {_where(place, is_start=False)}{until}."


def _in_service(place: PlaceTold | None, failures: int) -> str:
    known = "no failure is on record" if failures == 0 else f"no hold stands on it; {_many(failures)} on record"
    if place is None:
        return f"In service: {known}."
    return f"{_where(place)} since {brief(place.since)}: {known}."


def _many(failures: int) -> str:
    return "1 failure is" if failures == 1 else f"{failures} failures are"


def _where(place: PlaceTold, *, is_start: bool = True) -> str:
    slot = f"slot {place.slot} of " if place.slot else ""
    return f"{'In' if is_start else 'in'} {slot}{place.node}"


def _trimmed(text: str) -> str:
    """What people wrote may end with a full stop of its own."""
    return text.strip().rstrip(".")
