# SPDX-License-Identifier: Apache-2.0
"""What does a job say of itself? That it began, how far it is, that it waits, was interrupted, or is over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from registry.domain.failures import Cause


class JobEventKind(StrEnum):
    """What a message of a job tells."""

    PROGRESS = "progress"
    """So many steps, or samples, are done; perhaps that a checkpoint is durable up to one of them."""
    PAUSED = "paused"
    """It does not work for a while, for a reason."""
    RESUMED = "resumed"
    """It goes on where it paused."""
    INTERRUPTED = "interrupted"
    """Something stopped it; it means to start again."""
    STARTED = "started"
    """It has its nodes, and begins or begins again."""
    ENDED = "ended"
    """It is over."""


class PauseReason(StrEnum):
    """Why a job does not work although nothing stopped it."""

    CHECKPOINT = "checkpoint"
    """It saves its progress, and waits for that."""
    WAITING_FOR_NODES = "waiting_for_nodes"
    """It lacks a node, or one that it lost is not back."""
    PREEMPTED = "preempted"
    """The scheduler gave its place to another."""
    MAINTENANCE = "maintenance"
    """The platform is worked on."""
    EVALUATION = "evaluation"
    """It measures what it has learned so far, or does other work of its own that is no step."""
    OTHER = "other"
    """Its owner wants it so."""


class Outcome(StrEnum):
    """How a job ended."""

    COMPLETED = "completed"
    """It did what it was for: all its progress counts."""
    FAILED = "failed"
    """It stopped and will not start again: what no checkpoint holds is lost."""
    CANCELLED = "cancelled"
    """Somebody ended it: what no checkpoint holds is lost."""


class Unit(StrEnum):
    """What a job counts its progress in, one of them through all of its life."""

    STEP = "step"
    """Steps of training."""
    SAMPLES = "samples"
    """Samples, tokens, or whatever else it works through."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One message. `at` is the job's own time, in whole microseconds since 1970 UTC.

    `step` counts whatever `unit` says; `checkpoint` is the step up to which the
    progress is durable. `nodes` and `devices` are what a start has at its disposal, and on progress `nodes` are those
    that hold it back. `is_released` says that an interruption or a pause gave the devices back.
    """

    event_id: str
    kind: JobEventKind
    at: int
    step: int | None = None
    checkpoint: int | None = None
    nodes: tuple[str, ...] = ()
    devices: int = 0
    reason: PauseReason | None = None
    cause: Cause | None = None
    outcome: Outcome | None = None
    is_released: bool = False
    unit: Unit | None = None
    message: str | None = None


_TAKES: dict[JobEventKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    JobEventKind.STARTED: (("nodes", "devices"), ()),
    JobEventKind.PROGRESS: (("step",), ("checkpoint", "nodes", "cause")),
    JobEventKind.PAUSED: (("reason",), ("step", "checkpoint", "cause", "is_released", "message")),
    JobEventKind.RESUMED: ((), ("checkpoint",)),
    JobEventKind.INTERRUPTED: ((), ("step", "checkpoint", "nodes", "cause", "is_released", "message")),
    JobEventKind.ENDED: (("outcome",), ("step", "checkpoint", "cause", "message")),
}
"""What each kind must say, and may say beside it."""

_SAID = ("step", "checkpoint", "nodes", "devices", "reason", "cause", "outcome", "is_released", "message")
_CALLED = {"is_released": "released", "step": "step (or samples)"}


def why_not(event: JobEvent) -> str | None:
    """Say in a sentence what keeps a message from being understood, or None."""
    needed, allowed = _TAKES[event.kind]
    said = [name for name in _SAID if getattr(event, name) not in (None, (), 0, False) or _is_zero(event, name)]
    lacking = [_CALLED.get(name, name) for name in needed if name not in said]
    if lacking:
        return f"A message of kind {event.kind} needs {' and '.join(lacking)}."
    idle = [_CALLED.get(name, name) for name in said if name not in (*needed, *allowed)]
    if idle:
        return f"A message of kind {event.kind} has no {idle[0]}."
    if event.step is not None and event.checkpoint is not None and event.checkpoint > event.step:
        return f"A checkpoint cannot hold more ({event.checkpoint}) than is done ({event.step})."
    return None


def _is_zero(event: JobEvent, name: str) -> bool:
    """Step 0 is a step."""
    return name in {"step", "checkpoint"} and getattr(event, name) == 0
