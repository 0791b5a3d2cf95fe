# SPDX-License-Identifier: Apache-2.0
"""Does a join token cover what its terms say and nothing else, and does each instance join once?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from registry.domain.errors import AlreadyJoined, Forbidden, InstanceSuperseded
from registry.domain.joining import (
    Joined,
    JoinRefusal,
    JoinTerms,
    Trade,
    check_terms,
    check_trade,
    outside_terms,
    taken_before,
    used_up,
)
from tests.clock import NOON

TERMS = JoinTerms("gpu-*", 3, NOON + timedelta(hours=1), "p5.48xlarge")
TRADE = Trade("gpu-17", "i-1", "p5.48xlarge")


@pytest.mark.parametrize(
    ("pattern", "node", "fits"),
    [
        ("gpu-*", "gpu-", True),
        ("gpu-*", "gpu-17.eu", True),
        ("gpu-*", "GPU-17", False),
        ("gpu-*", "cpu-17", False),
        ("gpu-*", "my-gpu-17", False),
        ("gpu-?", "gpu-1", True),
        ("gpu-?", "gpu-17", False),
        ("gpu.1", "gpu-1", False),
        ("gpu-1", "gpu-1", True),
        ("*", "anything", True),
    ],
)
def test_a_pattern_covers_whole_names(pattern: str, node: str, fits: bool) -> None:
    refused = outside_terms(replace(TERMS, pattern=pattern), replace(TRADE, node=node), NOON)

    assert (refused is None) is fits
    assert refused is None or refused.because is JoinRefusal.NAME_OUTSIDE


def test_it_ends_at_its_time_to_the_moment() -> None:
    ended = outside_terms(TERMS, TRADE, TERMS.expires_at)

    assert outside_terms(TERMS, TRADE, TERMS.expires_at - timedelta(microseconds=1)) is None
    assert ended is not None
    assert ended.because is JoinRefusal.EXPIRED
    assert "2026-11-29T13:00:00" in ended.detail


@pytest.mark.parametrize("profile", [None, "g5.48xlarge"])
def test_one_that_is_bound_to_a_profile_takes_no_other(profile: str | None) -> None:
    refused = outside_terms(TERMS, replace(TRADE, profile=profile), NOON)

    assert refused is not None
    assert refused.because is JoinRefusal.PROFILE_OUTSIDE
    assert outside_terms(replace(TERMS, profile=None), replace(TRADE, profile=profile), NOON) is None


@pytest.mark.parametrize(
    ("joined", "because"),
    [
        ((), None),
        ((("i-1", True),), JoinRefusal.ALREADY_JOINED),
        ((("i-1", False),), None),
        ((("i-0", True),), None),
        ((("i-1", False), ("i-1", True)), JoinRefusal.ALREADY_JOINED),
        ((("i-1", False), ("i-2", True)), JoinRefusal.INSTANCE_SUPERSEDED),
        ((("i-1", False), ("i-2", False)), JoinRefusal.INSTANCE_SUPERSEDED),
        ((("i-0", False), ("i-1", False)), None),
    ],
)
def test_an_instance_joins_once_and_never_after_a_newer_one(
    joined: tuple[tuple[str, bool], ...], because: JoinRefusal | None
) -> None:
    before = [Joined(f"token-{at}", instance, is_open) for at, (instance, is_open) in enumerate(joined)]

    refused = taken_before(TRADE, before)

    assert (refused and refused.because) == because
    if because is JoinRefusal.ALREADY_JOINED:
        assert refused is not None
        assert refused.token_id == before[-1].token_id
        assert before[-1].token_id in refused.detail


def test_each_refusal_is_a_fact_and_only_what_somebody_should_know_of_is_noted() -> None:
    mine = Joined("token-1", "i-1", is_open=True)
    found = {
        one.because: (type(one.as_error()), one.is_noted)
        for one in (
            outside_terms(TERMS, TRADE, TERMS.expires_at),
            outside_terms(TERMS, replace(TRADE, node="cpu-1"), NOON),
            outside_terms(TERMS, replace(TRADE, profile=None), NOON),
            taken_before(TRADE, [mine]),
            taken_before(TRADE, [replace(mine, is_open=False), replace(mine, provider_id="i-2")]),
            used_up(3),
        )
        if one is not None
    }

    assert found == {
        JoinRefusal.EXPIRED: (Forbidden, False),
        JoinRefusal.NAME_OUTSIDE: (Forbidden, True),
        JoinRefusal.PROFILE_OUTSIDE: (Forbidden, True),
        JoinRefusal.ALREADY_JOINED: (AlreadyJoined, True),
        JoinRefusal.INSTANCE_SUPERSEDED: (InstanceSuperseded, True),
        JoinRefusal.USED_UP: (Forbidden, False),
    }
    assert set(found) == set(JoinRefusal)


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({}, []),
        ({"pattern": ""}, ["/pattern"]),
        ({"pattern": "gpu-[1-9]"}, ["/pattern"]),
        ({"pattern": "*" * 254}, ["/pattern"]),
        ({"uses": 0}, ["/uses"]),
        ({"uses": 100_001}, ["/uses"]),
        ({"expires_at": NOON}, ["/expires_at"]),
    ],
)
def test_terms_that_nothing_could_meet_are_named(changes: dict[str, object], pointers: list[str]) -> None:
    assert [error.pointer for error in check_terms(replace(TERMS, **changes), NOON)] == pointers  # type: ignore[arg-type]


def test_a_node_is_named_as_nodes_are() -> None:
    assert check_trade(TRADE) == []
    assert [error.pointer for error in check_trade(replace(TRADE, node="a/b"))] == ["/node"]
