# SPDX-License-Identifier: Apache-2.0
"""What may happen between reports, and what does it change? Holds, releases, waivers, retirement."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.properties.model_faults import AHEAD, NEED, Faults
from tests.properties.model_records import Bind, Hold, Node, asks_for_more, strictness


class Acts(Faults):
    """Everything but reports."""

    def hold(
        self,
        target: dict[str, object],
        owner: str,
        now: datetime,
        *,
        ends: str,
        unit_only: bool,
        by_name: bool,
        permanent: bool,
        drain: bool,
        expires_at: datetime | None,
    ) -> str:
        """Open a hold on one target: `opened`, `already_open` or `refused`. A new one waits for its id."""
        binds, key, is_place, of_node = self._target(target, unit_only=unit_only, by_name=by_name)
        if not binds:
            return "refused"
        self.sweep(now)  # opening tidies up first
        hold = Hold("", owner, key, binds, ends, is_place, now, None, permanent, expires_at, drain, of_node=of_node)
        held = next((one for one in self.holds if one.owner == owner and one.binds & binds), None)
        if held is not None:
            if not asks_for_more(hold, held):
                return "already_open"
            stricter = max(hold, held, key=strictness)
            hold.ends, hold.expires_at = stricter.ends, stricter.expires_at
            hold.permanent, hold.drain = permanent or held.permanent, drain or held.drain
            self.holds.remove(held)
        self.holds.append(hold)
        return "opened"

    def _target(
        self, target: dict[str, object], *, unit_only: bool, by_name: bool
    ) -> tuple[set[Bind], object, bool, str | None]:
        if "node" in target:
            name = str(target["node"])
            node = self.nodes.get(name)
            bind: Bind = ("name", name) if node is None or by_name else ("life", node.life)
            return {bind}, bind, False, name
        asked = target.get("identifier")
        if isinstance(asked, dict):
            kind, type_, value = asked["kind"], asked["type"], asked["value"]
            found = [one for one in self.units if one.kind == kind]
            found = [one for one in found if value == (one.uuid if type_ == "uuid" else one.board.serial)]
            if not found:
                unseen: Bind = ("identifier", (kind, type_, value))
                return {unseen}, unseen, False, None
        else:
            found = self.units_by(str(target["device"]))
        if not found or (unit_only and len(found) > 1):
            return set(), None, False, None
        unit = found[0]
        bind = ("unit", unit) if unit_only or (unit.kind == "efa" and len(found) == 1) else ("board", unit.board)
        return {bind}, bind, self._is_place(unit), None

    def release(self, hold: Hold, now: datetime) -> None:
        """A person ends a hold: whatever it met has to prove itself anew."""
        self.holds.remove(hold)
        self.freed.append((set(hold.binds), now))
        names = {unit.stay.node for unit in self.units_of(hold) if unit.stay}
        for name in names | ({hold.of_node} if hold.of_node else set()):
            if name in self.nodes:
                self.nodes[name].have, self.nodes[name].release_at = 0, now

    def count_towards_release(self, node: Node, end: datetime) -> None:
        """A clean run covers everything placed on the node."""
        units = [one.unit for one in self.open_stays(node) if not one.missing]
        for hold in [one for one in self.holds if one.ends == "after_passes" and self.units_of(one, units)]:
            is_later = hold.fault_boot is None or node.boot_at > hold.fault_boot[0]
            if hold.restart_at is None and node.boot_at > hold.fault_at and is_later:
                hold.restart_at = node.boot_at
            if hold.restart_at is None or end < hold.restart_at - timedelta(seconds=AHEAD):
                continue
            hold.clean_runs += 1
            if hold.clean_runs >= NEED:
                self.holds.remove(hold)

    def sweep(self, now: datetime) -> None:
        """What is over is over, swept or not."""
        self.holds = [one for one in self.holds if self.in_force(one, now)]

    def retire(self, name: str, now: datetime) -> None:
        """The node will not come back, as far as anybody knows."""
        node = self.nodes[name]
        if node.retired:
            return
        self._leave(node, now)
        node.retired = True
        node.counted_start = node.counted_end = None
        node.checks, node.rounds, node.listed = {}, {}, {}
        node.first_list_at = {}
        for fault in self.unattached:  # a node that comes back begins anew: its next list is the first again
            fault.is_early |= bool(fault.slot) and (fault.node, fault.life, fault.boot) == (name, node.life, node.boot)

    def waive(self, name: str, kind: str, count: int, until: datetime, now: datetime) -> None:
        """Accept a count; what is missing is let go. A time that is over ends it."""
        node = self.nodes[name]
        node.waivers[kind] = (count, until)
        for stay in self.open_stays(node) if until > now else ():
            if stay.unit.kind == kind and stay.missing:
                self.close(stay, now)
