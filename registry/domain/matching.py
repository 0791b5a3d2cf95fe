# SPDX-License-Identifier: Apache-2.0
"""How far has the matching of one list come, and which entries may have which units?

The one mutable thing of identity: it lives as long as one call of `identity.match`. It keeps the promise that two
entries never end at one unit, and it lets every step look at the whole list, so that the order of entries is nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from registry.domain.known import ConflictRule, Fingerprint, Key, Known, Match, MatchedBy, Outcome, SlotKey, Unit
from registry.domain.sighting import Sighting


class Session:
    """The matching of one list."""

    def __init__(self, sightings: tuple[Sighting, ...], known: Known) -> None:
        """Start with nothing matched."""
        self.known = known
        self.sightings = sightings
        self.taken: set[str] = set()
        """Units that an entry of this list is."""
        self.disputed: set[str] = set()
        """Units that a conflict of this list has to do with: no weaker entry may have them either."""
        self.disputed_serials: set[Key] = set()
        """Serials, new to the records, that units of several boards show in this list."""
        self._matches: dict[int, Match] = {}
        self._serials = Counter(sighting.serial for sighting in sightings if sighting.serial)
        self._joined: dict[Key, str] = {}
        self._in_slot = _by_slot(known)

    def open(self) -> tuple[Sighting, ...]:
        """Return the entries that no step has settled yet."""
        return tuple(one for one in self.sightings if one.index not in self._matches)

    def settled(self, *outcomes: Outcome) -> tuple[tuple[Sighting, Match], ...]:
        """Return the entries settled with one of these outcomes, with their matches."""
        both = ((one, self._matches.get(one.index)) for one in self.sightings)
        return tuple((one, match) for one, match in both if match is not None and match.outcome in outcomes)

    def result(self) -> tuple[Match, ...]:
        """Return one match per entry, in the order of the list. Every entry must be settled."""
        return tuple(self._matches[one.index] for one in self.sightings)

    def stands_alone(self, serial: Key) -> bool:
        """Return True when the serial stands once in the list: twice makes a board of several."""
        return self._serials[serial] == 1

    def join(self, serial: Key, board_id: str) -> None:
        """Note that a unit of this list adds this serial, new to the records, to its board."""
        self._joined[serial] = board_id

    def board_of(self, serial: Key | None) -> str | None:
        """Return the board of a serial: a recorded one, or the one that gets the serial by this list."""
        if serial is None:
            return None
        return self.known.boards.get(serial) or self._joined.get(serial)

    def is_free(self, unit_id: str) -> bool:
        """Return True when no entry of the list has the unit or disputes it."""
        return unit_id not in self.taken and unit_id not in self.disputed

    def free_units_in(self, slot: SlotKey) -> tuple[Unit, ...]:
        """Return the units recorded in a slot of this instance that no entry has yet."""
        return tuple(unit for unit in self._in_slot.get(slot, ()) if self.is_free(unit.id))

    def units_on(self, board_id: str) -> tuple[Unit, ...]:
        """Return the recorded units of a board."""
        return tuple(self.known.units[unit_id] for unit_id in self.known.board_units.get(board_id, ()))

    def free_units_on(self, board_id: str) -> tuple[Unit, ...]:
        """Return the recorded units of a board that no entry has yet."""
        return tuple(unit for unit in self.units_on(board_id) if self.is_free(unit.id))

    def ids_on_serial(self, serial: Key | None) -> tuple[str, ...]:
        """Return the ids of the units on the serial's recorded board."""
        board_id = self.known.boards.get(serial) if serial else None
        return self.known.board_units.get(board_id, ()) if board_id else ()

    def claim(
        self, wanted: Mapping[int, tuple[str, MatchedBy]], why: str, *, is_named: bool = False
    ) -> tuple[Sighting, ...]:
        """Give each wanted unit to the one entry that wants it; return the entries that go away empty.

        `wanted` maps an entry's index to a unit and how it was found. A unit that a conflict of the list disputes is
        given only to an entry that names it (`is_named`).
        """
        rivals = Counter(unit_id for unit_id, _ in wanted.values())
        losers = []
        for index, (unit_id, matched_by) in wanted.items():
            is_to_have = unit_id not in self.taken if is_named else self.is_free(unit_id)
            if rivals[unit_id] > 1 or not is_to_have:
                losers.append(self.sightings[index])
                continue
            self.taken.add(unit_id)
            plain = _answer(self.sightings[index], Outcome.KNOWN, why)
            self._matches[index] = replace(plain, matched_by=matched_by, unit_id=unit_id)
        return tuple(losers)

    def register(self, sighting: Sighting, why: str, *, board_id: str | None = None) -> None:
        """Settle an entry as a new unit, of this board or of the one to be made for its serial."""
        key = sighting.serial if board_id is None else None
        plain = _answer(sighting, Outcome.NEW, why)
        self._matches[sighting.index] = replace(plain, board_id=board_id, board_key=key)

    def give_up(self, sighting: Sighting, why: str) -> None:
        """Settle an entry as something that cannot be told."""
        self._matches[sighting.index] = _answer(sighting, Outcome.UNIDENTIFIED, why)

    def dispute(self, sighting: Sighting, rule: ConflictRule, involved: Iterable[str], why: str) -> None:
        """Settle an entry, or settle it anew, as a conflict that these units have part in."""
        units = tuple(dict.fromkeys(involved))
        self.disputed.update(units)
        plain = _answer(sighting, Outcome.CONFLICT, why)
        self._matches[sighting.index] = replace(plain, rule=rule, involved=units)


def ruled_unit(known: Known, seen: Fingerprint) -> str | None:
    """Return the unit an operator tied to this print, first in this slot of this instance, then anywhere."""
    here = known.rulings.get(seen)
    if here is not None or not seen.names_something:
        return here
    return known.rulings.get(seen.anywhere)


def _answer(sighting: Sighting, outcome: Outcome, why: str) -> Match:
    return Match(
        index=sighting.index,
        entry=sighting.entry,
        outcome=outcome,
        matched_by=MatchedBy.NONE,
        fingerprint=sighting.fingerprint,
        reason=f"{sighting}: {why}",
    )


def _by_slot(known: Known) -> dict[SlotKey, list[Unit]]:
    found: dict[SlotKey, list[Unit]] = defaultdict(list)
    for unit in known.units.values():
        place = unit.place
        if place is not None and place.slot is not None and place.instance_id == known.instance_id:
            found[unit.kind, place.slot].append(unit)
    return found
