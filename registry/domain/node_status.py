# SPDX-License-Identifier: Apache-2.0
"""In one word, where does a node stand?"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from registry.domain.decision import Decision, Disposition, ReasonCode

_SILENT = frozenset({ReasonCode.REPORT_STALE, ReasonCode.NODE_UNKNOWN})


class NodeStatus(StrEnum):
    """Where a node stands, as the `state` of its page, what outranks the rest first."""

    RETIRED = "retired"
    """An operator said that it will not come back, and it has not."""
    MAINTENANCE = "maintenance"
    """An operator keeps it out of work for a while."""
    STALE = "stale"
    """It is silent: it never reported, or not for too long."""
    DRAINING = "draining"
    """It takes no work, and what runs on it should be moved away."""
    HELD = "held"
    """It takes no new work."""
    ADMITTED = "admitted"
    """It may take work."""


def node_status(
    decision: Decision, *, is_retired: bool, maintenance_until: datetime | None, now: datetime
) -> NodeStatus:
    """Give the state that follows from the decision of `now` and from what operators said."""
    if is_retired:
        return NodeStatus.RETIRED
    if maintenance_until is not None and maintenance_until > now:
        return NodeStatus.MAINTENANCE
    if any(reason.code in _SILENT for reason in decision.reasons):
        return NodeStatus.STALE
    if decision.disposition is Disposition.DRAIN:
        return NodeStatus.DRAINING
    return NodeStatus.ADMITTED if decision.admitted else NodeStatus.HELD
