# SPDX-License-Identifier: Apache-2.0
"""Which nodes does a job get, and what befalls it there? The scheduler asks of each node whether it may take work."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from registry.domain.failures import Cause
from tests.bench.response_faults import HOUR
from tests.bench.response_fleet import REQUEUE, SEEN_AFTER, Board, Node
from tests.bench.response_jobs import START_UP, Job, sizes_of

if TYPE_CHECKING:
    from tests.bench.response_world import World


class Scheduler:
    """Jobs that are interrupted keep the nodes that are fit, and get spare ones for the others, or wait."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs = [Job(number, size) for number, size in enumerate(sizes_of(world.setup.nodes))]
        self._waiting = list(self.jobs)
        self._idle = {node.index for node in world.nodes}

    def offer(self) -> None:
        """Let the jobs that wait look for nodes."""
        for job in list(self._waiting):
            self._try(job)

    def interrupt(self, node: Node, cause: Cause, *, by_response: bool = False, saves: bool = False) -> None:
        """Interrupt what works on a node. `saves` lets it write a checkpoint before."""
        job, world = node.job, self._world
        if job is None or not job.is_running:
            return
        world.tally.interruptions["response" if by_response else str(cause)] += 1
        job.interrupt(world.now, cause, saves=saves)
        nodes = list(job.nodes)
        world.after(SEEN_AFTER, lambda: world.response.interrupted(nodes))
        world.after(REQUEUE, lambda: self._requeue(job))

    def _requeue(self, job: Job) -> None:
        self._waiting.append(job)
        self.offer()

    def _try(self, job: Job) -> None:
        world = self._world
        kept = [node for node in job.nodes if world.can_take(node)]
        for node in job.nodes:
            if not world.can_take(node):
                node.job = None
                self._idle.add(node.index)
                world.reckon(node)
        job.nodes = kept
        lacking = job.size - len(kept)
        free = [one for one in (world.nodes[at] for at in sorted(self._idle)) if world.can_take(one)] if lacking else []
        if lacking > len(free):
            return
        for node in free[:lacking]:
            node.job = job
            self._idle.discard(node.index)
            world.reckon(node)
        job.nodes = [*kept, *free[:lacking]]
        self._waiting.remove(job)
        job.start(world.now)
        self._watch_broken(job)

    def _watch_broken(self, job: Job) -> None:
        """A board that is broken for good fails again when it has worked for a while."""
        for node in job.nodes:
            for board in node.machine.boards:
                if board.broken is not None:
                    self._let_in(job, node, board)

    def _let_in(self, job: Job, node: Node, board: Board) -> None:
        world, fault, run = self._world, board.broken, job.run
        if fault is None:
            return
        world.tally.let_in += board.failed > board.let_in
        board.let_in = board.failed
        draw = random.Random(f"{world.setup.seed}:{board.serial}:{board.failed}:{run}")
        lasts = draw.expovariate(1 / (world.setup.again_hours * HOUR))

        def fail() -> None:
            if job.is_running and job.run == run and node.job is job:
                world.fail_board(node, board, fault)

        world.after(START_UP + lasts, fail)
