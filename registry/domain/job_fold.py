# SPDX-License-Identifier: Apache-2.0
"""What do a job's messages amount to, one after the other in the order of their times?

The answer is a function of the set of messages: who gets one out of order begins anew from the first. What is known at
a message is written down at once and corrected by later ones: progress counts as productive until a restart shows that
it is gone. It shows by where the job begins again: the first progress after a start is the step that was restored.

Progress up to the durable mark (the highest checkpoint told, or step restored) is never taken back. Who falls behind it
nevertheless, because that checkpoint could not be read, repeats work: then the repetition is what counts as lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from registry.domain.failures import Cause
from registry.domain.goodput import Amount, Ledger, Slot, TimeKind, size_of, stretches
from registry.domain.job_events import JobEvent, JobEventKind, Outcome, PauseReason
from registry.domain.job_phases import AT_ONCE, PAUSES, STILL, Phase
from registry.domain.job_pieces import Open, Piece, cut_above, cut_at, pieces_of

PENDING_MAX = 512
"""Pieces of work that may wait for a checkpoint, 42 hours of them. The oldest beyond that counts as durable: whoever
saves nothing for longer and loses it is told so when the work is done again."""


@dataclass(slots=True)
class Fold:
    """A job after some of its messages. `delta` is what they added to its ledger since it was last emptied.

    `cause` is that of the last interruption, or of the start-up; `idle` what the time counts as while it does not work.
    `open` is work whose steps are not told yet, `pending` work that no checkpoint covers, `charged` what the present
    interruption was charged with. `pace` is the time and the steps of all work that nobody held back.
    """

    phase: Phase = Phase.ANNOUNCED
    mark: int = 0
    cause: Cause = Cause.USER
    idle: tuple[TimeKind, Cause] = (TimeKind.START_UP, Cause.USER)
    is_released: bool = False
    had_begun: bool = False
    nodes: int = 0
    devices: int = 0
    step: int = 0
    durable: int = 0
    attempts: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    outcome: Outcome | None = None
    pace: tuple[int, int] = (0, 0)
    open: list[Open] = field(default_factory=list)
    pending: list[Piece] = field(default_factory=list)
    charged: list[Piece] = field(default_factory=list)
    interrupted: Slot | None = None
    delta: Ledger = field(default_factory=Ledger)

    def take(self, events: Iterable[JobEvent]) -> None:
        """Take more messages, all of them later than `mark`."""
        for _, moment in groupby(sorted(events, key=lambda one: (one.at, one.event_id)), key=lambda one: one.at):
            together = list(moment)
            while together:
                self._advance(together.pop(self._first_of(together)))

    def _first_of(self, together: Sequence[JobEvent]) -> int:
        """Say which of several messages of one moment tells what came first."""
        order = AT_ONCE[self.is_released or self.phase in {*STILL, Phase.WAITING}]
        return min(range(len(together)), key=lambda at: order.index(together[at].kind))

    def _advance(self, event: JobEvent) -> None:
        self._pass_time(event.at)
        match event.kind:
            case JobEventKind.PROGRESS:
                self._on_progress(event)
            case JobEventKind.PAUSED:
                self._on_paused(event)
            case JobEventKind.RESUMED:
                self._on_resumed(event)
            case JobEventKind.INTERRUPTED:
                self._on_interrupted(event)
            case JobEventKind.STARTED:
                self._on_started(event)
            case JobEventKind.ENDED:
                self._on_ended(event)

    # --- time ------------------------------------------------------------------------------------------------------

    def _pass_time(self, at: int) -> None:
        """Account for the time since the message before."""
        start, self.mark = self.mark, max(self.mark, at)
        if self.phase in STILL:
            return
        spans = [Open(*one) for one in stretches(start, self.mark)]
        if self.phase is Phase.RUNNING:
            self.open += spans
            return
        kind, cause = (TimeKind.QUEUED, self.idle[1]) if self.is_released else self.idle
        pieces = [self._piece(one, kind, cause) for one in spans]
        self._put(pieces)
        if self.phase is Phase.WAITING:
            self.charged += pieces

    def _piece(self, span: Open, kind: TimeKind, cause: Cause | None, low: int = 0, high: int = 0) -> Piece:
        return Piece(span.bucket, kind, cause, self.nodes, self.devices, low, high, span.micros)

    def _put(self, pieces: Iterable[Piece], *, sign: int = 1) -> None:
        for one in pieces:
            micros = sign * one.micros
            amount = Amount(micros, micros * one.nodes, micros * one.devices)
            self.delta.put(Slot(one.bucket, size_of(one.devices), one.kind, one.cause), amount)

    def _move(self, pieces: Iterable[Piece], kind: TimeKind, cause: Cause) -> list[Piece]:
        """Count pieces as something else than before, and return them as that."""
        before = list(pieces)
        after = [one._replace(kind=kind, cause=cause) for one in before]
        self._put(before, sign=-1)
        self._put(after)
        return after

    # --- work ------------------------------------------------------------------------------------------------------

    def _close(self, step: int, *, slowed_by: Cause | None = None) -> None:
        """Put the open time to the steps that were done in it."""
        total, steps = sum(one.micros for one in self.open), step - self.step
        excess = 0
        if slowed_by is None:
            self.pace = (self.pace[0] + total, self.pace[1] + steps)
        elif self.pace[1]:
            excess = max(0, total - steps * self.pace[0] // self.pace[1])
        made = pieces_of(self.open, self.step, step, self.nodes, self.devices, excess=excess, cause=slowed_by)
        for one in made:
            again, fresh = cut_at(one, self.durable)
            if again is not None:
                self._put([again._replace(kind=TimeKind.LOST, cause=self.cause)])
            if fresh is not None:
                self._put([fresh])
                self._await_checkpoint(fresh)
        self.step, self.open = step, []

    def _await_checkpoint(self, piece: Piece) -> None:
        """Remember work that may still be lost; what was done in one bucket becomes one piece."""
        last = self.pending[-1] if self.pending else None
        if last is not None and last[:5] == piece[:5] and last.high == piece.low:
            self.pending[-1] = last._replace(high=piece.high, micros=last.micros + piece.micros)
            return
        self.pending.append(piece)
        if len(self.pending) > PENDING_MAX:
            self.durable = max(self.durable, self.pending.pop(0).high)

    def _keep(self, step: int | None) -> None:
        """Take note that progress is durable up to a step."""
        if step is None or step <= self.durable:
            return
        self.durable = step
        self.pending = [above for one in self.pending if (above := cut_at(one, step)[1]) is not None]

    def _drop(self, step: int, cause: Cause) -> None:
        """Progress above a step is gone."""
        for one in self.pending:
            above = cut_above(one, max(step, self.durable))
            if above is not None:
                self._move([above], TimeKind.LOST, cause)
        self.pending = []
        self._keep(step)

    def _lose_open(self, cause: Cause) -> list[Piece]:
        """What was done since the last word is gone."""
        lost = [self._piece(one, TimeKind.LOST, cause) for one in self.open]
        self._put(lost)
        self.open = []
        return lost

    def _reach(self, event: JobEvent) -> None:
        """Take note of the step that a message tells beside what it is about."""
        if event.step is not None and event.step > self.step and self.had_begun:
            self._close(event.step)
        self._keep(event.checkpoint)

    # --- messages --------------------------------------------------------------------------------------------------

    def _on_progress(self, event: JobEvent) -> None:
        if self.phase in STILL or event.step is None:
            return
        if not self.had_begun:
            self._drop(event.step, self.cause)
            self.step, self.had_begun = event.step, True
        elif event.step < self.step:
            self.cause = event.cause or Cause.USER
            self._lose_open(self.cause)
            self._drop(event.step, self.cause)
            self.step = event.step
        elif event.step > self.step:
            self._close(event.step, slowed_by=(event.cause or Cause.HARDWARE) if event.nodes else None)
        self._keep(event.checkpoint)
        self.phase, self.is_released, self.interrupted = Phase.RUNNING, False, None

    def _on_paused(self, event: JobEvent) -> None:
        if self.phase in STILL or self.phase is Phase.WAITING:
            return
        self._reach(event)
        kind, cause = PAUSES[event.reason or PauseReason.OTHER]
        self.phase, self.idle, self.is_released = Phase.PAUSED, (kind, event.cause or cause), event.is_released
        if kind is TimeKind.CHECKPOINTING:
            self._count(*self.idle)

    def _on_resumed(self, event: JobEvent) -> None:
        if self.phase is not Phase.PAUSED:
            return
        self._keep(event.checkpoint)
        self.phase, self.is_released = Phase.RUNNING if self.had_begun else Phase.STARTING, False
        self.idle = (TimeKind.START_UP, self.cause)

    def _on_interrupted(self, event: JobEvent) -> None:
        if self.phase in STILL:
            return
        if self.phase is Phase.WAITING:
            self._keep(event.checkpoint)
            self._blame(event.cause)
            return
        self._reach(event)
        self._interrupt(event.cause or Cause.UNKNOWN, is_released=event.is_released)

    def _interrupt(self, cause: Cause, *, is_released: bool = False) -> None:
        self.cause = cause
        self.charged = self._lose_open(cause)
        self.interrupted = self._count(TimeKind.LOST, cause)
        self.phase, self.idle, self.is_released = Phase.WAITING, (TimeKind.WAITING, cause), is_released
        self.had_begun = False

    def _count(self, kind: TimeKind, cause: Cause) -> Slot:
        """Count an interruption or a checkpoint where the time that it costs begins."""
        slot = Slot(next(stretches(self.mark, self.mark + 1))[0], size_of(self.devices), kind, cause)
        self.delta.put(slot, Amount(begun=1))
        return slot

    def _blame(self, cause: Cause | None) -> None:
        """A later message about the same interruption names the cause that the first one did not know."""
        if cause is None or self.cause is not Cause.UNKNOWN or self.interrupted is None:
            return
        self.delta.put(self.interrupted, Amount(begun=-1))
        self.interrupted = self.interrupted._replace(cause=cause)
        self.delta.put(self.interrupted, Amount(begun=1))
        self.charged = [moved for one in self.charged for moved in self._move([one], one.kind, cause)]
        self.cause, self.idle = cause, (self.idle[0], cause)

    def _on_started(self, event: JobEvent) -> None:
        if self.phase is Phase.PAUSED and self.is_released:
            self.cause = self.idle[1]
            self._lose_open(self.cause)
        elif self.phase in {Phase.RUNNING, Phase.PAUSED}:
            self._interrupt(Cause.UNKNOWN)
        elif self.phase in STILL:
            self.cause = Cause.USER
        if event.devices != self.devices:
            self.pace = (0, 0)
        self.nodes, self.devices = len(event.nodes), event.devices
        self.phase, self.idle, self.is_released = Phase.STARTING, (TimeKind.START_UP, self.cause), False
        self.had_begun, self.charged, self.ended_at, self.outcome = False, [], None, None
        self.attempts += 1
        self.started_at = event.at if self.started_at is None else self.started_at

    def _on_ended(self, event: JobEvent) -> None:
        if self.phase in STILL:
            return
        self._reach(event)
        self.outcome = event.outcome or Outcome.COMPLETED
        if self.outcome is Outcome.COMPLETED:
            self._put(self._piece(one, TimeKind.PRODUCTIVE, None) for one in self.open)
            self.pending, self.durable = [], max(self.durable, self.step)
        else:
            self._give_up(event.cause)
        self.open, self.charged, self.had_begun = [], [], False
        self.phase, self.ended_at, self.is_released, self.interrupted = Phase.ENDED, event.at, False, None

    def _give_up(self, cause: Cause | None) -> None:
        """The job ends without having done what it was for: what no checkpoint holds is gone."""
        if self.phase is Phase.WAITING:
            self._blame(cause)
            cause = self.cause
        elif self.outcome is Outcome.FAILED:
            cause = cause or Cause.UNKNOWN
            self._count(TimeKind.LOST, cause)
        else:
            cause = cause or Cause.USER
        self._lose_open(cause)
        self._drop(self.durable, cause)


def fold(events: Iterable[JobEvent]) -> Fold:
    """Take all messages of a job, in whatever order they came."""
    found = Fold()
    found.take(events)
    return found
