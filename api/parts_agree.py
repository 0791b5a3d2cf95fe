# SPDX-License-Identifier: Apache-2.0
"""Do the lists of GPUs in one report speak of the same hardware?

Outputs of two machines, or of two times, look alike. Joined by their slots they would lay what one card did to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

from api.reports_body import refuse
from registry.domain.errors import FieldError
from registry.domain.identifiers import usable_serial, usable_uuid
from registry.domain.reports import DeviceEntry, Inventory

_NAMES: Mapping[str, Callable[[DeviceEntry], str | None]] = {
    "UUID": lambda entry: usable_uuid(entry.uuid),
    "serial": lambda entry: usable_serial(entry.serial),
}


def check_agreement(parts: Mapping[str, Inventory]) -> None:
    """Refuse lists of which one shows other hardware in a slot than another. Raises InvalidField.

    A list may show several cards in one slot; it agrees with each list that shows one of them.
    """
    refuse([error for pair in combinations(parts.items(), 2) for error in _contradictions(*pair)])


def _contradictions(first: tuple[str, Inventory], other: tuple[str, Inventory]) -> Iterator[FieldError]:
    """Tell each slot once, by the name that says most."""
    (first_part, first_list), (other_part, other_list) = first, other
    told: set[str] = set()
    for what, ask in _NAMES.items():
        here, there = _by_slot(first_list, ask), _by_slot(other_list, ask)
        differing = {slot for slot in here.keys() & there.keys() if not here[slot] & there[slot]} - told
        for slot in sorted(differing):
            said = f"shows the {what} {_listed(there[slot])} in slot {slot}, where {first_part} shows"
            remedy = "send outputs of one machine, taken at one time"
            yield FieldError(f"/{other_part}", f"{said} {_listed(here[slot])}; {remedy}")
        told |= differing


def _by_slot(inventory: Inventory, ask: Callable[[DeviceEntry], str | None]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for entry in inventory.entries:
        name = ask(entry)
        if entry.slot and name:
            found.setdefault(entry.slot, set()).add(name)
    return found


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(names))
