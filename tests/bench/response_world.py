# SPDX-License-Identifier: Apache-2.0
"""What happens to a fleet when this goes wrong and that is done about it?

Time goes from event to event. A fault strikes only what is at work; its traces on the node vanish with a reset or a
boot, as counters do, while a board that is broken for good stays so until somebody sends it back. A machine that is
replaced goes back to the provider, which hands it out again under a new name with the boards that it has.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

from registry.domain.failures import Cause
from registry.domain.repair import Action
from tests.bench.response_faults import GPUS, HOUR, MINUTE, ZONES, Fault, Plan, Struck, Wave
from tests.bench.response_fleet import (
    AT_MAKER,
    AT_PROVIDER,
    LASTS,
    LINK_MENDED,
    MAINTAINED,
    PROVEN,
    SAID_AFTER,
    SEEN_AFTER,
    SILENT_AFTER,
    TEST,
    Board,
    Key,
    Machine,
    Node,
    Response,
    Tally,
)
from tests.bench.response_jobs import goodput_of
from tests.bench.response_scheduler import Scheduler


class World:
    """The fleet, its jobs and its provider."""

    def __init__(self, plan: Plan, make: Callable[[World], Response]) -> None:
        self.plan, self.setup, self.now, self.tally = plan, plan.setup, 0.0, Tally()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = self._drawn = self._made = 0
        machines = [Machine([self._board(m * GPUS + b) for b in range(GPUS)]) for m in range(self.setup.machines)]
        self.machines = machines
        self.boards = {one.number: (machine, one) for machine in machines for one in machine.boards}
        self.nodes = [Node(at, f"node-{at}", machines[at]) for at in range(self.setup.nodes)]
        for node in self.nodes:
            node.machine.node = node
        self.pool = machines[self.setup.nodes :]
        self.scheduler = Scheduler(self)
        self.response = make(self)

    # --- time ---------------------------------------------------------------------------------------------------------

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something later."""
        self._count += 1
        heapq.heappush(self._queue, (self.now + seconds, self._count, what))

    def run(self, tick: Callable[[float], object] = lambda _: None) -> Tally:
        """Let the time pass. `tick` is told the time after each simulated hour."""
        for fault in self.plan.faults:
            self.after(fault.at, partial(self._strike, fault))
        for wave in self.plan.waves:
            for place, index in enumerate(wave.nodes):
                begins = wave.at + wave.spread * place / len(wave.nodes)
                self.after(begins, partial(self._go_wrong, wave, self.nodes[index]))
            self.after(wave.until, partial(self._mend, wave))
        self.after(self.plan.dark[1], self._darken_zone)
        self.scheduler.offer()
        hour = 0.0
        while self._queue and self._queue[0][0] < self.setup.end:
            self.now, _, what = heapq.heappop(self._queue)
            what()
            if self.now >= hour:
                tick(self.now)
                hour = self.now + HOUR
        self.now = self.setup.end
        for node in self.nodes:
            self.reckon(node, is_last=True)
        self.tally.goodput = goodput_of(self.scheduler.jobs, self.now)
        tick(self.now)
        return self.tally

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        if fault.struck is Struck.BOARD:
            machine, board = self.boards[fault.target]
            if machine.node is not None and board in machine.boards:
                self.fail_board(machine.node, board, fault)
            return
        node = self.machines[fault.target].node if fault.struck is Struck.MACHINE else self.nodes[fault.target]
        if node is None or not node.is_at_work:
            return
        if fault.struck is Struck.NODE:
            self._darken(node, MAINTAINED, fault.cause)
            return
        if fault.shown is not None:
            node.machine.is_broken |= fault.is_broken
            self._turn_bad(node, (fault.shown.check, None), fault.shown.code)
        if fault.struck is Struck.LINK and fault.shown is not None:
            key, name = (fault.shown.check, None), node.name
            self.after(LINK_MENDED, lambda: self._turn_well(node, key) if node.name == name else None)
        self.scheduler.interrupt(node, fault.cause)

    def fail_board(self, node: Node, board: Board, fault: Fault) -> None:
        """Let a board fail, if it is at work."""
        if not node.is_at_work or fault.shown is None:
            return
        self.tally.by_failed_before += board.failed > 0
        board.failed += 1
        if fault.is_broken:
            board.broken = fault
        self._turn_bad(node, (fault.shown.check, board.serial), fault.shown.code)
        self.scheduler.interrupt(node, fault.cause)

    def _darken(self, node: Node, seconds: float, cause: Cause) -> None:
        if not node.is_up:
            return
        node.is_up = False
        self.scheduler.interrupt(node, cause)
        self.reckon(node)
        self.after(SILENT_AFTER, lambda: None if node.is_up else self.response.lost(node))
        self.after(seconds, lambda: self._come_back(node))

    def _darken_zone(self) -> None:
        zone, begins, ends = self.plan.dark
        for node in self.nodes:
            if node.index % ZONES == zone:
                self._darken(node, ends - begins, Cause.PLATFORM)

    def _is_dark(self, node: Node) -> bool:
        zone, begins, ends = self.plan.dark
        return node.index % ZONES == zone and begins <= self.now < ends

    def _come_back(self, node: Node) -> None:
        if node.is_up:
            return
        node.is_up = True
        if node.working is None:
            self._forget(node)
            self._arrive(node)

    def _go_wrong(self, wave: Wave, node: Node) -> None:
        key: Key = (wave.check, node.machine.boards[0].serial)
        node.false[key] = wave.code
        if node.working is None:
            self._turn_bad(node, key, wave.code)

    def _mend(self, wave: Wave) -> None:
        for node in (self.nodes[index] for index in wave.nodes):
            for key in [one for one in node.false if one[0] == wave.check]:
                del node.false[key]
                self._turn_well(node, key)
        self.after(SAID_AFTER, lambda: self.response.mended(wave))

    def _turn_bad(self, node: Node, key: Key, code: str | None) -> None:
        if key in node.bad:
            return
        node.bad[key], name = code, node.name
        self.after(SEEN_AFTER, lambda: self._tell(node, name, key))

    def _turn_well(self, node: Node, key: Key) -> None:
        if node.bad.pop(key, "none") != "none":
            name = node.name
            self.after(SEEN_AFTER, lambda: self._tell(node, name, key))

    def _tell(self, node: Node, name: str, key: Key) -> None:
        if node.name == name and node.is_up and node.working is None:
            self.response.saw(node, key, node.bad.get(key), is_bad=key in node.bad)

    # --- what is done about it ----------------------------------------------------------------------------------------

    def act(self, node: Node, action: Action, serial: str | None, then: Callable[[], None], *, saves: bool) -> None:
        """Carry out a step of the ladder. `saves` lets running work write a checkpoint before it is interrupted."""
        self.tally.repairs[action] += 1
        self.tally.healthy += not node.is_ill
        self.scheduler.interrupt(node, Cause.PLATFORM, by_response=True, saves=saves)
        self._work(node, action, serial, then)
        self._count_at_once()

    def hand_back(self, node: Node) -> None:
        """Send a machine away at the door: it has had no work yet."""
        self.tally.handed_back += 1
        node.beside_budget = True
        self._work(node, Action.REPLACE_NODE, None, lambda: None)

    def _work(self, node: Node, action: Action, serial: str | None, then: Callable[[], None]) -> None:
        node.working = action
        self.reckon(node)
        tested = self.response.tests and action in {Action.RESET_GPU, Action.REBOOT_NODE}
        lasts = LASTS[action] + (TEST if tested else 0.0)
        if action.opens_quarantine:
            self._give_back(node, serial if action is Action.RETURN_DEVICE else None)
        self.after(lasts, lambda: self._finish(node, action, serial, then))

    def _finish(self, node: Node, action: Action, serial: str | None, then: Callable[[], None]) -> None:
        if action.opens_quarantine and not self._take_new(node):
            self.after(10 * MINUTE, lambda: self._finish(node, action, serial, then))
            return
        node.working, node.beside_budget = None, False
        self._forget(node, serial if action is Action.RESET_GPU else None, keeps=action.rank < Action.RESET_GPU.rank)
        if self.response.tests and action.rank >= Action.RESET_GPU.rank and not action.opens_quarantine:
            self._test(node)
        then()
        if node.working is None:
            self._arrive(node)

    def _test(self, node: Node) -> None:
        for board in node.machine.boards:
            draw = random.Random(f"{self.setup.seed}:{board.serial}:{board.failed}:test")
            if board.broken is not None and draw.random() * 100 < self.setup.found:
                node.bad[PROVEN, board.serial] = None

    def _forget(self, node: Node, serial: str | None = None, *, keeps: bool = False) -> None:
        """What a node shows vanishes with a reset of the board, or with a boot; unless the check or the host is bad."""
        if keeps:
            return
        of_host = {key: code for key, code in node.bad.items() if key[1] is None and node.machine.is_broken}
        others = {key: code for key, code in node.bad.items() if serial is not None and key[1] != serial}
        tested = {key: code for key, code in node.bad.items() if key[0] == PROVEN}
        node.bad = {**of_host, **others, **tested, **node.false}

    def _arrive(self, node: Node) -> None:
        if node.is_up:
            self.response.booted(node)
            self.reckon(node)
            self.scheduler.offer()

    def can_take(self, node: Node) -> bool:
        """Tell whether a node is there, left alone, and admitted."""
        return node.is_up and node.working is None and self.response.may_work(node)

    def reckon(self, node: Node, *, is_last: bool = False) -> None:
        """Count the time in which a node that is up does no work because of the answer to something."""
        is_out = node.is_up and node.job is None and not self.can_take(node) and not is_last
        if is_out and node.out_since is None:
            node.out_since = self.now
        elif not is_out and node.out_since is not None:
            self.tally.withheld += self.now - node.out_since
            node.out_since = None

    def _count_at_once(self) -> None:
        """Remember how many nodes the policy kept at the same time, in all and in a zone."""
        zones = Counter(one.zone for one in self.nodes if one.working is not None and not one.beside_budget)
        for name, count in (*zones.items(), ("fleet", zones.total())):
            self.tally.at_once[name] = max(self.tally.at_once[name], count)

    # --- the provider -------------------------------------------------------------------------------------------------

    def _board(self, number: int | None) -> Board:
        self._made += 1
        return Board(f"165{self._made:010}", number)

    def mend(self, machine: Machine, serial: str) -> None:
        """Put another board in the place of one."""
        machine.boards = [self._board(None) if one.serial == serial else one for one in machine.boards]

    def mend_in_place(self, node: Node, serial: str) -> None:
        """A person has a board of a node replaced by its maker; the node boots with the new one."""
        self.mend(node.machine, serial)
        self.tally.repairs[Action.RETURN_DEVICE] += 1
        node.working, node.beside_budget = Action.RETURN_DEVICE, True
        node.bad = {key: code for key, code in node.bad.items() if key[1] != serial}
        self.after(LASTS[Action.RETURN_DEVICE], lambda: self._back_in_place(node))

    def _back_in_place(self, node: Node) -> None:
        node.working, node.beside_budget = None, False
        self._forget(node)
        self._arrive(node)

    def _give_back(self, node: Node, returned: str | None) -> None:
        machine = node.machine
        machine.node = None
        if returned is not None:
            self.mend(machine, returned)
        self.after(AT_PROVIDER if returned is None else AT_MAKER, lambda: self.pool.append(machine))

    def _take_new(self, node: Node) -> bool:
        if not self.pool:
            return False
        self._drawn += 1
        draw = random.Random(f"{self.setup.seed}:pool:{self._drawn}")
        node.machine = self.pool.pop(draw.randrange(len(self.pool)))
        node.machine.node = node
        node.is_up = not self._is_dark(node)
        node.name = f"node-{node.index}-{self._drawn}"
        code_of = {check: code for (check, _), code in node.false.items()}
        node.false = {(check, node.machine.boards[0].serial): code for check, code in code_of.items()}
        node.bad = {("condition.kernel_ready", None): None} if node.machine.is_broken else {}
        return True
