# SPDX-License-Identifier: Apache-2.0
"""What does a person want to see of one node: what stands against it, slot by slot, and who was there before?"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from registry.domain.condition_shown import Condition
from registry.domain.decision import DeviceRef
from registry.domain.passes import retry_at
from registry.domain.policy import Policy
from registry.domain.reports import Kind
from registry.domain.slot_grid import Cell, CellState, Grid, grid_of
from registry.services.admission import load_facts
from registry.services.nodes import show_node
from registry.services.pages import PageRequest
from registry.services.quarantine import list_quarantines
from registry.services.repairs import list_repairs
from registry.store import devices, node_words, nodes, placements, search, tenants
from registry.store.database import Database, Snapshot
from registry.store.nodes import Node, NodeState
from registry.store.placements import Placement
from registry.store.tenants import BootOfLife, FaultHere, Life

LIVES_MAX, BOOTS_MAX = 10, 5
TENANTS_MAX = 3
"""Previous tenants shown of each slot; the history has all of them."""
STAYS_MAX = 24
"""How many stays in a slot are looked at for them: a machine that comes anew ends those of all its devices."""
SLOTS_MAX = 256
FAULTS_MAX = 3
REPAIRS_MAX = 10
HOLDS_MAX = 50
WORDS_MAX = 200

_CELLS = {
    "quarantined": CellState.QUARANTINED,
    "conflict": CellState.CONFLICT,
    "missing": CellState.MISSING,
    "unidentified": CellState.UNIDENTIFIED,
}
"""The states of units that a cell says; otherwise it is in service here, or elsewhere."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The clean passes that stand. `next_at` is when a run that could count may begin, None when none is lacking."""

    have: int
    need: int
    next_at: datetime | None
    counted_start: datetime | None
    counted_end: datetime | None
    counted_total: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """A unit that was in a slot before: since when and until when, what failed there, and what it is now."""

    stay: Placement
    device: DeviceRef
    model: str | None
    state: str
    node_now: str | None
    faults: tuple[FaultHere, ...]

    @property
    def is_hardware(self) -> bool:
        """True for what is known by its hardware; what is known by its place alone is new with each instance."""
        return bool(self.device.serial or self.device.uuid)


@dataclass(frozen=True, slots=True)
class LifeShown:
    """An instance of the node's name, with its newest boots."""

    life: Life
    boots: tuple[BootOfLife, ...]
    is_current: bool


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node's page. `node` is what the API answers of it; `more_lives` and the like say that not all is shown."""

    node: Mapping[str, Any]
    grids: tuple[Grid, ...]
    passes: Passes
    conditions: tuple[Condition, ...]
    tenants: tuple[Tenant, ...]
    lives: tuple[LifeShown, ...]
    more_lives: bool
    repairs: tuple[Mapping[str, Any], ...]
    more_repairs: bool
    holds: tuple[Mapping[str, Any], ...]


def view_node(db: Database, name: str, *, policy: Policy, now: datetime) -> NodeView:
    """Return all of it, from one snapshot. Raises NotFound, StoreUnavailable."""
    with db.read() as snapshot:
        shown = show_node(db, name, policy=policy, now=now)
        node = nodes.find_node(snapshot, name)
        assert node is not None  # noqa: S101 - it was shown a line above
        state = nodes.find_state(snapshot, node.id)
        open_ = placements.open_here(snapshot, state.instance_id) if state else []
        facts = load_facts(snapshot, name, policy=policy, now=now)
        repairs = list_repairs(db, {"node": name}, PageRequest(REPAIRS_MAX))
        holds = list_quarantines(db, {"node": name, "state": "open"}, PageRequest(HOLDS_MAX), now=now)
        lives = tenants.lives_of(snapshot, node.id, LIVES_MAX + 1)
        return NodeView(
            node=shown,
            grids=_grids(snapshot, shown, open_, facts.listed_counts, facts.expected_counts),
            passes=_passes(shown, state, policy, now),
            conditions=facts.conditions,
            tenants=tuple(_tenants(snapshot, node, open_, now)),
            lives=tuple(_life(snapshot, one, state) for one in lives[:LIVES_MAX]),
            more_lives=len(lives) > LIVES_MAX,
            repairs=tuple(repairs.items),
            more_repairs=repairs.next is not None,
            holds=tuple(holds.items),
        )


def words_of_nodes(db: Database) -> tuple[list[str], list[str]]:
    """Return the profiles and the zones that nodes name, the first so many of each, for whoever filters by them."""
    with db.read() as snapshot:
        return node_words.profiles_named(snapshot, WORDS_MAX), node_words.zones_named(snapshot, WORDS_MAX)


