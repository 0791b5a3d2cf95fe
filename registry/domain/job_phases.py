# SPDX-License-Identifier: Apache-2.0
"""Where can a job stand, what is each pause of it, and which of several messages of one moment came first?"""

from __future__ import annotations

from enum import StrEnum

from registry.domain.failures import Cause
from registry.domain.goodput import TimeKind
from registry.domain.job_events import JobEventKind, PauseReason


class Phase(StrEnum):
    """Where a job stands after its messages so far."""

    ANNOUNCED = "announced"
    """It has said something, but not that it began."""
    STARTING = "starting"
    """It has its nodes and no progress yet."""
    RUNNING = "running"
    """It works."""
    PAUSED = "paused"
    """It does not work for a while."""
    WAITING = "waiting"
    """It was interrupted and has not begun again."""
    ENDED = "ended"
    """It is over."""


PAUSES: dict[PauseReason, tuple[TimeKind, Cause]] = {
    PauseReason.CHECKPOINT: (TimeKind.CHECKPOINTING, Cause.USER),
    PauseReason.WAITING_FOR_NODES: (TimeKind.WAITING, Cause.PLATFORM),
    PauseReason.PREEMPTED: (TimeKind.PAUSED, Cause.PLATFORM),
    PauseReason.MAINTENANCE: (TimeKind.PAUSED, Cause.PLATFORM),
    PauseReason.EVALUATION: (TimeKind.PAUSED, Cause.USER),
    PauseReason.OTHER: (TimeKind.PAUSED, Cause.USER),
}
"""What a pause is, and whose it is unless the message says so: a checkpoint is the job's own choice."""

STILL = frozenset({Phase.ANNOUNCED, Phase.ENDED})

AT_ONCE: tuple[tuple[JobEventKind, ...], ...] = (
    (*(one for one in JobEventKind if one is not JobEventKind.STARTED), JobEventKind.STARTED),
    (JobEventKind.STARTED, *(one for one in JobEventKind if one is not JobEventKind.STARTED)),
)
"""In which order messages of one moment are taken: of a job that has its nodes, and of one that waits for them."""
