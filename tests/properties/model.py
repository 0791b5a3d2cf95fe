# SPDX-License-Identifier: Apache-2.0
"""What should the service say? A plain model of its rules, written from the contract and from nothing else.

It knows no database and no rule of the service: of the domain it uses value types and what the catalogue says a code
does. The breaker is left out on purpose, and rules that count: one code, one hold.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Report
from tests.properties.model_acts import Acts
from tests.properties.model_identity import Reader
from tests.properties.model_records import BAD, WORST, Board, Conflict, Line, Node, Round, Stay, Unit, usable, worst

NEED, GAP, PASS_AGE, STALE, AHEAD = 2, 30, 900, 120, 5


class Refused(Exception):
    """The report is not taken; the text is the code."""


class Model(Acts):
    """The service as the contract describes it. Each act takes the time at which it happens."""

    def report(self, report: Report, now: datetime) -> tuple[bool, str | None, int]:
        """Take a report; answer whether its run counted, because of what not, and the passes. Raises Refused."""
        key = (report.node, report.report_id)
        if key in self.receipts:
            return self.receipts[key]
        known = self.nodes.get(report.node)
        if known and report.provider_id in known.lives and report.provider_id != known.life:
            raise Refused("instance_superseded")
        is_late = known is not None and self._is_late(report, known)
        covers = frozenset[str]() if is_late else self._covers(report)
        node = self._arrive(report, known, now)
        if is_late:
            self.receipts[key] = (False, "not_current", node.have)
            return self.receipts[key]
        self._catch_up(node, report, now)
        lines = self._list(node, report, covers, now) if covers else []
        because = self._judge(node, report, covers, lines, now)
        self.receipts[key] = (because is None, because, node.have)
        return self.receipts[key]

    def _is_late(self, report: Report, node: Node) -> bool:
        """Of a boot that is over, or overtaken within its boot: evidence, and no state."""
        boot = (report.provider_id, report.boot_id)
        is_overtaken = report.seq is not None and node.seq is not None and report.seq <= node.seq
        return boot in node.boots and (boot != (node.life, node.boot) or is_overtaken)

    def _covers(self, report: Report) -> frozenset[str]:
        if report.entries is None or report.covers is not None:
            return report.covers or frozenset()
        expects = {kind for kind, count in self.profile(report.profile)[0].items() if count}
        if not expects <= {one.kind for one in report.entries}:
            raise Refused("covers_required")
        return frozenset(expects | {one.kind for one in report.entries})

    def _arrive(self, report: Report, node: Node | None, now: datetime) -> Node:
        if node is None:
            node = Node(report.node, report.provider_id, report.boot_id, now, report.profile, now)
            self.nodes[report.node] = node
        is_over = (report.provider_id, report.boot_id) in node.boots and report.boot_id != node.boot
        node.retired = node.retired and is_over  # a word from a boot that is over revives nobody
        if node.life != report.provider_id:
            self._end_life(node, now)
            node.life = report.provider_id
        node.lives.add(node.life)
        boot = (node.life, report.boot_id)
        if boot not in node.boots:
            node.boots.add(boot)
            node.begin_boot(report.boot_id, now)
        return node

    def _end_life(self, node: Node, now: datetime) -> None:
        """A machine was replaced: what belonged to its life ends, and holds that rest on its places."""
        gone = [one.unit for one in self.stays if one.node == node.name and one.life == node.life]
        self.holds = [one for one in self.holds if not (one.is_place and self.units_of(one, gone))]
        self._leave(node, now)

    def _catch_up(self, node: Node, report: Report, now: datetime) -> None:
        if (now - node.reported_at).total_seconds() > PASS_AGE:
            node.have = 0
        if node.profile != report.profile:
            node.have, node.counted_start, node.counted_end = 0, None, None
        node.profile, node.reported_at = report.profile, now
        node.seq = node.seq if report.seq is None else report.seq

    def _list(self, node: Node, report: Report, covers: frozenset[str], now: datetime) -> list[Line]:
        before = {unit for kind in covers for unit in self.placed(node, kind)}
        reader = Reader(node, self.units, self.stays, lambda name: self.is_there(name, now))
        lines = reader.read(report.entries or ())
        self._know(lines)
        self._place(node, lines, covers, report.partial, now)
        self._settle(node, lines, covers - report.partial, now)
        for kind in covers:
            node.listed[kind] = [one for one in lines if one.entry.kind == kind]
            node.first_list_at.setdefault(kind, now)
        self.attach_waiting(node, covers, now)
        if before != {unit for kind in covers for unit in self.placed(node, kind)}:
            node.have, node.counted_start, node.counted_end = 0, None, None
        return lines

    def _know(self, lines: list[Line]) -> None:
        made: dict[str, Board] = {}
        for one in lines:
            entry, serial = one.entry, usable(one.entry.serial)
            if one.outcome == "new":
                board = one.board or made.get(serial or "") or Board(entry.kind)
                if serial:
                    made[serial] = board
                one.unit = Unit(board, entry.kind, model=entry.model, module=entry.module_id)
                self.units.append(one.unit)
            if one.outcome in {"known", "new"} and one.unit is not None and not one.by_slot:
                self._learn(one.unit, entry)

    def _learn(self, unit: Unit, entry: DeviceEntry) -> None:
        unit.board.serial = unit.board.serial or usable(entry.serial)
        unit.uuid = unit.uuid or usable(entry.uuid)
        unit.mac = unit.mac or entry.mac
        unit.model, unit.module = entry.model or unit.model, entry.module_id or unit.module
        for hold in self.holds:
            for type_, value in (("serial", usable(entry.serial)), ("uuid", usable(entry.uuid))):
                if value and ("identifier", (unit.kind, type_, value)) in hold.binds:
                    hold.binds.add(("board", unit.board))

    def _place(
        self, node: Node, lines: list[Line], covers: frozenset[str], partial: frozenset[str], now: datetime
    ) -> None:
        listed = {one.unit: one for one in lines if one.outcome in {"known", "new"}}
        taken = {one.entry.slot for one in listed.values()}
        disputed = {unit for one in lines if one.outcome == "conflict" for unit in one.involved}
        for stay in self.open_stays(node):
            if stay.unit in {*listed, *disputed} or stay.unit.kind not in covers:
                continue
            is_waived = self.waiver(node, stay.unit.kind, now) is not None
            if stay.slot in taken:
                self.close(stay, now)
            elif stay.unit.kind not in partial and not stay.missing:
                self.close(stay, now) if is_waived else setattr(stay, "missing", True)
        for unit, line in listed.items():
            if unit is not None and not line.by_slot and line.entry.slot is not None:
                self._put(node, unit, line.entry.slot, now)

    def _put(self, node: Node, unit: Unit, slot: str, now: datetime) -> None:
        """A unit is in this slot: where it was, or moved there from wherever it was."""
        old = unit.stay
        if old and (old.node, old.life, old.slot) == (node.name, node.life, slot):
            old.missing = False
            return
        if old:
            self.close(old, now)
            if old.node != node.name:
                self._lose(self.nodes[old.node], unit)
        unit.stay = Stay(unit, node.name, node.life, slot, now)
        self.stays.append(unit.stay)

    def _lose(self, node: Node, unit: Unit) -> None:
        """A node's last list is of one device too many, and what it had proved was of another set."""
        node.lost.add(unit)
        node.have, node.counted_start, node.counted_end = 0, None, None
        if unit.kind in node.listed:
            node.listed[unit.kind] = [line for line in node.listed[unit.kind] if line.unit is not unit]

    def _settle(self, node: Node, lines: list[Line], covers: frozenset[str], now: datetime) -> None:
        """Conflicts that this list shows begin; those that it covers and shows no more end."""
        shown = {self._key(node, one): one for one in lines if one.outcome == "conflict"}
        mine = {one.key for one in self.conflicts if one.maker == node.name}
        for key, line in shown.items():
            if key in mine:
                continue
            others = {unit.stay.node for unit in line.involved if unit.stay and self.is_there(unit.stay.node, now)}
            kind, is_contest = line.entry.kind, line.rule == "two_nodes"
            nodes = {node.name, *others}
            self.conflicts.append(Conflict(node.name, node.life, kind, key, is_contest, nodes, line.involved))
        listed = {unit for one in lines for unit in (one.unit, *one.involved)}
        for one in [*self.conflicts]:
            is_over = one.maker == node.name and one.key not in shown
            is_left = one.is_contest and one.maker != node.name and node.name in one.nodes
            if one.kind in covers and (is_over or (is_left and not listed & set(one.units))):
                self.conflicts.remove(one)
        disputed = {unit for one in shown.values() for unit in one.involved}
        node.lost -= {unit for unit in node.lost if unit.kind in covers and unit not in disputed}

    def _key(self, node: Node, line: Line) -> object:
        serial, uuid = usable(line.entry.serial), usable(line.entry.uuid)
        slot = line.entry.slot if line.rule == "uuid_repeated" or not (serial or uuid) else None
        return line.rule, node.life, serial, uuid, slot

    def _derived(
        self, node: Node, report: Report, covers: frozenset[str], lines: list[Line], now: datetime
    ) -> list[CheckResult]:
        found = []
        for kind in sorted(covers):
            count, wanted = len(node.listed[kind]), self.expected(node, kind, now)
            if kind in report.partial:
                found.append(CheckResult(f"{kind}.count", CheckStatus.FAIL))
            elif wanted is not None:
                found.append(CheckResult(f"{kind}.count", CheckStatus.PASS if count == wanted else CheckStatus.FAIL))
        gpus = [one for one in lines if one.entry.kind == "gpu"]
        status = CheckStatus.PASS if gpus else CheckStatus.NOT_APPLICABLE
        if any(one.outcome == "unidentified" or one.by_slot for one in gpus):
            status = CheckStatus.UNKNOWN
        if any(one.outcome == "conflict" for one in gpus):
            status = CheckStatus.FAIL
        return [*found, CheckResult("gpu.identity", status)] if "gpu" in covers else found

    def _judge(
        self, node: Node, report: Report, covers: frozenset[str], lines: list[Line], now: datetime
    ) -> str | None:
        run_id = report.run_id or report.report_id
        run = node.rounds.setdefault(run_id, Round(now))
        part: dict[str, list[CheckStatus]] = {}
        for one in (*report.checks, *self._derived(node, report, covers, lines, now)):
            part.setdefault(one.name, []).append(one.status)
        per_boot = self.profile(node.profile)[2]
        node.clean_in_boot |= {name for name, found in part.items() if name in per_boot and worst(found) not in BAD}
        for name, found in part.items():
            before = [run.results[name]] if name in run.results else []
            run.results[name] = worst([*found, *before])
            node.checks[name] = (run.results[name], run_id)
        for kind in covers:
            run.listed[kind] = {one.unit for one in lines if one.entry.kind == kind and one.unit}
        if CheckStatus.FAIL in run.results.values():
            node.have = 0
        start, end = self._times(run, report, now)
        because = self._objection(node, run_id, run, report, start, end, now)
        if because is None:
            node.have = min(node.have + 1, NEED)
            node.counted.add(run_id)
            node.counted_start, node.counted_end = start, end
            self.count_towards_release(node, end)
        return because

    def _times(self, run: Round, report: Report, now: datetime) -> tuple[datetime, datetime]:
        finished = report.finished_at or now
        end = now - max(timedelta(0), (report.sent_at or now) - finished)
        start = end - max(timedelta(0), finished - (report.started_at or now))
        return min(start, run.first), end

    def _objection(
        self, node: Node, run_id: str, run: Round, report: Report, start: datetime, end: datetime, now: datetime
    ) -> str | None:
        counts, required, per_boot = self.profile(node.profile)
        statuses = run.results
        unclean = any(statuses[name] in BAD for name in required if name in statuses)
        unclean |= any(one in {CheckStatus.FAIL, CheckStatus.UNKNOWN} for one in statuses.values())
        unmet = False
        for kind in ("gpu", "efa"):
            listed, wanted = run.listed.get(kind, set()), self.expected(node, kind, now)
            unmet |= listed != self.placed(node, kind) or (wanted is not None and len(listed) != wanted)
        newest = [one for one in (node.fault_at, node.release_at) if one]
        since = node.counted_start
        objections = {
            "from_future": (report.finished_at or now) - now > timedelta(seconds=AHEAD),
            "too_old": now - end > timedelta(seconds=PASS_AGE),
            "duplicate_run": run_id in node.counted,
            "check_missing": not counts or not required <= set(statuses) or not per_boot <= node.clean_in_boot,
            "check_not_clean": unclean,
            "counts_unmet": unmet,
            "fault_newer": any(start <= one for one in newest),
            "gap_too_short": since is not None and start < since + timedelta(seconds=GAP),
        }
        if node.counted_end is not None and start < node.counted_end:
            objections["gap_too_short"] = True
        return next((name for name, applies in objections.items() if applies), None)

    def codes(self, name: str, now: datetime) -> set[str]:
        """Every reason code that speaks against a node; none at all admits it."""
        node = self.nodes.get(name)
        if node is None or node.retired:
            return {"node_unknown"}
        counts, required, _ = self.profile(node.profile)
        silence = (now - node.reported_at).total_seconds()
        met = self.met(node, now)
        statuses = {check: status for check, (status, _) in node.checks.items()}
        reasons = {
            "profile_unknown": not counts,
            "report_stale": silence > STALE,
            "device_quarantined": any(self.is_held(unit, now) for unit in met),
            "node_quarantined": any(self.in_force(one, now) and self.meets(one, node) for one in self.holds),
            "device_unidentified": any(
                one.outcome == "unidentified" for group in node.listed.values() for one in group
            ),
            "identity_conflict": bool(self.alive(node, now)),
            "fault_unattached": any(
                one.is_blocking and (one.node, one.life) == (name, node.life) for one in self.unattached
            ),
            "check_failing": CheckStatus.FAIL in statuses.values(),
            "check_unknown": any(statuses.get(one) in {WORST[1], WORST[2]} for one in required),
            "passes_insufficient": node.have < NEED or silence > PASS_AGE,
            "maintenance": node.maintenance_until is not None and node.maintenance_until > now,
        }
        for kind, lines in node.listed.items():
            wanted = self.expected(node, kind, now)
            if wanted is not None and len(lines) != wanted:
                reasons["device_missing" if len(lines) < wanted else "device_unexpected"] = True
        return {code for code, applies in reasons.items() if applies}

    def is_drain(self, name: str, now: datetime) -> bool:
        """Must what runs there be moved away too? Only a hold that asks for it says so."""
        if (node := self.nodes.get(name)) is None or node.retired:
            return False
        met = self.met(node, now)
        draining = [one for one in self.holds if one.drain and self.in_force(one, now)]
        return any(self.meets(one, node) or self.units_of(one, met) for one in draining)
