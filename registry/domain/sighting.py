# SPDX-License-Identifier: Apache-2.0
"""What does one entry of a list show that can be matched, and how is it named to people?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from registry.domain.identifiers import (
    mac_of_gid,
    normalise_gid,
    normalise_mac,
    usable_module_id,
    usable_serial,
    usable_unique_id,
    usable_uuid,
)
from registry.domain.known import Fingerprint, Key, SlotKey
from registry.domain.reports import DeviceEntry


@dataclass(frozen=True, slots=True)
class Sighting:
    """One entry in usable forms. Keys are None where the entry prints nothing usable."""

    index: int
    entry: DeviceEntry
    fingerprint: Fingerprint
    uuid: Key | None
    unique_id: Key | None
    serial: Key | None
    slot: SlotKey | None
    module_id: str | None
    interfaces: frozenset[str]

    @property
    def unit_keys(self) -> tuple[Key, ...]:
        """The UUID, and the unique id that stands in for one: what names a unit. Told apart by their type."""
        marked = (("uuid", self.uuid), ("unique_id", self.unique_id))
        return tuple((key[0], key[1], f"{type_}={key[2]}") for type_, key in marked if key)

    def __str__(self) -> str:
        """Name the entry as a person would look for it."""
        shown = (
            f"{self.entry.vendor} {self.entry.kind}",
            f"serial {self.serial[2]}" if self.serial else "",
            f"UUID {self.uuid[2]}" if self.uuid else "",
            f"unique id {self.unique_id[2]}" if self.unique_id else "",
            f"in slot {self.entry.slot}" if self.entry.slot else "",
        )
        return " ".join(word for word in shown if word)


def see(entries: Sequence[DeviceEntry], instance_id: str) -> tuple[Sighting, ...]:
    """Read all entries of a list that came from this instance."""
    return tuple(_see_one(index, entry, instance_id) for index, entry in enumerate(entries))


def expand_interfaces(addresses: frozenset[str]) -> frozenset[str]:
    """Add the MACs that GIDs were made from, so that a list with MACs and one with GIDs can be compared."""
    gids = (normalise_gid(address) for address in addresses)
    inside = (mac_of_gid(gid) for gid in gids if gid)
    return addresses | frozenset(mac for mac in inside if mac)


def _see_one(index: int, entry: DeviceEntry, instance_id: str) -> Sighting:
    uuid, unique_id = usable_uuid(entry.uuid), usable_unique_id(entry.unique_id)
    serial = usable_serial(entry.serial)
    addresses = (normalise_mac(entry.mac), normalise_gid(entry.gid))
    print_ = Fingerprint(
        entry.kind, entry.vendor, uuid or "", unique_id or "", serial or "", instance_id, entry.slot or ""
    )
    return Sighting(
        index=index,
        entry=entry,
        fingerprint=print_,
        uuid=_key(entry, uuid),
        unique_id=_key(entry, unique_id),
        serial=_key(entry, serial),
        slot=(entry.kind, entry.slot) if entry.slot else None,
        module_id=usable_module_id(entry.module_id),
        interfaces=expand_interfaces(frozenset(address for address in addresses if address)),
    )


def _key(entry: DeviceEntry, value: str | None) -> Key | None:
    return (entry.kind, entry.vendor, value) if value else None
