# SPDX-License-Identifier: Apache-2.0
"""Who are the entries of a list? The rows of the rules once more, as plainly as they can be said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from registry.domain.reports import DeviceEntry
from tests.properties.model_records import SEVERAL, Board, Line, Node, Stay, Unit, usable


class Reader:
    """Reads one list of a node against units and stays. `is_live` tells of a node's name whether it is there."""

    def __init__(
        self, node: Node, units: Sequence[Unit], stays: Sequence[Stay], is_live: Callable[[str], bool]
    ) -> None:
        self.node, self.units, self.is_live = node, units, is_live
        self.here = [one for one in stays if (one.node, one.life) == (node.name, node.life)]
        self.taken: set[Unit] = set()
        self.disputed: set[Unit] = set()
        self.new_boards: dict[str, Board] = {}

    def read(self, entries: Iterable[DeviceEntry]) -> list[Line]:
        """One line per entry."""
        lines = [Line(entry) for entry in entries]
        gpus = [one for one in lines if one.entry.kind == "gpu"]
        self.serials = Counter(usable(one.entry.serial) for one in gpus)
        self._repeated(gpus)
        self._known_uuids(gpus)
        self._new_uuids(gpus)
        self._serials(gpus)
        self._efas([one for one in lines if one.entry.kind == "efa"])
        self._slots(gpus)
        self._two_nodes(lines)
        self._boards(gpus)
        return lines

    # --- words ---

    def by_uuid(self, uuid: str | None) -> Unit | None:
        return next((one for one in self.units if one.kind == "gpu" and uuid and one.uuid == uuid), None)

    def board(self, kind: str, serial: str | None) -> Board | None:
        known = next(
            (one.board for one in self.units if one.kind == kind and serial and one.board.serial == serial), None
        )
        return known or (self.new_boards.get(serial) if serial and kind == "gpu" else None)

    def on(self, board: Board | None) -> list[Unit]:
        return [one for one in self.units if one.board is board]

    def free(self, unit: Unit) -> bool:
        return unit not in self.taken and unit not in self.disputed

    def elsewhere(self, unit: Unit) -> bool:
        """Placed on another node that is there and does not miss it."""
        stay = unit.stay
        return stay is not None and not stay.missing and stay.node != self.node.name and self.is_live(stay.node)

    def mine(self, unit: Unit) -> bool:
        """Here, or nowhere."""
        return unit.stay is None or (unit.stay.node, unit.stay.life) == (self.node.name, self.node.life)

    def last_in(self, kind: str, slot: str | None) -> Unit | None:
        stays = [one for one in self.here if one.slot == slot and one.unit.kind == kind]
        return stays[-1].unit if stays else None

    def in_slot(self, kind: str, slot: str | None) -> Unit | None:
        """The one there that no line is yet; of two that one list put there, neither."""
        open_ = [one.unit for one in self.here if one.slot == slot and one.until is None and one.unit.kind == kind]
        left = [unit for unit in open_ if self.free(unit)]
        return left[0] if len(left) == 1 else None

    def dispute(self, line: Line, rule: str, units: Iterable[Unit | None]) -> None:
        found = [one for one in units if one is not None]
        line.outcome, line.rule, line.unit, line.board = "conflict", rule, None, None
        line.involved = list(dict.fromkeys(found))
        self.disputed.update(found)

    def give(self, wanted: list[tuple[Line, Unit | None]], *, by_slot: bool = False) -> None:
        """Each unit to the one line that wants it."""
        rivals = Counter(unit for _, unit in wanted)
        for line, unit in wanted:
            if unit is not None and rivals[unit] == 1 and self.free(unit):
                self.taken.add(unit)
                line.outcome, line.unit, line.by_slot = "known", unit, by_slot

    def register(self, line: Line, board: Board | None) -> None:
        line.outcome, line.board = "new", board

    # --- rows ---

    def _repeated(self, gpus: list[Line]) -> None:
        shown = Counter(usable(one.entry.uuid) for one in gpus)
        for one in gpus:
            uuid = usable(one.entry.uuid)
            if uuid and shown[uuid] > 1:
                serials = self.on(self.board("gpu", usable(one.entry.serial)))
                self.dispute(one, "uuid_repeated", [self.by_uuid(uuid), *serials])

    def _known_uuids(self, gpus: list[Line]) -> None:
        for one in gpus:
            unit, serial = self.by_uuid(usable(one.entry.uuid)), usable(one.entry.serial)
            if one.outcome or unit is None:
                continue
            holder = self.board("gpu", serial)
            if serial is None or unit.board.serial == serial or (unit.board.serial is None and holder is None):
                self.taken.add(unit)
                one.outcome, one.unit = "known", unit
            else:
                rule = "serial_differs" if unit.board.serial else "board_taken"
                self.dispute(one, rule, [unit, *self.on(holder)])
        for one in gpus:
            serial = usable(one.entry.serial)
            if one.outcome == "known" and one.unit and serial and one.unit.board.serial is None:
                self.new_boards[serial] = one.unit.board

    def _new_uuids(self, gpus: list[Line]) -> None:
        rest = [one for one in gpus if not one.outcome and usable(one.entry.uuid)]
        only: list[tuple[Line, Unit | None]] = []
        for one in rest:
            units = self.on(self.board("gpu", usable(one.entry.serial)))
            is_it = len(units) == 1 and units[0].uuid is None and self.serials[usable(one.entry.serial)] == 1
            if is_it and not self._is_twin(one, units[0]):
                only.append((one, units[0]))
        self.give(only)
        self._on_boards(rest, lambda unit: unit.uuid is None)
        for one in rest:
            if not one.outcome:
                self._new_uuid(one)

    def _new_uuid(self, one: Line) -> None:
        serial = usable(one.entry.serial)
        board = self.board("gpu", serial)
        units = self.on(board)
        is_several = SEVERAL in {one.entry.model, *(unit.model for unit in units)}
        if board is None or is_several or self.serials[serial] > 1 or all(unit in self.taken for unit in units):
            self.register(one, board)
            return
        rule = "serial_on_two_nodes" if any(map(self.elsewhere, units)) else "board_taken"
        self.dispute(one, rule, units)

    def _serials(self, gpus: list[Line]) -> None:
        rest = [one for one in gpus if not one.outcome and usable(one.entry.serial)]
        wanted: list[tuple[Line, Unit | None]] = []
        for one in rest:
            serial = usable(one.entry.serial)
            board = self.board("gpu", serial)
            units = self.on(board)
            if self.serials[serial] > 1:
                continue
            if not units:
                self.register(one, board)
            elif len(units) == 1 and not self._is_twin(one, units[0]):
                wanted.append((one, units[0]))
        self.give(wanted)
        self._on_boards(rest, lambda _: True)
        for one in rest:
            one.outcome = one.outcome or "unidentified"

    def _on_boards(self, lines: list[Line], fits: Callable[[Unit], bool]) -> None:
        """Of several units on a board: by module id, then by the slot it was last in."""
        for is_by_module in (True, False):
            wanted: list[tuple[Line, Unit | None]] = []
            for one in lines:
                board = self.board("gpu", usable(one.entry.serial))
                if one.outcome or board is None:
                    continue
                units = [unit for unit in self.on(board) if self.free(unit) and fits(unit)]
                if is_by_module:
                    same = [unit for unit in units if one.entry.module_id and unit.module == one.entry.module_id]
                else:
                    last = self.last_in("gpu", one.entry.slot)
                    same = [unit for unit in units if unit is last and not self._is_other(one, unit)]
                wanted.append((one, same[0] if len(same) == 1 else None))
            self.give(wanted)

    def _is_other(self, one: Line, unit: Unit) -> bool:
        return None not in (unit.module, one.entry.module_id) and unit.module != one.entry.module_id

    def _is_twin(self, one: Line, unit: Unit) -> bool:
        """On a board of several: another module than the one unit that is known."""
        return SEVERAL in {one.entry.model, unit.model} and self._is_other(one, unit)

    def _efas(self, efas: list[Line]) -> None:
        """A serial names an adapter; else MAC and slot do, in this life of the node."""
        serials = [(one, self.board("efa", usable(one.entry.serial))) for one in efas]
        self.give([(one, self.on(board)[0]) for one, board in serials if board])
        for one, board in serials:
            if usable(one.entry.serial) and board is None:
                self.register(one, None)
        mine = list(dict.fromkeys(stay.unit for stay in self.here if stay.unit.kind == "efa"))
        for look in ("mac", "slot"):
            wanted: list[tuple[Line, Unit | None]] = []
            for one in (line for line in efas if not line.outcome):
                mac = one.entry.mac
                if look == "mac":
                    same = [unit for unit in mine if mac and unit.mac == mac and self.free(unit) and self.mine(unit)]
                    wanted.append((one, same[0] if same else None))
                    continue
                unit = self.in_slot("efa", one.entry.slot) or self.last_in("efa", one.entry.slot)
                is_it = (
                    unit is not None
                    and self.free(unit)
                    and self.mine(unit)
                    and (None in (mac, unit.mac) or mac == unit.mac)
                )
                wanted.append((one, unit if is_it else None))
            self.give(wanted)
        for one in efas:
            if not one.outcome:
                self.register(one, None)

    def _slots(self, gpus: list[Line]) -> None:
        rest = [one for one in gpus if not one.outcome]
        self.give([(one, self.in_slot("gpu", one.entry.slot)) for one in rest], by_slot=True)
        for one in rest:
            one.outcome = one.outcome or "unidentified"

    # --- doubts ---

    def _two_nodes(self, lines: list[Line]) -> None:
        for one in lines:
            if one.outcome == "known" and one.unit in self.node.lost and self.elsewhere(one.unit):
                self.dispute(one, "two_nodes", [one.unit])

    def _boards(self, gpus: list[Line]) -> None:
        groups: dict[Board, list[Line]] = {}
        for one in gpus:
            board = one.unit.board if one.outcome == "known" and one.unit else one.board
            if one.outcome in {"known", "new"} and board is not None:
                groups.setdefault(board, []).append(one)
        for board, group in groups.items():
            strangers = [unit for unit in self.on(board) if self.free(unit) and self.elsewhere(unit)]
            for one in group if strangers else ():
                self.dispute(one, "serial_on_two_nodes", [one.unit, *strangers])
