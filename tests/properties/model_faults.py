# SPDX-License-Identifier: Apache-2.0
"""What is on record, and what does a fault change?"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from registry.domain.failures import Effect, look_up
from tests.properties.model_records import Bind, Conflict, Fault, Hold, Node, Stay, Unit
from tests.properties.model_sights import Seen, Sights

STALE, NEED, AHEAD = 120, 2, 5

Profile = tuple[dict[str, int | None], set[str], set[str]]
"""Expected counts, required checks, checks needed once a boot. All empty: nobody knows the profile."""


def _boot_of(node: Node) -> str:
    """Name the current boot of a node so that no other is called so."""
    return f"{node.name} {node.life} {node.boot}"


def _is_muted(node: Node | None, at: datetime) -> bool:
    return node is not None and node.maintenance.holds(at)


class Faults:
    """The records of the model, and what is told of faults."""

    def __init__(self, profiles: dict[str, Profile]) -> None:
        self.profiles = profiles
        self.units: list[Unit] = []
        self.stays: list[Stay] = []
        self.nodes: dict[str, Node] = {}
        self.holds: list[Hold] = []
        self.freed: list[tuple[set[Bind], datetime]] = []
        self.conflicts: list[Conflict] = []
        self.unattached: list[Fault] = []
        self.faults: dict[str, tuple[object, ...]] = {}
        self.sights = Sights()
        self.receipts: dict[tuple[str, str], tuple[bool, str | None, int]] = {}

    def profile(self, name: str) -> Profile:
        return self.profiles.get(name, ({}, set(), set()))

    def waiver(self, node: Node, kind: str, now: datetime) -> int | None:
        count, until = node.waivers.get(kind, (None, now))
        return count if until > now else None

    def expected(self, node: Node, kind: str, now: datetime) -> int | None:
        waived = self.waiver(node, kind, now)
        return self.profile(node.profile)[0].get(kind) if waived is None else waived

    def open_stays(self, node: Node) -> list[Stay]:
        return [one for one in self.stays if one.until is None and (one.node, one.life) == (node.name, node.life)]

    def placed(self, node: Node, kind: str) -> set[Unit]:
        return {one.unit for one in self.open_stays(node) if one.unit.kind == kind and not one.missing}

    def is_there(self, name: str, now: datetime) -> bool:
        node = self.nodes[name]
        return not node.retired and (now - node.reported_at).total_seconds() <= STALE

    def is_alive(self, conflict: Conflict, now: datetime) -> bool:
        return not conflict.is_contest or all(self.is_there(one, now) for one in conflict.nodes)

    def alive(self, node: Node, now: datetime) -> list[Conflict]:
        return [one for one in self.conflicts if node.name in one.nodes and self.is_alive(one, now)]

    def met(self, node: Node, now: datetime) -> list[Unit]:
        """Every unit whose holds meet a node: what is placed there, and what its conflicts are about."""
        return [one.unit for one in self.open_stays(node)] + [
            unit for one in self.alive(node, now) for unit in one.units
        ]

    def in_force(self, hold: Hold, now: datetime) -> bool:
        return hold.ends != "at_expiry" or hold.expires_at is None or now < hold.expires_at

    def meets(self, hold: Hold, node: Node) -> bool:
        return bool(hold.binds & {("name", node.name), ("life", node.life)})

    def units_of(self, hold: Hold, units: Iterable[Unit] | None = None) -> list[Unit]:
        among = self.units if units is None else units
        return [one for one in among if hold.binds & {("unit", one), ("board", one.board)}]

    def is_held(self, unit: Unit, now: datetime) -> bool:
        return any(self.in_force(one, now) and self.units_of(one, [unit]) for one in self.holds)

    def close(self, stay: Stay, now: datetime) -> None:
        stay.until, stay.unit.stay = now, None

    def _leave(self, node: Node, now: datetime) -> None:
        """A life is over, or the node is retired: nothing is placed there, and it contests nothing."""
        for stay in self.open_stays(node):
            self.close(stay, now)
        node.lost = set()
        node.have = 0
        gone = [one for one in self.conflicts if one.maker == node.name or (one.is_contest and node.name in one.nodes)]
        self.conflicts = [one for one in self.conflicts if one not in gone]

    def units_by(self, ref: str) -> list[Unit]:
        """Every unit that a serial or UUID fits."""
        return [one for one in self.units if ref in (one.uuid, one.board.serial)]

    def fail_device(self, id_: str, code: str, ref: str, now: datetime) -> str:
        """A fault of the device with this serial or UUID, now."""
        if (known := self._again(id_, (code, ref))) is not None:
            return known
        found = self.units_by(ref)
        if len(found) != 1:
            return "refused"
        self.faults[id_] = (code, ref)
        last = [one for one in self.stays if one.unit is found[0]][-1:]
        where = self.nodes[last[0].node] if last else None
        boot = _boot_of(where) if where else None
        return self._tell(Seen(found[0], code, boot, None, _is_muted(where, now)), None, now, now, is_past=False)

    def _tell(self, seen: Seen, node: Node | None, at: datetime, now: datetime, *, is_past: bool) -> str:
        """A fault of a unit: one more sight of what is on record has effect when it is the newest."""
        what = self.sights.take(seen, at)
        has_effect = not seen.is_muted or not look_up(seen.code).is_fault
        if has_effect and (what == "new" or (what == "again" and not is_past)):
            self._take_effect(seen.code, seen.unit, node, at, now, is_past=is_past)
        return "recorded"

    def fail_slot(self, id_: str, code: str, name: str, slot: str, at: datetime | None, now: datetime) -> str:
        """A fault at (node, slot, time). The node is known."""
        if (known := self._again(id_, (code, name, slot, at))) is not None:
            return known
        self.faults[id_] = (code, name, slot, at)
        node, then = self.nodes[name], at or now
        is_past = then < node.boot_at and len(node.boots) > 1
        kind = "gpu" if int(slot[5:7], 16) < 0x80 else "efa"
        first = node.first_list_at.get(kind)
        is_before_list = not is_past and not node.retired and (first is None or then < first)
        unit = self._unit_at(name, slot, first or then if is_before_list else then)
        if is_before_list and first is None:
            unit = None  # what was there before the boot may be gone: the list to come says who it is
        if unit is not None:
            boot = None if is_past else _boot_of(node)
            return self._tell(Seen(unit, code, boot, at, _is_muted(node, then)), node, then, now, is_past=is_past)
        is_muted = _is_muted(node, then)
        is_early = first is None and not is_past
        effect = look_up(code).effect  # with a boot that is over ends what does not outlive one
        is_blocking = effect.is_blocking and not is_muted and (not is_past or effect is Effect.PERMANENT)
        self.unattached.append(
            Fault(
                id_,
                code,
                name,
                node.life,
                slot,
                then,
                node.boot,
                is_early,
                occurred=at,
                is_muted=is_muted,
                is_blocking=is_blocking,
            )
        )
        if not is_muted or not look_up(code).is_fault:
            self._take_effect(code, None, node, then, now, is_past=is_past)
        return "recorded"

    def fail_node(self, id_: str, code: str, name: str, now: datetime) -> str:
        """A fault of a node as a whole, now."""
        if (known := self._again(id_, (code, name))) is not None:
            return known
        self.faults[id_] = (code, name)
        node = self.nodes[name]
        is_muted = _is_muted(node, now)
        if look_up(code).effect is Effect.PERMANENT and not is_muted:  # nobody's, and passes do not end it
            self.unattached.append(Fault(id_, code, name, node.life, "", now, node.boot, is_early=False))
        if not is_muted or not look_up(code).is_fault:
            self._take_effect(code, None, node, now, now, is_past=False)
        return "recorded"

    def _again(self, id_: str, said: tuple[object, ...]) -> str | None:
        if id_ not in self.faults:
            return None
        return "already_recorded" if self.faults[id_] == said else "refused"

    def _unit_at(self, name: str, slot: str, at: datetime) -> Unit | None:
        stays = [one for one in self.stays if (one.node, one.slot) == (name, slot)]
        then = [one for one in stays if one.since <= at and (one.until is None or one.until > at)]
        return then[-1].unit if then else None

    def attach_waiting(self, node: Node, covers: frozenset[str], now: datetime) -> None:
        """The first list of a boot says whose the faults were that came before it."""
        for fault in [
            one for one in self.unattached if one.is_early and (one.node, one.boot) == (node.name, node.boot)
        ]:
            kind = "gpu" if int(fault.slot[5:7], 16) < 0x80 else "efa"
            if kind not in covers or fault.life != node.life:
                continue
            fault.is_early = False
            here = [one.unit for one in self.open_stays(node) if one.slot == fault.slot]
            if here:
                self.unattached.remove(fault)
                self.sights.note(Seen(here[0], fault.code, _boot_of(node), fault.occurred, fault.is_muted), fault.at)
                if not fault.is_muted or not look_up(fault.code).is_fault:
                    self._take_effect(fault.code, here[0], node, fault.at, now, is_past=False)

    def _take_effect(
        self, code: str, unit: Unit | None, node: Node | None, at: datetime, now: datetime, *, is_past: bool
    ) -> None:
        kind = look_up(code)
        if not kind.is_fault:
            self._restart(unit, node, at)
            return
        is_permanent = kind.effect is Effect.PERMANENT
        carrier = self.nodes[unit.stay.node] if unit and unit.stay else None if unit else node
        if carrier is not None and kind.effect.is_blocking and (is_permanent or not is_past):
            carrier.have, carrier.fault_at = 0, now
        if is_past and not is_permanent and carrier is not None and carrier is node:
            return  # it has booted since, and proves itself by passes
        if unit is not None and kind.effect in {Effect.QUARANTINE, Effect.PERMANENT}:
            boot = (node.boot_at, _boot_of(node)) if node is not None and not is_past else None
            self._hold_by_rule(code, unit, "manual" if is_permanent else "after_passes", at, boot)

    def _hold_by_rule(self, code: str, unit: Unit, ends: str, at: datetime, boot: tuple[datetime, str] | None) -> None:
        bind: Bind = ("board", unit.board) if unit.kind == "gpu" else ("unit", unit)
        if any(binds & {bind, ("unit", unit)} and at <= freed_at for binds, freed_at in self.freed):
            return
        owner = f"rule:{code}"
        for hold in self.holds:
            if hold.owner != owner or bind not in hold.binds:
                continue
            is_of_restart = boot is not None and boot[0] == hold.restart_at
            if hold.restart_at is None or at >= hold.restart_at or is_of_restart:
                hold.fault_at, hold.restart_at, hold.clean_runs = max(hold.fault_at, at), None, 0
                hold.fault_boot = max((one for one in (hold.fault_boot, boot) if one), default=None)
            return
        self.holds.append(Hold("", owner, bind, {bind}, ends, self._is_place(unit), at, boot))

    def _is_place(self, unit: Unit) -> bool:
        return unit.kind == "efa" and unit.board.serial is None

    def _restart(self, unit: Unit | None, node: Node | None, at: datetime) -> None:
        units = [unit] if unit else [one.unit for one in self.open_stays(node)] if node else []
        for hold in self.holds:
            if self.units_of(hold, units) and hold.restart_at is None and at > hold.fault_at:
                hold.restart_at = at
