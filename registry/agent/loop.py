# SPDX-License-Identifier: Apache-2.0
"""What does the agent do, round after round? Look, tell, act on the answer, empty the spool a little, wait.

What is so now goes out before what was: a backlog never delays the current report, and the server takes a message
that was overtaken as evidence only.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import Any, Protocol

from registry.agent.acting import Actor, Standing, standing_of, without_decision
from registry.agent.looking import Look
from registry.agent.memory import Memory
from registry.agent.messages import (
    Message,
    Sender,
    Span,
    evidence_of,
    failing_in,
    failure_ids,
    message_of,
    stamped,
)
from registry.agent.notify import ALIVE, READY, STOPPING
from registry.agent.spool import Spool
from registry.client import Client, ClientError, NotAuthorised, ProblemAnswer
from registry.domain.reports import DeviceEntry
from registry.domain.times import rfc3339

PERIOD_SECONDS = 30.0
"""From the start of one round to that of the next at least: the gap that a server asks for between two passes."""

JITTER = (0.02, 0.1)
"""What chance adds to a period, as shares of it. Never nothing: a report that travels faster than the one before would
else seem to begin too soon. Chance also keeps a fleet that started at one moment from reporting at one moment."""

PAUSE_MAX = 60.0
"""Longest pause between two tries while the server is away: a node counts as stale after 120 s without a report, and
must be back before."""

PAUSE_ASKED_MAX = 300.0
"""Longest pause that a server may ask for."""

DECISION_MAX_AGE = 120.0
"""Seconds after which the last decision is none any more: as old as a report may be for the server (`report_stale`)."""

DRAIN_MAX = 20
"""Most spooled messages that go out in one round. A day's worth is through in some hours, and no fleet that comes back
at once sends more than this many times its usual load."""

DRAIN_SHARE = 1 / 3
"""Share of a period that emptying the spool may take."""


class Times(Protocol):
    """The clocks of a machine, and a wait that ends early when the agent is to stop."""

    def monotonic(self) -> float:
        """Seconds that only go up."""

    def now(self) -> datetime:
        """The time of day, as far as this machine knows it."""

    def since_boot(self) -> int:
        """Milliseconds since the machine started."""

    def wait(self, seconds: float) -> bool:
        """Wait; true when the agent is to stop."""


class Beside(Protocol):
    """Slow checks that run beside the loop."""

    def start(self, run_id: str) -> None:
        """Let them begin as part of a round, unless they ran or run already."""

    def take(self) -> tuple[str, Look, Span] | None:
        """Give the id of the round that they are part of and what they found, once, when they have ended."""


class Superseded(Exception):
    """A newer instance has this node's name. `detail` is the server's sentence."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Fate(Enum):
    """What became of a message."""

    TAKEN = auto()
    """The server has it."""
    LATER = auto()
    """Nobody took it now; it may be taken later."""
    NEVER = auto()
    """The server will not have it, however often it is sent."""


