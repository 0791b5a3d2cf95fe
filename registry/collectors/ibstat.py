# SPDX-License-Identifier: Apache-2.0
"""What do `ibstat` and `ibstatus` say of the RDMA cards? Which ports are down; never what a card is.

Neither prints a PCI vendor, a driver or a slot, so nothing here is ever a list of EFAs: an EFA looks like any card
without a type (https://github.com/amzn/amzn-drivers/issues/114). The states become remarks and readings for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from registry.collectors.nvidia_smi_text import shown
from registry.collectors.rdma import MAX_DEVICES, check_value, lines, read_text
from registry.collectors.running import Runner, ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Findings, Notice, Reading

_TOOL = "ibstat"
_CARD = re.compile(r"CA '([^']*)'")
_CARD_AND_PORT = re.compile(r"Infiniband device '([^']*)' port ([0-9]{1,5}) status:", re.IGNORECASE)
_PORT = re.compile(r"Port ([0-9]{1,5}):")
_FIELD = re.compile(r"([A-Za-z_][A-Za-z_ ]{0,30}):\s*(.*)")
_KEPT = {
    "ca type": "card_type",
    "firmware version": "firmware",
    "node guid": "node_guid",
    "state": "port_{port}_state",
    "physical state": "port_{port}_phys_state",
    "phys state": "port_{port}_phys_state",
    "rate": "port_{port}_rate",
    "link layer": "port_{port}_link_layer",
    "link_layer": "port_{port}_link_layer",
}
_MAX_READINGS = 256


@dataclass(slots=True)
class _Place:
    """Which card and which of its ports the next lines speak of."""

    card: str | None = None
    port: str | None = None
    cards: dict[str, dict[str, Reading]] = field(default_factory=dict)


def collect(root: Path, run: Runner) -> Findings:  # noqa: ARG001 - all collectors are called alike
    """Run `ibstat`, or `ibstatus` where that is missing. Raises ToolMissing, ToolFailed, PartUnreadable."""
    try:
        return parse(run(["ibstat"]))
    except ToolMissing:
        return parse(run(["ibstatus"]))


def parse(data: bytes) -> Findings:
    """Return readings by the cards' RDMA names, and a remark for each port that is not active. Raises PartUnreadable.

    There is no check in it: no card here is a device of the records, and a port may be unused on purpose.
    """
    place = _Place()
    for line in lines(read_text(data, _TOOL), _TOOL):
        _read_line(place, line.strip())
    if not place.cards:
        raise PartUnreadable(f"no card is listed; send what `{_TOOL}` or `ibstatus` printed")
    return Findings(readings=place.cards, warnings=tuple(_inactive(place)))


def _read_line(place: _Place, line: str) -> None:
    card, both, port = _CARD.fullmatch(line), _CARD_AND_PORT.fullmatch(line), _PORT.fullmatch(line)
    named = card or both
    if named is not None:
        _begin(place, check_value("card", named[1], _TOOL), both[2] if both else None)
    elif place.card is None:
        raise PartUnreadable(f"this is not of ibstat: {shown(line)}; send what `{_TOOL}` or `ibstatus` printed")
    elif port is not None:
        place.port = port[1]
    else:
        _keep(place, line)


def _begin(place: _Place, card: str, port: str | None) -> None:
    is_known = card in place.cards
    if not card or (is_known and (port is None or f"port_{port}_state" in place.cards[card])):
        raise PartUnreadable(f"the card {shown(card)} is listed twice; send the output of one run")
    place.card, place.port = card, port
    place.cards.setdefault(card, {})
    if len(place.cards) > MAX_DEVICES:
        raise PartUnreadable(f"the output lists more than {MAX_DEVICES} cards; no machine has as many")


def _keep(place: _Place, line: str) -> None:
    found = _FIELD.fullmatch(line)
    if found is None or place.card is None:
        raise PartUnreadable(f"this is not of ibstat: {shown(line)}; send what `{_TOOL}` or `ibstatus` printed")
    name = _KEPT.get(found[1].strip().lower())
    readings = place.cards[place.card]
    if name is None or len(readings) >= _MAX_READINGS or ("{port}" in name and place.port is None):
        return
    # ibstatus numbers its states: `4: ACTIVE`.
    text = re.sub(r"^[0-9]+: ", "", found[2].strip())
    readings[name.format(port=place.port)] = check_value(name, text, _TOOL) or None


def _inactive(place: _Place) -> Iterator[Notice]:
    for card, readings in place.cards.items():
        for name, text in readings.items():
            if name.endswith("_state") and "_phys_" not in name and str(text).lower() != "active":
                phys = readings.get(name.replace("_state", "_phys_state"))
                port = name.split("_")[1]
                yield Notice("rdma_port_inactive", f"Port {port} of {card} is {text} (physical state {phys}).")
