# SPDX-License-Identifier: Apache-2.0
"""How does a message reach the server, and where is it until then?

What is so now goes out before what was: a backlog never delays the current report, and the server takes a message
that was overtaken as evidence only. A message that the server will never take is said and let go, so that it blocks
nothing behind it.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from registry.agent.messages import Message, Sender, evidence_of
from registry.agent.spool import Spool
from registry.agent.times import Times
from registry.client import Client, ClientError, NotAuthorised, ProblemAnswer, ServerUnreachable

PAUSE_MAX = 2.0
"""Longest pause between two tries while the server is away, in periods: a node counts as stale after four of them
without a report, and must be back before."""

PAUSE_ASKED_MAX = 85.0
"""Longest pause that a server may ask for, in seconds: the round after it still comes before the 120 at which a node
counts as stale."""

DRAIN_MAX = 20
"""Most spooled messages that go out in one round."""

CALM_MAX = 2
"""Most of them without news: a fleet whose server comes back must not send many times its usual load of old reports."""

DRAIN_SHARE = 1 / 3
"""Share of a period that emptying the spool may take."""

NEVER_TAKEN = frozenset({400, 409, 413, 422})
"""Answers that say something about the message, not about the moment."""

INTERNAL = 500
"""The server failed over a message, just after it took another."""

OF_THE_MOMENT = frozenset({401, 408, 429})
"""Refusals that may pass. Of a message that waited every other one is for ever: the server has just taken another with
the same token, and what it will not have must not block what is behind it."""


IDS = ("report_id", "boot_id", "provider_id")
"""What every message of an agent holds."""


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
    """Nobody took it now; it waits in the spool."""
    STUCK = auto()
    """The server fails over this very message: it stays in the spool, and others go before it."""
    NEVER = auto()
    """The server will not have it, however often it is sent."""


@dataclass(slots=True)
class Teller:
    """Brings messages to the server or into the spool. `say` gets sentences for the log.

    `fresh_token` reads the token anew, so that one that was replaced is taken up without a restart. `error` is what
    kept the last message from being taken, None since the server answered.
    """

    sender: Sender
    client: Client
    spool: Spool
    times: Times
    say: Callable[[str], None]
    fresh_token: Callable[[], str | None]
    period: float
    chance: Callable[[float, float], float] = random.uniform
    error: ClientError | None = None
    _misses: int = 0
    _not_before: float = float("-inf")

    def tell(self, message: Message, *, is_fault: bool) -> tuple[Fate, dict[str, Any] | None]:
        """Send a message, or keep it; give what became of it, and the answer. Raises Superseded."""
        is_due = self.times.monotonic() >= self._not_before
        fate, answer = self._send(message) if is_due else (Fate.LATER, None)
        if fate is Fate.LATER:
            self.keep(message, is_fault=is_fault)
        elif fate is Fate.NEVER:
            if is_fault:
                self._tell_bare(message)
            self.spool.set_aside(json.dumps(message).encode(), "the server will never take it")
        return fate, answer

    def keep(self, message: Message, *, is_fault: bool) -> None:
        """Put a message into the spool."""
        bare = json.dumps(evidence_of(message, str(uuid.uuid4()))).encode() if is_fault else None
        self.spool.put(json.dumps(message).encode(), is_fault=is_fault, bare=bare)

    def sort_out(self) -> tuple[str, ...]:
        """Look through what an earlier agent left, set aside what must not be sent, and give the boots before this one.

        A disk or image may bring messages of another instance: a server that never heard of it would take them for a
        new life of this node.
        """
        boots: dict[str, None] = {}
        for entry in self.spool.on_disk():
            message = _message_in(entry.body)
            if message is None:
                self.spool.set_aside(entry, "it holds no report")
            elif message["provider_id"] != self.sender.provider_id:
                reason = f"it is of another instance, {message['provider_id']}{_faults_in(message)}"
                self.spool.set_aside(entry, reason)
            else:
                boots[message["boot_id"]] = None
        boots.pop(self.sender.boot_id, None)
        return tuple(boots)

    def drain(self) -> None:
        """Send the oldest of what waits, as much as one round may. Raises Superseded."""
        until = self.times.monotonic() + self.period * DRAIN_SHARE
        calm_left = CALM_MAX
        for entry in self.spool.waiting(DRAIN_MAX):
            calm_left -= not entry.is_fault
            if calm_left < 0 or self.times.monotonic() > until or self.times.wait(0):
                return
            message = _message_in(entry.body)
            if message is None:
                self.spool.set_aside(entry, "it holds no report")
                continue
            fate, _ = self._send(message, has_waited=True)
            if fate is Fate.LATER:
                return
            if fate is Fate.STUCK:
                continue
            if fate is Fate.NEVER:
                if entry.is_fault:
                    self._tell_bare(message)
                self.spool.set_aside(entry, "the server will never take it")
            else:
                self.spool.remove(entry)

    def _tell_bare(self, message: Message) -> None:
        """A list that the server cannot take must not take a fault down with it."""
        if "devices" not in message:
            return
        bare = evidence_of(message, str(uuid.uuid4()))
        fate, _ = self._send(bare, has_waited=True)
        if fate in {Fate.LATER, Fate.STUCK}:
            self.keep(bare, is_fault=True)
        elif fate is Fate.NEVER:
            self.spool.set_aside(json.dumps(bare).encode(), "the server will never take it")

    def _send(self, message: Message, *, has_waited: bool = False) -> tuple[Fate, dict[str, Any] | None]:
        try:
            answer = self.client.report(self.sender.node, message)
        except ProblemAnswer as error:
            return self._refused(message, error, has_waited=has_waited), None
        except ClientError as error:
            return self._missed(error), None
        if answer.get("report_id") != message["report_id"] or not isinstance(answer.get("admission"), dict):
            strange = ServerUnreachable(f"{self.client.url} answers, and not to the report it was sent")
            return self._missed(strange), None
        self._reached()
        return Fate.TAKEN, answer

    def _refused(self, message: Message, error: ProblemAnswer, *, has_waited: bool) -> Fate:
        if error.code == "instance_superseded":
            if not has_waited and "failures" in message:
                self.spool.set_aside(json.dumps(message).encode(), error.detail)
            raise Superseded(error.detail) from error
        if has_waited and error.status == INTERNAL:
            return Fate.STUCK
        if isinstance(error, NotAuthorised):
            self.client.token = self.fresh_token() or self.client.token
        is_waiting_vain = has_waited and error.status < 500 and error.status not in OF_THE_MOMENT
        if error.status not in NEVER_TAKEN and not is_waiting_vain:
            return self._missed(error)
        self._reached()
        wrong = "; ".join(f"{one.pointer} {one.detail}" for one in error.errors) or error.detail
        told = f"the server does not take report {message['report_id']} ({error.code}): {wrong}"
        self.say(told + _faults_in(message))
        return Fate.NEVER

    def _missed(self, error: ClientError) -> Fate:
        """Nobody took it: wait a while, longer each time, and at least as long as the server asks for."""
        pause = self.period * min(2.0**self._misses, PAUSE_MAX) * self.chance(0.5, 1.0)
        asked = min(error.retry_after or 0.0, PAUSE_ASKED_MAX)
        self._not_before = self.times.monotonic() + max(pause, asked)
        self._misses = min(self._misses + 1, 16)
        if self.error is None or self.error.detail != error.detail:
            self.say(f"{error.detail}; reports wait in {self.spool.folder}")
        self.error = error
        return Fate.LATER

    def _reached(self) -> None:
        if self.error is not None:
            self.say(f"{self.client.url} answers again; {len(self.spool)} messages wait")
        self.error, self._misses, self._not_before = None, 0, float("-inf")


def _faults_in(message: Message) -> str:
    """Name the faults of a message, as the end of a sentence."""
    faults = ", ".join(f"{one['code']} {one.get('failure_id')}" for one in message.get("failures", ()))
    return f"; faults in it: {faults}" if faults else ""


def _message_in(body: bytes) -> Message | None:
    """Read a message that was kept; None for what is none."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    is_one = isinstance(message, dict) and all(isinstance(message.get(name), str) for name in IDS)
    faults = message.get("failures", []) if is_one else None
    is_whole = isinstance(faults, list) and all(isinstance(one, dict) and "code" in one for one in faults)
    return message if is_whole else None
