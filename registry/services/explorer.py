# SPDX-License-Identifier: Apache-2.0
"""What would you say to these, and why? Names as somebody pasted them, each with what it is and the decision on it.

Decided is by `admission.preview`, as for `POST /v1/admissions`; nothing is written.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from registry.domain.identifiers import IdentifierType, is_mig_name, why_unusable
from registry.domain.pasted import Asked
from registry.domain.policy import Policy
from registry.services.admission import preview
from registry.services.targets import VENDORS, awaited_refs, find_units, forms_of, type_of, usable_value
from registry.store import devices, holds, nodes, placements
from registry.store.database import Database, Snapshot
from registry.store.devices import Device


class Named(StrEnum):
    """What a name turned out to be."""

    NODE = "node"
    """A node on record, retired ones too."""
    DEVICE = "device"
    """One or more devices on record."""
    BOTH = "node and device"
    """A row that names both, or a word that fits both."""
    AWAITED = "awaited"
    """Nothing on record, and yet a hold waits for it."""
    UNKNOWN = "unknown"
    """Nothing on record, and nothing waits for it."""
    NOTHING = "nothing"
    """It names nothing at all."""


@dataclass(frozen=True, slots=True)
class Found:
    """One name with its answer. `decision` is as the API gives it, None where there is nothing to decide about.

    `places` are the nodes on which its devices are now, by the device's id. `said` is the answer in a sentence.
    """

    asked: Asked
    named: Named
    said: str
    decision: Mapping[str, Any] | None = None
    devices: tuple[Device, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The disposition, or `unknown` where there is no decision."""
        return str(self.decision["disposition"]) if self.decision else "unknown"


@dataclass(frozen=True, slots=True)
class _Read:
    """One name in the forms in which it may be on record; `typed` is what it may be where nobody has seen it."""

    asked: Asked
    forms: frozenset[str]
    typed: tuple[tuple[IdentifierType, str], ...]

    @property
    def node(self) -> str | None:
        """What may be the name of a node."""
        return self.asked.node or self.asked.word


@dataclass(frozen=True, slots=True)
class _Known:
    """What the records have of all names that are asked for: `awaited` are identifiers that open holds wait for."""

    nodes: Container[str]
    devices: Mapping[str, Sequence[Device]]
    awaited: Container[str]


def explore(db: Database, asked: Sequence[Asked], *, policy: Policy, now: datetime) -> list[Found]:
    """Answer each name, in their order. Writes nothing. Raises StoreUnavailable."""
    read = [_read(one) for one in asked]
    with db.read() as snapshot:
        known = _load(snapshot, read)
        named = [_candidate(one, known) for one in read]
        candidates = [candidate for _, candidate, _ in named if candidate]
        decisions = iter(preview(db, candidates, policy=policy, now=now))
        units = {unit.id for _, _, found in named for unit in found}
        places = {id_: one.node for id_, one in placements.open_of(snapshot, units).items()}
        return [
            _found(one, what, next(decisions) if candidate else None, found, places)
            for one, (what, candidate, found) in zip(asked, named, strict=True)
        ]


# --- what it is -------------------------------------------------------------------------------------------------------


def _read(one: Asked) -> _Read:
    words = [value for _, value in one.identifiers] or ([one.word] if one.word else [])
    typed = one.identifiers if one.word is None or _why_nothing(one.word) else ((type_of(one.word), one.word),)
    return _Read(
        one,
        frozenset(form for word in words for form in forms_of(word)),
        tuple((type_, usable_value(type_, value)) for type_, value in typed),
    )


def _why_nothing(word: str) -> str | None:
    return why_unusable(type_of(word), word)


def _load(snapshot: Snapshot, read: Sequence[_Read]) -> _Known:
    found: dict[str, Sequence[Device]] = {
        **devices.devices_named(snapshot, {form for one in read for form in one.forms})
    }
    slices = {one.asked.word for one in read if one.asked.word and is_mig_name(one.asked.word)}
    found |= {name: units for name in slices if (units := find_units(snapshot, name))}
    names = nodes.ids_of(snapshot, {one.node for one in read if one.node})
    unseen = {ref for one in read for ref in _refs(one, found)}
    return _Known(names, found, holds.open_for_identifiers(snapshot, unseen))