def _passes(shown: Mapping[str, Any], state: NodeState | None, policy: Policy, now: datetime) -> Passes:
    have, need = shown["passes"]["have"], shown["passes"]["need"]
    if state is None:
        return Passes(have, need, None, None, None, 0)
    again = retry_at(state.counted_start, policy, now) if have < need and shown["retired_at"] is None else None
    return Passes(have, need, again, state.counted_start, state.counted_end, state.counted_total)


# --- the slots --------------------------------------------------------------------------------------------------------


def _grids(
    snapshot: Snapshot,
    shown: Mapping[str, Any],
    open_: Iterable[Placement],
    counts: Mapping[str, int | None],
    expected: Mapping[str, int | None],
) -> tuple[Grid, ...]:
    """A grid for each kind that is listed, expected or missing."""
    placed = {one.device_id: one for one in open_}
    listed = [_listed(line, placed) for line in shown["devices"]]
    shown_ids = {one.device.id for one in listed}
    gone = [one for one in placed.values() if one.device_id not in shown_ids]
    unlisted = list(_unlisted(snapshot, gone))
    grids = (
        grid_of(
            kind,
            [one for one in listed if one.kind == kind],
            [one for one in unlisted if one.kind == kind],
            count=counts.get(kind),
            expected=expected.get(kind),
        )
        for kind in Kind
    )
    return tuple(one for one in grids if one.cells or one.listed or one.expected)


def _listed(line: Mapping[str, Any], placed: Mapping[str, Placement]) -> Cell:
    """The cell of one line of the newest list."""
    place = placed.get(line["id"] or "")
    state = _CELLS.get(line["state"], CellState.IN_SERVICE if place else CellState.ELSEWHERE)
    celsius = line["readings"].get("temperature_celsius")
    return Cell(
        line["kind"],
        state,
        DeviceRef(line["id"], line["kind"], line["serial"], line["uuid"], line["slot"]),
        line["model"],
        line["name"],
        since=place.since_at if place else None,
        celsius=celsius if isinstance(celsius, int | float) else None,
        note=line["reason"],
    )


def _unlisted(snapshot: Snapshot, gone: Sequence[Placement]) -> Iterator[Cell]:
    """The cells of what is placed here and stands in no line: missing, or left out by a list that was partial."""
    units = devices.get_devices(snapshot, [one.device_id for one in gone])
    for place in gone:
        unit = units[place.device_id]
        ref = DeviceRef(unit.id, unit.kind, unit.serial, unit.uuid, place.slot)
        note = None if place.missing_since else "Not in the newest list, which was a part of one."
        state = CellState.MISSING if place.missing_since else CellState.IN_SERVICE
        yield Cell(unit.kind, state, ref, unit.model, unit.name, since=place.missing_since or place.since_at, note=note)


# --- who was here before ----------------------------------------------------------------------------------------------


def _tenants(snapshot: Snapshot, node: Node, open_: Iterable[Placement], now: datetime) -> Iterator[Tenant]:
    """Yield the newest few that left each slot, slot by slot."""
    here = {(one.slot, one.device_id) for one in open_}
    stays = [
        stay
        for slot in tenants.slots_ever(snapshot, node.id, SLOTS_MAX)
        for stay in _joined(placements.newest_closed(snapshot, node.id, slot, STAYS_MAX), here)[:TENANTS_MAX]
    ]
    ids = {one.device_id for one in stays}
    units, places = devices.get_devices(snapshot, ids), placements.open_of(snapshot, ids)
    states = search.states_of(snapshot, sorted(ids), now)
    for stay in stays:
        unit, place = units[stay.device_id], places.get(stay.device_id)
        yield Tenant(
            stay,
            DeviceRef(unit.id, unit.kind, unit.serial, unit.uuid, stay.slot),
            unit.model,
            states[unit.id],
            place.node if place else None,
            tuple(tenants.faults_during(snapshot, stay, FAULTS_MAX)),
        )


def _joined(stays: Iterable[Placement], here: Container[tuple[str | None, str]]) -> list[Placement]:
    """Join what a machine that came anew under the name has cut in two: one unit in one slot is one tenant.

    Whoever is there still has not left.
    """
    found: list[Placement] = []
    for stay in stays:
        if found and found[-1].device_id == stay.device_id:
            found[-1] = replace(found[-1], since_at=stay.since_at)
        elif found or (stay.slot, stay.device_id) not in here:
            found.append(stay)
    return found


def _life(snapshot: Snapshot, life: Life, state: NodeState | None) -> LifeShown:
    boots = tenants.boots_of(snapshot, life.id, BOOTS_MAX)
    return LifeShown(life, tuple(boots), is_current=state is not None and state.instance_id == life.id)
