# SPDX-License-Identifier: Apache-2.0
"""May a rule take one more node out of work, or are too many held at once for this to be the devices' fault?

The breaker counts distinct nodes that rules have held within the window, so it clears by itself. It limits rules only:
people hold and release what they like.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from registry.domain.policy import Policy


@dataclass(frozen=True, slots=True)
class Share:
    """One group of nodes that a node belongs to: the fleet, those of its profile, those of its zone.

    `nodes` are the unretired ones that reported of late, `held` those of them that rules have held in the window, the
    node in question not counted.
    """

    name: str
    percent: int
    nodes: int
    held: int


def limit_of(share: Share, *, is_permanent: bool, policy: Policy) -> int:
    """Return how many nodes of a group rules may hold within the window, however small the group is."""
    return max(least_of(is_permanent=is_permanent, policy=policy), share.percent * share.nodes // 100)


def least_of(*, is_permanent: bool, policy: Policy) -> int:
    """Return how many get through in any case: for a code whose evidence outlives a boot a few more."""
    return policy.breaker_permanent_min if is_permanent else policy.breaker_limit_min


def exceeded(shares: Iterable[Share], *, is_permanent: bool, policy: Policy) -> Share | None:
    """Return the first group in which one more node would be too many; None when the hold may be opened."""
    for share in shares:
        if share.held + 1 > limit_of(share, is_permanent=is_permanent, policy=policy):
            return share
    return None


def told(share: Share, *, is_permanent: bool, policy: Policy) -> str:
    """Say to a person why a hold is withheld."""
    limit = limit_of(share, is_permanent=is_permanent, policy=policy)
    minutes = policy.breaker_window_seconds // 60
    return (
        f"rules have held {share.held} of {share.nodes} nodes of {share.name} within {minutes} minutes, "
        f"and the limit is {limit}"
    )
