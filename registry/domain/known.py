# SPDX-License-Identifier: Apache-2.0
"""What do the records know that a list can touch, and what can the matching of a list answer?

Values only; `identity` is the door to the rules that turn the one into the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from registry.domain.reports import DeviceEntry

Key: TypeAlias = tuple[str, str, str]
"""(kind, vendor, usable value): makers number their parts without asking one another."""

SlotKey: TypeAlias = tuple[str, str]
"""(kind, normalised slot): a place on one instance."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a unit's open placement is.

    `is_live`: the node is neither stale nor retired, the instance current, and its last list did not lack the unit.
    """

    node: str
    instance_id: str
    slot: str | None
    is_live: bool


@dataclass(frozen=True, slots=True)
class Unit:
    """One recorded unit, with what matching needs of it."""

    id: str
    board_id: str
    kind: str
    vendor: str
    model: str | None
    has_uuid: bool
    module_id: str | None
    place: Place | None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """How an entry is printed, in usable forms; an empty text is "none". Empty `instance_id` or `slot` means any."""

    kind: str
    vendor: str
    uuid: str = ""
    unique_id: str = ""
    serial: str = ""
    instance_id: str = ""
    slot: str = ""

    @property
    def anywhere(self) -> Fingerprint:
        """The same print in any slot of any instance."""
        return Fingerprint(self.kind, self.vendor, self.uuid, self.unique_id, self.serial)

    @property
    def names_something(self) -> bool:
        """True when there is a usable identifier in it."""
        return bool(self.uuid or self.unique_id or self.serial)


@dataclass(frozen=True, slots=True)
class Known:
    """The part of the records that one list can touch.

    `units` holds every unit that any other field names. `by_uuid` and `by_unique_id` should hold all identifiers of
    those units, not only the listed ones: a unit that has another UUID than the one shown is how a doubt is seen.
    """

    instance_id: str
    units: Mapping[str, Unit] = field(default_factory=dict)
    by_uuid: Mapping[Key, str] = field(default_factory=dict)
    by_unique_id: Mapping[Key, str] = field(default_factory=dict)
    boards: Mapping[Key, str] = field(default_factory=dict)
    """Usable serial to board."""
    board_units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    board_serials: Mapping[str, frozenset[str]] = field(default_factory=dict)
    slots: Mapping[SlotKey, str] = field(default_factory=dict)
    """A unit with an open placement there in this instance, missing ones included; `Unit.place` tells whether others
    have one too."""
    last_in_slot: Mapping[SlotKey, str] = field(default_factory=dict)
    """The last unit ever placed there in this instance."""
    interfaces: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The MACs and GIDs of each EFA of this instance."""
    contested: frozenset[str] = frozenset()
    """Units that this instance lost to a live other node and has not yet sent a list without."""
    rulings: Mapping[Fingerprint, str] = field(default_factory=dict)
    """What operators ruled: an entry printed like this is that unit."""


class Outcome(StrEnum):
    """What a list's entry turned out to be."""

    KNOWN = "known"
    """A unit of the records."""
    NEW = "new"
    """A unit that the records do not have yet."""
    UNIDENTIFIED = "unidentified"
    """Something is there, and nothing says what: no record is touched."""
    CONFLICT = "conflict"
    """What is printed contradicts the records or itself: no record is touched, a person decides."""


class MatchedBy(StrEnum):
    """What tied an entry to its unit."""

    RULING = "ruling"
    """An operator said so."""
    UUID = "uuid"
    """The unit's own UUID."""
    UNIQUE_ID = "unique_id"
    """The unit's own unique id."""
    SERIAL = "serial"
    """The board's serial, where the board has one unit."""
    MODULE_ID = "module_id"
    """The board's serial and the position on the board."""
    BOARD_SLOT = "board_slot"
    """The board's serial and the slot the unit was last in."""
    SLOT = "slot"
    """The slot alone: such an entry can add faults to the unit and never clear them."""
    PLACE = "place"
    """An EFA's instance with its slot, MAC or GID: good until the instance ends."""
    NONE = "none"
    """Nothing: the entry is new, unidentified or in conflict."""


class ConflictRule(StrEnum):
    """Which contradiction it is."""

    UUID_REPEATED = "uuid_repeated"
    """One list shows one unit twice."""
    SERIAL_DIFFERS = "serial_differs"
    """A known UUID comes with another serial than its board has."""
    BOARD_TAKEN = "board_taken"
    """A serial belongs to a board whose units this entry cannot be told from."""
    IDS_DISAGREE = "ids_disagree"
    """UUID and unique id point at two units."""
    TOO_MANY_UNITS = "too_many_units"
    """One serial on more units than any board carries: a placeholder that nobody knew."""
    SERIAL_ON_TWO_NODES = "serial_on_two_nodes"
    """One serial with different units on two live nodes."""
    TWO_NODES = "two_nodes"
    """Two live nodes list one unit in turn."""


@dataclass(frozen=True, slots=True)
class Match:
    """What one entry of a list is.

    `unit_id` is set for KNOWN only. A NEW unit belongs to the board `board_id`, or to the one to be made for the
    serial `board_key` (one board for all entries of the list with that key), or to a board of its own without serial.
    `involved` are the units whose holds apply during a conflict. `reason` is a sentence for people.
    """

    index: int
    entry: DeviceEntry
    outcome: Outcome
    matched_by: MatchedBy
    fingerprint: Fingerprint
    reason: str
    unit_id: str | None = None
    board_id: str | None = None
    board_key: Key | None = None
    rule: ConflictRule | None = None
    involved: tuple[str, ...] = ()


def conflict_key(match: Match) -> str:
    """Return a text that is the same whenever the same contradiction is seen on the same instance.

    The slot is part of it only where the list differs in nothing else. Raises ValueError for a match without conflict.
    """
    if match.rule is None:
        raise ValueError("this entry is in no conflict")
    seen = match.fingerprint
    is_told_by_slot = match.rule is ConflictRule.UUID_REPEATED or not seen.names_something
    parts = (match.rule, seen.instance_id, seen.kind, seen.vendor, seen.uuid, seen.unique_id, seen.serial)
    return "|".join((*parts, seen.slot if is_told_by_slot else ""))
