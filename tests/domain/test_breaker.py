# SPDX-License-Identifier: Apache-2.0
"""How many nodes may rules hold within the window, of a fleet of any size?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.breaker import Share, exceeded, limit_of, told
from registry.domain.policy import Policy

POLICY = Policy()


@pytest.mark.parametrize(
    ("percent", "nodes", "limit", "permanent"),
    [(5, 0, 1, 4), (5, 39, 1, 4), (5, 40, 2, 4), (5, 100, 5, 5), (10, 19, 1, 4), (20, 30, 6, 6), (5, 10_000, 500, 500)],
)
def test_a_share_is_rounded_down_and_some_get_through_anyway(
    percent: int, nodes: int, limit: int, permanent: int
) -> None:
    share = Share("the fleet", percent, nodes, 0)
    assert limit_of(share, is_permanent=False, policy=POLICY) == limit
    assert limit_of(share, is_permanent=True, policy=POLICY) == permanent


def test_the_first_group_that_is_full_is_named() -> None:
    free, full = Share("the fleet", 5, 1000, 49), Share("zone a", 20, 30, 6)
    assert exceeded([free, full], is_permanent=False, policy=POLICY) == full
    assert exceeded([free], is_permanent=False, policy=POLICY) is None
    assert exceeded([], is_permanent=False, policy=POLICY) is None
    assert "6 of 30 nodes of zone a within 10 minutes, and the limit is 6" in told(
        full, is_permanent=False, policy=POLICY
    )


@given(st.integers(0, 20_000), st.integers(0, 20_000), st.booleans())
def test_what_is_let_through_never_passes_the_limit(nodes: int, held: int, permanent: bool) -> None:
    share = Share("the fleet", 5, nodes, held)
    limit = max(4 if permanent else 1, nodes * 5 // 100)
    assert (exceeded([share], is_permanent=permanent, policy=POLICY) is None) is (held + 1 <= limit)
