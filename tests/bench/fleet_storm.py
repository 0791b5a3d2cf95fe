# SPDX-License-Identifier: Apache-2.0
"""Is every node decided when a whole fleet boots at once?

Nobody knows any of the nodes. All boot within a minute, each sends its first report, of 8 GPUs and 32 EFAs, and goes on
as the agent does: the same again half a minute after the answer, until it is admitted; then its admission is asked. A
request that gets no answer in time, or one of those that another try may better, is sent again as the client does,
after the client's own pauses; a report that the client gives up comes again half a minute later.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from registry.client import PASSING_STATUSES, pause_before
from registry.domain.actors import SYSTEM
from registry.domain.events import EventType
from registry.domain.roles import Role
from registry.services.tokens import draft_of, hash_of
from registry.store.database import new_id, open_database
from registry.store.tokens import TokenRow, insert_token
from tests.bench import machine
from tests.bench.fleet_rate import share
from tests.bench.generator import ask_for
from tests.bench.open_loop import Heard, OpenLoop, Shot, retry_after
from tests.bench.serving import PEPPER, Running, server, unique_bytes

SPREAD_SECONDS = 60.0
"""Within what time all boot: machines that are switched on together are not ready together."""

PERIOD_SECONDS = 33.0
"""From an answer to the next report: what the agent waits between two, in the middle."""

RETRIES = 3
"""How often the client sends a request again."""

LONG_FROM = 1_000
"""Fewer nodes are a look whether it works: they report each second, and none is kept waiting for its passes."""

_AS_SERVED = {
    "PRATIQUE_PASS_GAP_SECONDS": "30",
    "PRATIQUE_PASS_MAX_AGE_SECONDS": "900",
    "PRATIQUE_REPORT_STALE_SECONDS": "120",
}
_SOON = {**_AS_SERVED, "PRATIQUE_PASS_GAP_SECONDS": "0"}

ROUNDS_MAX = 40
"""After so many reports a node is given up as not decided."""

TOKENS_AT_ONCE = 500
REPORT, ASK = "report", "admission"


@dataclass(slots=True)
class Stormed:
    """What the nodes were told. Times are seconds.

    `memory` is what each process of the server had of its own before, when half of the nodes were decided, and after.
    """

    nodes: int
    seconds: float = 0.0
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    repeated: int = 0
    given_up: int = 0
    decided: list[float] = field(default_factory=list)
    memory: list[dict[int, int]] = field(default_factory=list)
    generator_late: list[float] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """Answers that are none, and that the client does not take for a passing state either."""
        passing = {0, 200, *PASSING_STATUSES}
        return sum(count for (_, status), count in self.answers.items() if status not in passing)

    @property
    def grown(self) -> int:
        """Bytes by which that process grew which grew most in the second half."""
        half, after = self.memory[1:]
        return max(size - half.get(pid, 0) for pid, size in after.items())

    @property
    def undecided(self) -> int:
        """Nodes that were not admitted in the end."""
        return self.nodes - len(self.decided)


class Storm:
    """All nodes on their way from boot to admission."""

    def __init__(
        self, running: Running, nodes: int, *, spread: float, period: float, tick: Callable[[int], object]
    ) -> None:
        """All are to boot within `spread` seconds, and report each `period`."""
        self._running, self._spread, self._period, self._tick = running, spread, period, tick
        self.told = Stormed(nodes)
        self._rounds: Counter[int] = Counter()

    def run(self) -> Stormed:
        """Boot them all."""
        self._look()
        first = (self._report(number, self._boots_at(number)) for number in range(self.told.nodes))
        self.told.seconds = OpenLoop(self._running.url, self._hear).run(first)
        self._look()
        return self.told

    def _look(self) -> None:
        self.told.memory.append(unique_bytes(self._running.pid))

    def _boots_at(self, number: int) -> float:
        return number * self._spread / self.told.nodes

    def _report(self, number: int, at: float) -> Shot:
        self._rounds[number] += 1
        body = machine.report(number, f"report-{self._rounds[number]}")
        path = f"/v1/nodes/{machine.node_name(number)}/reports"
        return Shot(at, REPORT, number, ask_for("POST", path, machine.secret(number), body))

    def _hear(self, heard: Heard) -> Iterable[Shot]:
        shot, told = heard.shot, self.told
        told.answers[shot.sort, heard.status] += 1
        told.generator_late.append(heard.late)
        if heard.status == 200:
            return self._go_on(heard)
        if shot.attempt < RETRIES and heard.status in {0, *PASSING_STATUSES}:
            told.repeated += 1
            pause = pause_before(shot.attempt, retry_after(heard))
            return [replace(shot, at=heard.now + pause, attempt=shot.attempt + 1)]
        told.given_up += 1
        return self._next(shot.number, heard.now)

    def _go_on(self, heard: Heard) -> Iterable[Shot]:
        number, answer = heard.shot.number, json.loads(heard.body)
        decision = answer["admission"] if heard.shot.sort == REPORT else answer
        if not decision["admitted"]:
            return self._next(number, heard.now)
        if heard.shot.sort == REPORT:
            path = f"/v1/nodes/{machine.node_name(number)}/admission"
            return [Shot(heard.now, ASK, number, ask_for("GET", path, machine.secret(number)))]
        self.told.decided.append(heard.now - self._boots_at(number))
        if len(self.told.decided) == (self.told.nodes + 1) // 2:
            self._look()
        self._tick(1)
        return ()

    def _next(self, number: int, now: float) -> Iterable[Shot]:
        return [self._report(number, now + self._period)] if self._rounds[number] < ROUNDS_MAX else ()


def run(
    url: str, folder: Path, nodes: int, *, spread: float | None = None, tick: Callable[[int], object] = lambda _: None
) -> Stormed:
    """Serve the empty records at `url` to so many nodes that boot."""
    few = nodes < LONG_FROM
    hand_out_tokens(url, nodes, PEPPER.encode())
    with server(url, folder, _SOON if few else _AS_SERVED) as running:
        seconds = spread if spread is not None else nodes / LONG_FROM if few else SPREAD_SECONDS
        return Storm(running, nodes, spread=seconds, period=1.0 if few else PERIOD_SECONDS, tick=tick).run()


def shown(told: Stormed) -> Iterator[tuple[str, str]]:
    """Say in words what came of it."""
    yield "nodes decided", f"{len(told.decided):,} of {told.nodes:,} in {told.seconds:.0f} s"
    yield "answers", f"{dict(told.answers)}"
    yield "sent again, given up", f"{told.repeated:,}, {told.given_up:,}"
    took = ", ".join(f"p{part * 100:g} {share(told.decided, part):.1f}" for part in (0.5, 0.9, 0.99, 1.0))
    yield "seconds from boot to admission", took
    for when, sizes in zip(("before", "at half", "after"), told.memory, strict=False):
        yield f"MB of each process {when}", ", ".join(f"{size / 1e6:.0f}" for size in sizes.values())
    yield "generator late, ms", f"p99 {share(told.generator_late, 0.99) * 1000:.1f}"


def hand_out_tokens(url: str, nodes: int, pepper: bytes) -> None:
    """Give each node its token, as whoever prepares a fleet does before it boots."""
    db, now = open_database(url), datetime.now(UTC)
    for start in range(0, nodes, TOKENS_AT_ONCE):
        with db.write(now) as tx:
            for number in range(start, min(start + TOKENS_AT_ONCE, nodes)):
                name = machine.node_name(number)
                row = TokenRow(new_id(now), Role.NODE, name, name, now, str(SYSTEM))
                insert_token(tx, row, hash_of(machine.secret(number), pepper))
                tx.record(draft_of(EventType.TOKEN_CREATED, row, SYSTEM))
    db.close_all()
