# SPDX-License-Identifier: Apache-2.0
"""May this node take work, and if not, what are all the reasons?

Every door of the service asks here. A node is admitted when not one reason is found; unknown is a reason.
"""

from __future__ import annotations

from datetime import datetime

from registry.domain.decision import Decision, DeviceRef, Disposition, ExitCode, Reason, ReasonCode, exit_code
from registry.domain.node_facts import Conflict, HoldOn, NodeFacts, Unattached, Withheld
from registry.domain.passes import effective_have
from registry.domain.policy import Policy
from registry.domain.reasons import QUESTIONS, held_devices, safe_mode, unknown_node, withheld

__all__ = [
    "Conflict",
    "Decision",
    "DeviceRef",
    "Disposition",
    "ExitCode",
    "HoldOn",
    "NodeFacts",
    "Reason",
    "ReasonCode",
    "Unattached",
    "Withheld",
    "decide",
    "decide_hardware",
    "exit_code",
]


def decide(facts: NodeFacts, *, policy: Policy, policy_digest: str, sequence: int, now: datetime) -> Decision:
    """Give the decision with every reason, in the order of `ReasonCode`.

    `policy_digest` names the policy and `sequence` the newest event of the snapshot that the facts were read in.
    """
    asked = QUESTIONS if facts.is_known else (unknown_node,)
    reasons = tuple(reason for ask in asked for reason in ask(facts, policy, now))
    return Decision(
        node=facts.node,
        admitted=not reasons,
        disposition=_disposition(facts, reasons),
        reasons=reasons,
        have=effective_have(facts.have, facts.silence_seconds, policy) if facts.is_known else 0,
        need=policy.pass_count,
        policy=policy_digest,
        sequence=sequence,
        decided_at=now,
    )


def decide_hardware(facts: NodeFacts, *, policy: Policy, policy_digest: str, sequence: int, now: datetime) -> Decision:
    """Give the decision on hardware that stands on no known node: by the holds that meet it, withheld ones too.

    In safe mode none is admitted. There is nothing that could have passed, so no passes are asked for: what it stands
    on later has to bring its own.
    """
    reasons = tuple(reason for ask in (held_devices, withheld, safe_mode) for reason in ask(facts, policy, now))
    return Decision(
        node=facts.node,
        admitted=not reasons,
        disposition=_disposition(facts, reasons),
        reasons=reasons,
        have=0,
        need=0,
        policy=policy_digest,
        sequence=sequence,
        decided_at=now,
    )


def _disposition(facts: NodeFacts, reasons: tuple[Reason, ...]) -> Disposition:
    """Running work is disturbed only when somebody asked for it or a condition says that it cannot go on."""
    if not reasons:
        return Disposition.ADMIT
    is_alone = any(reason.code is ReasonCode.NODE_UNKNOWN for reason in reasons)
    if not is_alone and (facts.condition_failures or any(hold.drain for hold in facts.holds)):
        return Disposition.DRAIN
    return Disposition.HOLD
