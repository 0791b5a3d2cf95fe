# SPDX-License-Identifier: Apache-2.0
"""Which real hardware do the fleet's nodes carry, and in which ways can a tool print it?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from registry.domain.reports import DeviceEntry
from tests.fleet import serial, uuid
from tests.properties.model_records import SEVERAL

H100 = "NVIDIA H100 80GB HBM3"
GPU_SLOTS = tuple(f"0000:{0x10 + number:02x}:00.0" for number in range(3))
EFA_SLOTS = tuple(f"0000:{0x80 + number:02x}:00.0" for number in range(2))

Place = tuple[str, str]
"""Node and slot."""


def _gpu(number: int, **changes: str | None) -> DeviceEntry:
    entry = DeviceEntry("gpu", "nvidia", serial=serial(number), uuid=uuid(number), model=H100)
    return replace(entry, **changes)  # type: ignore[arg-type]


def _efa(number: int, serial_: str | None = None) -> DeviceEntry:
    return DeviceEntry("efa", "amazon", serial=serial_, mac=f"02:ab:00:00:{number:02x}:01", name="rdmap")


CARDS: dict[str, DeviceEntry] = {
    "one": _gpu(1),
    "two": _gpu(2),
    "three": _gpu(3),
    "no-serial": _gpu(4, serial="[N/A]"),
    "no-uuid": _gpu(5, uuid="[N/A]"),
    "left": _gpu(6, model=SEVERAL, module_id="1"),
    "right": _gpu(7, model=SEVERAL, module_id="2", serial=serial(6)),
    "efa-one": _efa(1),
    "efa-two": _efa(2),
    "efa-three": _efa(3),
    "efa-serial": _efa(4, "EFA0004"),
}
"""What each part prints when all can be read: boards of one and of two, with and without serial or UUID."""

PAIR = ("left", "right")
SINGLES = tuple(name for name in CARDS if name not in PAIR)

WAYS = ("whole", "uuid", "serial", "lost", "forged", "absent")
"""How an entry can be printed: all of it, one name only, none, with the serial of nobody, or not at all."""


def show(card: str, slot: str, way: str) -> DeviceEntry | None:
    """Print a card that sits in a slot."""
    entry = replace(CARDS[card], slot=slot)
    if way == "absent":
        return None
    if entry.kind == "efa":
        return entry if way != "lost" or entry.serial else replace(entry, mac=None)
    printed = {
        "uuid": replace(entry, serial="[N/A]"),
        "serial": replace(entry, uuid="ERR!"),
        "lost": replace(entry, serial="[N/A]", uuid="ERR!", model=None, module_id=None),
        "forged": replace(entry, serial=f"9{slot[5:7]}0000000001"),
    }
    return printed.get(way, entry)


@dataclass
class World:
    """Where each part really is; parts that are nowhere lie on the shelf."""

    where: dict[str, Place] = field(
        default_factory=lambda: {
            "one": ("a", GPU_SLOTS[0]),
            "two": ("a", GPU_SLOTS[1]),
            "left": ("b", GPU_SLOTS[0]),
            "right": ("b", GPU_SLOTS[1]),
            "no-serial": ("c", GPU_SLOTS[0]),
            "no-uuid": ("c", GPU_SLOTS[1]),
            "efa-one": ("a", EFA_SLOTS[0]),
            "efa-serial": ("b", EFA_SLOTS[0]),
            "efa-two": ("c", EFA_SLOTS[0]),
        }
    )

    def on(self, node: str) -> list[tuple[str, str]]:
        """The cards of a node with their slots, in the order of slots."""
        return sorted(((card, slot) for card, (at, slot) in self.where.items() if at == node), key=lambda one: one[1])

    def carry(self, card: str, node: str, number: int) -> None:
        """Put a card into a slot of its kind; what sat there takes its place."""
        slots = GPU_SLOTS if CARDS[card].kind == "gpu" else EFA_SLOTS
        place = (node, slots[number % len(slots)])
        other = next((one for one, at in self.where.items() if at == place), None)
        if other in PAIR or other == card:
            return
        old = self.where.pop(card, None)
        if other is not None:
            del self.where[other]
            if old is not None:
                self.where[other] = old
        self.where[card] = place

    def exchange(self, first: str, second: str) -> None:
        """Let two nodes exchange all their GPUs, as when trays are put into other racks."""
        names = {first: second, second: first}
        for card, (node, slot) in self.where.items():
            if CARDS[card].kind == "gpu":
                self.where[card] = (names.get(node, node), slot)
