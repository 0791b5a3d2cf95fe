# SPDX-License-Identifier: Apache-2.0
"""What does the agent do, round after round? Look, tell, act on the answer, empty the spool a little, wait."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from registry.agent.acting import Actor, Standing, standing_of, superseded, why_not_counted, without_decision
from registry.agent.looking import Look, longest
from registry.agent.memory import Memory
from registry.agent.messages import Message, Sender, Span, failing_in, message_of, parts_of, stamped
from registry.agent.notify import ALIVE, READY, STOPPING
from registry.agent.telling import Fate, Teller
from registry.agent.times import Times
from registry.domain.reports import DeviceEntry
from registry.domain.times import rfc3339

PERIOD_SECONDS = 30.0
"""From the start of one round to that of the next at least: the gap that a server asks for between two passes."""

JITTER = (0.02, 0.1)
"""What chance adds to a period, as shares of it. Never nothing: a report that travels faster than the one before would
else seem to begin too soon. Chance also keeps a fleet that started at one moment from reporting at one moment."""

DECISION_MAX_AGE = 120.0
"""Seconds after which the last decision is none any more: as old as a report may be for the server (`report_stale`)."""


EARLIER_MAX = 1000
"""Most earlier boots that one report names; a server takes 1,024."""


class Beside(Protocol):
    """Slow checks that run beside the loop."""

    def start(self, run_id: str, *, is_free: bool) -> None:
        """Let them begin as part of a round, unless they ran in this boot or run already.

        What takes the GPUs from a job begins only when the node is free: not admitted in this boot, and known to be so.
        """

    def take(self) -> tuple[str, Look, Span] | None:
        """Give the id of the round that they are part of and what they found, once, when they have ended."""

    def end(self) -> None:
        """Wait until they have ended, because the agent is stopping."""


@dataclass(slots=True)
class Agent:
    """One node's agent. `look` reads the hardware, `say` gets sentences for the log, `notify` tells the manager.

    `lists` are the last ones that could be read, `standing` is what holds for this node now. `earlier_boots` are those
    of which messages wait and of which the server was not told yet: it would take one that it never heard of for news.
    """

    sender: Sender
    teller: Teller
    memory: Memory
    actor: Actor
    look: Callable[[], Look]
    beside: Beside
    times: Times
    say: Callable[[str], None]
    notify: Callable[..., None]
    period: float = PERIOD_SECONDS
    chance: Callable[[float, float], float] = random.uniform
    standing: Standing | None = None
    lists: dict[str, tuple[DeviceEntry, ...]] = field(default_factory=dict)
    earlier_boots: tuple[str, ...] = ()
    _seq: int = 0
    _run_id: str = ""
    _failing: frozenset[tuple[str, str, str]] = frozenset()
    _is_host_told: bool = False
    _troubles: dict[str, str] = field(default_factory=dict)
    _decided: float = float("-inf")
    _remark: str | None = None
    _unsaved: str = ""

    def run(self) -> None:
        """Go round until told to stop. Raises Superseded."""
        while True:
            started = self.times.monotonic()
            self.round()
            due = started + self.period * (1 + self.chance(*JITTER))
            if self.times.wait(max(0.0, due - self.times.monotonic())):
                break
        self.notify(STOPPING)
        self.beside.end()

    def round(self) -> None:
        """Do one round. Raises Superseded."""
        run_id = self._run_id = str(uuid.uuid4())
        started = self.times.monotonic()
        look = self._look()
        if self.times.wait(0):
            return  # the look was cut short, and says nothing
        is_reached = self._tell(self._message(look, run_id, Span(started, self.times.monotonic())))
        self.beside.start(run_id, is_free=self._is_free())
        if is_reached:
            self._tell_slow()
            if not self.earlier_boots:
                self.teller.drain()
        self._keep()
        self.notify(READY, ALIVE, f"STATUS={self._status()}")

    def _is_free(self) -> bool:
        """Has no work been let onto this node in this boot, as far as the server's newest decision goes?"""
        decision = self.standing.decision if self.standing else None
        return decision is not None and self.teller.error is None and not self.memory.was_admitted

    def _look(self) -> Look:
        look = self.look()
        self.lists.update(longest(self.lists, look.lists))
        undated = {failure.failure_id for failure in look.failures if failure.occurred_at is None}
        self.memory.note_standing(undated, self.times.since_boot(), is_whole=not look.troubles)
        for name, trouble in look.troubles.items():
            if self._troubles.get(name) != trouble:
                self.say(trouble)
        for name in self._troubles.keys() - look.troubles.keys():
            self.say(f"{name}: can be read again")
        self._troubles = dict(look.troubles)
        return look

    def _message(self, look: Look, run_id: str, span: Span) -> Message:
        return message_of(
            look,
            self.sender,
            report_id=str(uuid.uuid4()),
            run_id=run_id,
            span=span,
            news=self.memory.news,
            standing=self.memory.standing,
            earlier_boots=self.earlier_boots[:EARLIER_MAX],
            with_host=not self._is_host_told,
        )

    def _tell(self, message: Message) -> bool:
        """Bring a message to the server or into the spool; true when the server answered. Raises Superseded."""
        reached = [self._tell_part(part) for part in parts_of(message)]
        return all(reached)

    def _tell_part(self, part: Message) -> bool:
        # Time since boot counts up within a boot by itself, also when the folder of the state was lost.
        self._seq = max(self._seq + 1, self.times.since_boot())
        message = stamped(part, seq=self._seq, now=self.times.now(), monotonic=self.times.monotonic())
        failing = failing_in(message) if part.get("checks") else self._failing
        # What still fails is no news: a fault that lasts for days must not fill the disk.
        fate, answer = self.teller.tell(message, is_fault="failures" in message or bool(failing - self._failing))
        if answer is not None:
            self._decide(answer)
        self._failing = failing
        if fate is Fate.TAKEN:
            self._is_host_told = self._is_host_told or "host" in message
            self.earlier_boots = tuple(one for one in self.earlier_boots if one not in message.get("earlier_boots", ()))
        self.memory.note_told(message.get("failures", ()), is_safe=not self.teller.spool.is_holding)
        return fate is not Fate.LATER

    def _tell_slow(self) -> None:
        """Send what the slow checks found, as a part of the round in which they began."""
        ended = self.beside.take()
        if ended is None:
            return
        run_id, look, span = ended
        for trouble in look.troubles.values():
            self.say(trouble)
        failing = self._failing
        self._tell(self._message(look, run_id, span))
        self._failing |= failing

    def _decide(self, answer: dict[str, Any]) -> None:
        try:
            standing = standing_of(answer["admission"], answer.get("pass"))
        except (KeyError, TypeError, AttributeError):
            self.say("the server's answer holds no decision")
            return
        remark = why_not_counted(answer)
        if remark is not None and remark != self._remark:
            self.say(remark)
        self._remark = remark
        self.memory.was_admitted |= standing.admitted
        self._decided = self.times.monotonic()
        self._stand(standing)

    def _keep(self) -> None:
        """Let a decision that is too old go, and bring to the disk what must not be forgotten."""
        if self.times.monotonic() - self._decided > DECISION_MAX_AGE:
            detail = self.teller.error.detail if self.teller.error else "no answer yet"
            self._stand(without_decision(self.sender.node, detail))
        if not self.teller.spool.is_holding:
            self.memory.settle()
        self.memory.acted = self.actor.done
        try:
            self.memory.save()
            self._unsaved = ""
        except OSError as error:
            told, self._unsaved = self._unsaved, f"{error.filename or 'the state'} cannot be written: {error.strerror}"
            if told != self._unsaved:
                self.say(self._unsaved)

    def hurry(self, look: Look) -> None:
        """Tell faults before the round's look is whole, as a part of the round. Raises Superseded."""
        now = self.times.monotonic()
        message = self._message(look, self._run_id, Span(now, now))
        if message.get("failures"):
            self._tell(message)
            self._keep()

    def yield_to_newer(self, detail: str) -> None:
        """Say and do what follows when a newer instance has this node's name, before the agent ends."""
        self._stand(superseded(self.sender.node, detail))

    def _stand(self, standing: Standing) -> None:
        if standing != self.standing:
            verdict = "admitted" if standing.admitted else f"not admitted ({standing.disposition})"
            self.say(f"{standing.node}: {verdict} {','.join(standing.codes)}".rstrip())
        self.standing = standing
        self.actor.act(standing, rfc3339(self.times.now()))

    def _status(self) -> str:
        verdict = "admitted" if self.standing and self.standing.admitted else "not admitted"
        return f"{verdict}; {len(self.teller.spool)} messages wait"
