# SPDX-License-Identifier: Apache-2.0
"""How far is a node's clock from ours? Its times of faults are shifted by as much, so that ours win."""

from __future__ import annotations

from datetime import datetime, timedelta

from registry.domain.policy import Policy
from registry.domain.reports import ReportedFailure

_JUST_BEFORE = timedelta(microseconds=1)


def slow_by(sent_at: datetime | None, policy: Policy, now: datetime) -> timedelta:
    """Say how far the clock of a message that has just been sent is behind ours, less than zero where it is ahead.

    What was seen a moment ago must not count as from before a release, nor a restart as one after a fault that it came
    before. What a message needs for its way is no difference.
    """
    behind = now - sent_at if sent_at else timedelta(0)
    return behind if abs(behind) > timedelta(seconds=policy.future_tolerance_seconds) else timedelta(0)


def late_by(failure: ReportedFailure, began: datetime | None) -> timedelta:
    """As `slow_by`, for a fault in a message of which nobody knows how long it waited.

    What a boot that is over has seen came before the boot that `began` then, whatever the clock showed. None: it is of
    the running boot.
    """
    claimed = failure.last_at or failure.occurred_at
    if began is None or claimed is None or claimed < began:
        return timedelta(0)
    return began - _JUST_BEFORE - claimed
