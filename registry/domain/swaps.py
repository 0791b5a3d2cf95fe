# SPDX-License-Identifier: Apache-2.0
"""Did the fault go with the card, or did it stay with the slot?

Technicians find out by moving a card. Here nobody has to: every place in which a device failed is on record, and who
else failed there. A fault that shows again in another slot went with the card; one that stayed behind, and shows with
another card there, belongs to the slot, its riser or its cable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from registry.domain.times import brief


class SwapVerdict(StrEnum):
    """What the places tell."""

    NO_FAULT = "no_fault"
    """No fault of the device's own is on record."""
    FOLLOWED_CARD = "followed_card"
    """The same fault was seen in several places that the device was in."""
    STAYED_WITH_SLOT = "stayed_with_slot"
    """The device has not shown it since it left, and another one has shown it in that slot."""
    NOT_SEEN_AGAIN = "not_seen_again"
    """The device has not shown it since it left, and nobody else has shown it in that slot."""
    NOT_SWAPPED = "not_swapped"
    """The device has been nowhere else since."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A fault of the device in one place: `kind` joins the names that tools give to one fault.

    `machine` is the serial of the chassis where it is known: the same machine may come back under another node's name.
    """

    kind: str
    node: str
    slot: str | None
    first_at: datetime
    last_at: datetime
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """The device was in this place from when on."""

    node: str
    slot: str | None
    since: datetime
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another device showed a fault in a place where this one failed, too."""

    kind: str
    node: str
    slot: str | None
    device: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SwapTest:
    """The verdict, the sentence for people, and in how many places the fault that decides was seen."""

    verdict: SwapVerdict
    sentence: str
    kind: str | None = None
    slots: int = 0
    nodes: int = 0


def judge_swaps(seen: Sequence[Seen], visits: Sequence[Visit], neighbours: Sequence[Neighbour]) -> SwapTest:
    """Judge what the places of a device tell of its faults; the fault seen in most places decides."""
    if not seen:
        return SwapTest(SwapVerdict.NO_FAULT, "No fault of this device is on record, so there is nothing to compare.")
    by_kind: dict[str, list[Seen]] = {}
    for one in sorted(seen, key=lambda one: (one.first_at, one.node, one.slot or "")):
        by_kind.setdefault(one.kind, []).append(one)
    kind, places = max(by_kind.items(), key=lambda item: (len(_places(item[1])), max(one.last_at for one in item[1])))
    slots, nodes = len(_places(places)), len({_key(one)[0] for one in places})
    verdict, told = _verdict(kind, places, visits, [one for one in neighbours if one.kind == kind])
    count = f"Failed in {_many(slots, 'slot')} of {_many(nodes, 'node')}."
    return SwapTest(verdict, f"{told} {count}", kind, slots, nodes)


def _verdict(
    kind: str, places: Sequence[Seen], visits: Sequence[Visit], others: Sequence[Neighbour]
) -> tuple[SwapVerdict, str]:
    first, last = places[0], max(places, key=lambda one: one.last_at)
    besides = _besides(others)
    if len(_places(places)) > 1:
        came = next(one for one in places if _key(one) != _key(first))
        told = f"The fault followed the card: {kind} was seen in {_place(first)} and again in {_place(came)}."
        return SwapVerdict.FOLLOWED_CARD, " ".join(filter(None, (told, _doubt(places), besides)))
    after = [one for one in visits if one.since > last.last_at and _key(one) != _key(last)]
    if not after:
        told = f"Not swapped yet: {kind} was seen in {_place(last)} alone, and the card has been nowhere else since."
        return SwapVerdict.NOT_SWAPPED, f"{told} {besides}".rstrip()
    moved = f"this card has not shown {kind} since it went to {_place(min(after, key=lambda one: one.since))}"
    if others:
        return SwapVerdict.STAYED_WITH_SLOT, f"The fault stayed with the slot: {moved}. {besides}"
    told = f"Undecided: {moved}, and no other card has shown it in {_place(last)}."
    return SwapVerdict.NOT_SEEN_AGAIN, told


def _doubt(places: Sequence[Seen]) -> str:
    """A machine that returns under another name brings all its cards along, each in its slot."""
    if len({one.slot for one in places}) > 1 or all(one.machine for one in places):
        return ""
    return "It was the same slot address each time: make sure that these are two machines."


def _besides(others: Sequence[Neighbour]) -> str:
    """Say who else failed there, the newest of them."""
    if not others:
        return ""
    one = max(others, key=lambda one: (one.at, one.device))
    return f"Another card, {one.device}, showed it in {_place(one)} on {brief(one.at)}."


def _places(seen: Iterable[Seen]) -> set[tuple[str, str | None]]:
    return {_key(one) for one in seen}


def _key(one: Seen | Visit) -> tuple[str, str | None]:
    """A slot of a machine, whatever the machine is called."""
    return (f"chassis {one.machine}" if one.machine else one.node), one.slot


def _place(one: Seen | Visit | Neighbour) -> str:
    return f"slot {one.slot} of {one.node}" if one.slot else f"node {one.node}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
