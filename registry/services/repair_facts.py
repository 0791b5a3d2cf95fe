# SPDX-License-Identifier: Apache-2.0
"""What would mend a failure that stands, by all that is known of its node and of what was done before?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from registry.domain.condition_shown import Condition, ConditionStatus
from registry.domain.node_facts import NodeFacts
from registry.domain.policy import Policy
from registry.domain.repair import Proposal, RecoveryAction, fault_of, propose, read_recovery
from registry.domain.repair_orders import Outcome, as_done
from registry.domain.times import rfc3339
from registry.services.admission import load_facts
from registry.store import repairs
from registry.store.database import Snapshot

RECOVERY = "gpu.recovery_action"
"""The check that asks the driver itself."""

COUNT = ".count"
"""The end of the names of the checks that compare a list with what is expected."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a condition stands: on which instance of which node, and on which device, None for the node itself."""

    node: str
    instance_id: str
    condition: str
    device_id: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A failure that stands and that a repair could end, and all that is known of its node."""

    facts: NodeFacts
    condition: Condition

    @property
    def recovers(self) -> str | None:
        """Say so where the check is well again, and the failure only lasts until that has lasted; else None."""
        ends = self.condition.clears_at
        return f"the check is well again, and the failure is over at {rfc3339(ends)} if it stays so" if ends else None


def find_standing(snapshot: Snapshot, place: Place, *, policy: Policy, now: datetime) -> Standing | None:
    """Look whether there is a failure in a place; None where there is none, or none that a repair could end."""
    facts = load_facts(snapshot, place.node, policy=policy, now=now)
    found = _find(facts.conditions, place)
    return Standing(facts, found) if found is not None and _is_repairable(facts, found) else None


def propose_for(
    snapshot: Snapshot, place: Place, standing: Standing, *, policy: Policy, now: datetime
) -> Proposal | None:
    """Give what the ladder proposes; None for a failure of which it knows no fault.

    A proposal without an action says why nothing is to be done.
    """
    facts, found = standing.facts, standing.condition
    if standing.recovers is not None:
        return Proposal(None, standing.recovers)
    mine = [one for one in facts.conditions if _device_of(one) == place.device_id]
    is_proven = place.device_id is not None and any(
        one.name in policy.repair_trusted_checks and one.status in _BAD for one in mine
    )
    fault = fault_of(found, recovery=_recovery(mine), is_proven=is_proven, policy=policy)
    if fault is None:
        return None
    past = repairs.list_past(snapshot, place.condition, device_id=place.device_id, instance_id=place.instance_id)
    began = found.failure_at or found.since
    if any(one.outcome is Outcome.BY_PERSON and one.ended_at is not None and one.ended_at >= began for one in past):
        return Proposal(None, "A person cancelled the repair of this failure: it is theirs until it is over.")
    done = [one for order in past if (one := as_done(order)) is not None]
    return propose(fault, done, policy=policy, now=now)


_BAD = frozenset({ConditionStatus.PROBLEM, ConditionStatus.FAILURE})


def _find(conditions: Iterable[Condition], place: Place) -> Condition | None:
    return next(
        (
            one
            for one in conditions
            if one.name == place.condition
            and one.status is ConditionStatus.FAILURE
            and _device_of(one) == place.device_id
        ),
        None,
    )


def _device_of(condition: Condition) -> str | None:
    return condition.device.id if condition.device else None


def _is_repairable(facts: NodeFacts, condition: Condition) -> bool:
    """A node that lists more than is expected, or another model, has a wrong profile: no boot makes that right."""
    if not condition.name.endswith(COUNT):
        return True
    kind = condition.name.removesuffix(COUNT)
    listed, expected = facts.listed_counts.get(kind), facts.expected_counts.get(kind)
    return condition.device is None and listed is not None and expected is not None and listed < expected


def _recovery(conditions: Iterable[Condition]) -> RecoveryAction:
    """What the driver asks for, where it asks for anything."""
    said = (read_recovery(one.message) for one in conditions if one.name == RECOVERY and one.status in _BAD)
    return next(said, RecoveryAction.NONE)
