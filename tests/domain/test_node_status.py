# SPDX-License-Identifier: Apache-2.0
"""Does one word say where a node stands, the one that outranks the rest?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.domain.decision import Decision, Disposition, Reason, ReasonCode
from registry.domain.node_status import NodeStatus, node_status
from tests.clock import NOON

LATER = NOON + timedelta(hours=1)


def decision(*codes: ReasonCode, disposition: Disposition = Disposition.HOLD) -> Decision:
    reasons = tuple(Reason(code, "why") for code in codes)
    return Decision("node-a", not reasons, disposition, reasons, have=0, need=2, policy="", sequence=1, decided_at=NOON)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (decision(), NodeStatus.ADMITTED),
        (decision(ReasonCode.PASSES_INSUFFICIENT), NodeStatus.HELD),
        (decision(ReasonCode.DEVICE_QUARANTINED, disposition=Disposition.DRAIN), NodeStatus.DRAINING),
        (decision(ReasonCode.REPORT_STALE, ReasonCode.DEVICE_QUARANTINED), NodeStatus.STALE),
        (decision(ReasonCode.REPORT_STALE, disposition=Disposition.DRAIN), NodeStatus.STALE),
        (decision(ReasonCode.NODE_UNKNOWN), NodeStatus.STALE),
    ],
)
def test_the_state_follows_from_the_decision(given: Decision, state: NodeStatus) -> None:
    assert node_status(given, is_retired=False, maintenance_until=None, now=NOON) is state


def test_what_operators_said_outranks_it() -> None:
    stale = decision(ReasonCode.REPORT_STALE)

    assert node_status(stale, is_retired=False, maintenance_until=LATER, now=NOON) is NodeStatus.MAINTENANCE
    assert node_status(stale, is_retired=True, maintenance_until=LATER, now=NOON) is NodeStatus.RETIRED
    assert node_status(stale, is_retired=False, maintenance_until=NOON, now=NOON) is NodeStatus.STALE