def _unseen(one: _Read, found: Container[str]) -> list[tuple[IdentifierType, str]]:
    return [(type_, value) for type_, value in one.typed if value not in found]


def _refs(one: _Read, found: Container[str]) -> Iterator[str]:
    """By which an open hold may wait for what it names and nobody has seen."""
    for type_, value in _unseen(one, found):
        yield from awaited_refs(type_, value)


def _candidate(one: _Read, known: _Known) -> tuple[Named, Mapping[str, Any] | None, list[Device]]:
    """Say what a name is, how the decision on it is asked for, and which devices it means."""
    if one.asked.problem is not None:
        return Named.NOTHING, None, []
    found = {unit.id: unit for form in one.forms for unit in known.devices.get(form, ())}
    candidate: dict[str, Any] = {}
    if one.asked.node is not None or (one.node is not None and one.node in known.nodes):
        candidate["node"] = one.node
    if found:
        candidate["devices"] = sorted(found)
    if any(ref in known.awaited for ref in _refs(one, known.devices)):
        candidate["identifiers"] = [
            {"kind": kind, "vendor": vendor, "type": type_, "value": value}
            for type_, value in _unseen(one, known.devices)
            for kind, vendor in VENDORS
        ]
    return _named(one.asked, candidate), candidate or None, [found[id_] for id_ in sorted(found)]


def _named(one: Asked, candidate: Mapping[str, Any]) -> Named:
    if "node" in candidate:
        return Named.BOTH if "devices" in candidate else Named.NODE
    if "devices" in candidate:
        return Named.DEVICE
    if candidate:
        return Named.AWAITED
    return Named.NOTHING if one.word and _why_nothing(one.word) else Named.UNKNOWN


# --- what is said of it -----------------------------------------------------------------------------------------------


def _found(
    one: Asked, what: Named, decision: Mapping[str, Any] | None, units: Sequence[Device], places: Mapping[str, str]
) -> Found:
    here = {unit.id: places[unit.id] for unit in units if unit.id in places}
    return Found(one, what, _said(one, what, decision, units), decision, tuple(units), here)


def _said(one: Asked, what: Named, decision: Mapping[str, Any] | None, units: Sequence[Device]) -> str:
    """Answer in a sentence; why not is told by the reasons beside it."""
    if what is Named.NOTHING:
        return f"This line {one.problem or f'names nothing: it {_why_nothing(one.word or str())}'}."
    if decision is None or (what is Named.AWAITED and decision["admitted"]):
        return (
            "Unknown: no node and no device bears this name, and no hold waits for it. A node is judged once it has "
            "reported, a device once a list shows it."
        )
    if what is Named.AWAITED:
        return "Never seen here, and a hold waits for it: no node that carries it will be admitted."
    many = f"{len(units)} devices bear this name. " if len(units) > 1 else ""
    if not decision["admitted"]:
        return f"{many}Not admitted."
    if what is Named.DEVICE:
        return f"{many}No hold meets it. The node that carries it needs clean passes of its own."
    return f"{many}Admitted: it may take work."


def table_of(found: Iterable[Found]) -> list[list[str]]:
    """Give the answers as a table, its head first, for whoever goes on with them elsewhere."""
    head = ["line", "given", "is", "admitted", "disposition", "reasons", "why", "retry_at", "devices", "nodes"]
    return [head, *(_line(one) for one in found)]


def _line(found: Found) -> list[str]:
    decision = found.decision or {}
    reasons: Sequence[Mapping[str, Any]] = decision.get("reasons", ())
    admitted = "unknown" if found.decision is None else "yes" if decision["admitted"] else "no"
    return [
        str(found.asked.number),
        found.asked.text,
        str(found.named),
        admitted,
        found.verdict,
        " ".join(dict.fromkeys(str(one["code"]) for one in reasons)),
        " ".join(str(one["message"]) for one in reasons) or found.said,
        next((str(one["retry_at"]) for one in reasons if "retry_at" in one), ""),
        " ".join(unit.id for unit in found.devices),
        " ".join(sorted(set(found.places.values()))),
    ]