@dataclass(slots=True)
class Agent:
    """One node's agent. `look` reads the hardware, `say` gets sentences for the log, `notify` tells the service manager.

    `fresh_token` reads the token anew: one that was replaced is taken up without a restart.
    """

    sender: Sender
    client: Client
    spool: Spool
    memory: Memory
    actor: Actor
    look: Callable[[], Look]
    beside: Beside
    times: Times
    say: Callable[[str], None]
    notify: Callable[..., None]
    fresh_token: Callable[[], str | None]
    period: float = PERIOD_SECONDS
    chance: Callable[[float, float], float] = random.uniform
    standing: Standing | None = None
    lists: dict[str, tuple[DeviceEntry, ...]] = field(default_factory=dict)
    _seq: int = 0
    _failing: frozenset[tuple[str, str, str]] = frozenset()
    _host_told: bool = False
    _troubles: dict[str, str] = field(default_factory=dict)
    _misses: int = 0
    _not_before: float = float("-inf")
    _decided: float = float("-inf")
    _said: str = ""

    def run(self) -> None:
        """Go round until told to stop. Raises Superseded."""
        while not self._rest_after(self.round):
            pass
        self.notify(STOPPING)

    def round(self) -> None:
        """Do one round. Raises Superseded."""
        run_id = str(uuid.uuid4())
        started = self.times.monotonic()
        look = self._look()
        self.beside.start(run_id)
        message = self._message(look, run_id, Span(started, self.times.monotonic()))
        if self._tell(message):
            self._tell_slow()
            self._drain()
        self._keep()
        self.notify(READY, ALIVE, f"STATUS={self._status()}")

    def _rest_after(self, work: Callable[[], None]) -> bool:
        """Work, then wait until the next round is due; true when the agent is to stop."""
        started = self.times.monotonic()
        work()
        due = started + self.period * (1 + self.chance(*JITTER))
        return self.times.wait(max(0.0, due - self.times.monotonic()))

    # --- looking ----------------------------------------------------------------------------------------------------

    def _look(self) -> Look:
        look = self.look()
        self.lists.update(look.lists)
        for name, trouble in look.troubles.items():
            if self._troubles.get(name) != trouble:
                self.say(trouble)
        for name in self._troubles.keys() - look.troubles.keys():
            self.say(f"{name}: can be read again")
        self._troubles = dict(look.troubles)
        return look

    def _message(self, look: Look, run_id: str, span: Span) -> Message:
        message = message_of(
            look,
            self.sender,
            report_id=str(uuid.uuid4()),
            run_id=run_id,
            span=span,
            skip=self.memory.told,
            with_host=not self._host_told,
        )
        return self._stamp(message)

    def _stamp(self, message: Message) -> Message:
        # Time since boot counts up within a boot by itself, also when the folder of the state was lost.
        self._seq = max(self._seq + 1, self.times.since_boot())
        return stamped(message, seq=self._seq, now=self.times.now(), monotonic=self.times.monotonic())

    # --- telling ----------------------------------------------------------------------------------------------------

    def _tell(self, message: Message) -> bool:
        """Bring a message to the server or into the spool; true when the server answered. Raises Superseded."""
        failing = failing_in(message)
        is_fault = "failures" in message or bool(failing - self._failing)
        fate = self._send(message) if self.times.monotonic() >= self._not_before else Fate.LATER
        if fate is Fate.LATER:
            self.spool.put(json.dumps(message).encode(), is_fault=is_fault)
        elif fate is Fate.NEVER and is_fault:
            self._tell_bare(message)
        self._failing = failing
        self._host_told = self._host_told or (fate is Fate.TAKEN and "host" in message)
        self.memory.note_told(failure_ids(message))
        return fate is not Fate.LATER

    def _tell_bare(self, message: Message) -> None:
        """A list that the server cannot take must not take a fault down with it."""
        bare = evidence_of(message, str(uuid.uuid4()))
        if self._send(bare) is Fate.LATER:
            self.spool.put(json.dumps(bare).encode(), is_fault=True)

    def _tell_slow(self) -> None:
        """Send what the slow checks found, as a part of the round in which they began."""
        ended = self.beside.take()
        if ended is None:
            return
        run_id, look, span = ended
        for trouble in look.troubles.values():
            self.say(trouble)
        self.memory.is_diagnosed = True
        self._tell(self._message(look, run_id, span))

    def _drain(self) -> None:
        """Send the oldest of what waits, as much as one round may."""
        until = self.times.monotonic() + self.period * DRAIN_SHARE
        for entry in self.spool.waiting(DRAIN_MAX):
            if self.times.monotonic() > until:
                return
            message: Message = json.loads(entry.body)
            fate = self._send(message, is_current=False)
            if fate is Fate.LATER:
                return
            if fate is Fate.NEVER and "devices" in message and entry.is_fault:
                self._tell_bare(message)
            self.spool.remove(entry)

    def _send(self, message: Message, *, is_current: bool = True) -> Fate:
        """Send one message and heed the answer. Raises Superseded when it says that this instance is over."""
        try:
            answer = self.client.report(self.sender.node, message)
        except ProblemAnswer as error:
            return self._refused(message, error)
        except ClientError as error:
            return self._missed(error)
        self._reached()
        if is_current:
            self._decide(answer)
        return Fate.TAKEN

    def _refused(self, message: Message, error: ProblemAnswer) -> Fate:
        if error.code == "instance_superseded":
            if message["provider_id"] == self.sender.provider_id:
                raise Superseded(error.detail) from error
            self.say(f"a message of the instance {message['provider_id']} came too late: {error.detail}")
            return Fate.NEVER
        if isinstance(error, NotAuthorised):
            self.client.token = self.fresh_token() or self.client.token
            return self._missed(error)
        if error.status not in {400, 409, 413, 422}:
            return self._missed(error)
        self._reached()
        wrong = "; ".join(f"{one.pointer} {one.detail}" for one in error.errors)
        faults = ", ".join(f"{one['code']} {one['failure_id']}" for one in message.get("failures", ()))
        self.say(
            f"the server does not take report {message['report_id']} ({error.code}): {wrong or error.detail}"
            + (f"; faults in it: {faults}" if faults else "")
        )
        return Fate.NEVER

    def _missed(self, error: ClientError) -> Fate:
        """Nobody took it: wait a while, longer each time, and at least as long as the server asks for."""
        pause = min(self.period * 2.0**self._misses, PAUSE_MAX) * self.chance(0.5, 1.0)
        asked = min(error.retry_after or 0.0, PAUSE_ASKED_MAX)
        self._not_before = self.times.monotonic() + max(pause, asked)
        self._misses = min(self._misses + 1, 16)
        if self._said != error.detail:
            self._said = error.detail
            self.say(f"{error.detail}; reports are kept in {self.spool.folder} until somebody takes them")
        return Fate.LATER

    def _reached(self) -> None:
        if self._said:
            self.say(f"{self.client.url} answers again; {len(self.spool)} messages wait")
        self._said, self._misses, self._not_before = "", 0, float("-inf")

    # --- acting -----------------------------------------------------------------------------------------------------

    def _decide(self, answer: dict[str, Any]) -> None:
        try:
            standing = standing_of(answer["admission"])
        except (KeyError, TypeError, AttributeError):
            self.say("the server's answer holds no decision")
            return
        self._decided = self.times.monotonic()
        self._stand(standing)

    def _keep(self) -> None:
        """Let a decision that is too old go, and bring to the disk what must not be forgotten."""
        if self.times.monotonic() - self._decided > DECISION_MAX_AGE:
            self._stand(without_decision(self.sender.node, self._said or "no answer yet"))
        try:
            self.memory.save()
        except OSError as error:
            self.say(f"{error.filename or self.spool.folder} cannot be written: {error.strerror}")

    def _stand(self, standing: Standing) -> None:
        if standing != self.standing:
            verdict = "admitted" if standing.admitted else f"not admitted ({standing.disposition})"
            self.say(f"{standing.node}: {verdict} {','.join(standing.codes)}".rstrip())
        self.standing = standing
        self.actor.act(standing, rfc3339(self.times.now()))

    def _status(self) -> str:
        if self.standing is None:
            return f"no decision yet; {self._said}" if self._said else "no decision yet"
        verdict = "admitted" if self.standing.admitted else "not admitted"
        return f"{verdict}; {len(self.spool)} messages wait"
