# SPDX-License-Identifier: Apache-2.0
"""Are never more nodes disturbed than the budget allows, does it let go by itself, and is a bad detector noticed?"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.budget import DISABLED, Answer, Place, Sizes, Turn, Wish, grant, limit_of, suspect
from registry.domain.policy import Policy
from tests.clock import NOON

WIDE = Policy(
    **dict.fromkeys(("repair_fleet_nodes", "repair_profile_nodes", "repair_zone_nodes", "repair_hour_nodes"), 10**6),
    **dict.fromkeys(("repair_fleet_percent", "repair_profile_percent", "repair_zone_percent"), 100),
)
SIZES = Sizes(1000, {"p5": 600, "g5": 400}, {"a": 500, "b": 500})


def place(number: int, profile: str = "p5", zone: str | None = "a") -> Place:
    return Place(f"n{number}", profile, zone)


def wish(number: int, profile: str = "p5", zone: str | None = "a", condition: str = "gpu.ecc") -> Wish:
    return Wish(f"o{number}", place(number, profile, zone), condition)


def ask(wishes: list[Wish], disturbed: list[Place] | None = None, policy: Policy = WIDE, **more: object) -> Answer:
    plain: dict[str, object] = {"sizes": SIZES, "begun_within_hour": 0, "suspected": ()}
    return grant(wishes, disturbed or [], policy=policy, **{**plain, **more})  # type: ignore[arg-type]


# --- how many ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "most", "percent", "limit"),
    [
        (1000, 10, 5, 10),
        (100, 10, 5, 5),
        (39, 10, 5, 1),  # 1.95, rounded down
        (40, 10, 5, 2),
        (3, 10, 5, 1),  # 0.15, and at least one
        (0, 10, 5, 1),
        (1000, 10, 0, 1),
    ],
)
def test_the_smaller_limit_counts_shares_are_rounded_down_and_one_is_always_allowed(
    nodes: int, most: int, percent: int, limit: int
) -> None:
    assert limit_of(nodes, most=most, percent=percent) == limit


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"repair_fleet_nodes": 2}, "2 of 1000 nodes of the fleet are disturbed, and the limit is 2"),
        ({"repair_profile_nodes": 2}, "2 of 600 nodes of profile p5 are disturbed, and the limit is 2"),
        ({"repair_zone_nodes": 2}, "2 of 500 nodes of zone a are disturbed, and the limit is 2"),
        ({"repair_hour_nodes": 2}, "2 repairs began within the hour, and the limit is 2"),
    ],
)
def test_what_exceeds_a_limit_waits_and_is_told_which(limits: dict[str, int], why: str) -> None:
    policy = Policy(**{**WIDE.thresholds(), **limits})

    answer = ask([wish(1), wish(2), wish(3)], policy=policy)

    assert answer == Answer(("o1", "o2"), {"o3": why})


def test_one_profile_or_zone_at_its_limit_holds_up_no_other() -> None:
    policy = Policy(**{**WIDE.thresholds(), "repair_profile_nodes": 1, "repair_zone_nodes": 2})
    wishes = [wish(1), wish(2), wish(3, "g5"), wish(4, "g5", "b"), wish(5, "x9", None), wish(6, "x8", None)]

    assert ask(wishes, policy=policy).granted == ("o1", "o3", "o5")
    assert ask(wishes, [place(9, "g5", "b")], policy=policy).granted == ("o1", "o5")


def test_a_node_that_is_disturbed_already_may_be_mended_further() -> None:
    policy = Policy(**{**WIDE.thresholds(), "repair_fleet_nodes": 1})

    assert ask([wish(1), wish(2)], [place(1)], policy=policy).granted == ("o1",)


def test_the_limit_lets_go_when_nodes_are_back_and_only_so_far() -> None:
    policy = Policy(**{**WIDE.thresholds(), "repair_fleet_nodes": 3})
    wishes = [wish(number) for number in range(10, 20)]

    assert ask(wishes, [place(1), place(2), place(3)], policy=policy).granted == ()
    assert ask(wishes, [place(1)], policy=policy).granted == ("o10", "o11")


@pytest.mark.parametrize("stop", [{"policy": Policy(repair_enabled=False)}, {"is_stopped": True}])
def test_the_switch_stops_everything(stop: dict[str, object]) -> None:
    assert ask([wish(1), wish(2)], **stop) == Answer((), {"o1": DISABLED, "o2": DISABLED})  # type: ignore[arg-type]


def test_a_suspected_check_stops_its_own_repairs_and_no_others() -> None:
    answer = ask([wish(1), wish(2, condition="gpu.xid")], suspected=["gpu.ecc"])

    assert answer.granted == ("o2",)
    assert "a person" in answer.waiting["o1"]


def test_thirty_nodes_of_one_zone_are_not_repaired_at_once() -> None:
    """C110."""
    sizes = Sizes(300, {"p5": 300}, {"a": 60, "b": 240})

    answer = ask([wish(number) for number in range(30)], policy=Policy(repair_profile_nodes=30), sizes=sizes)

    assert len(answer.granted) == 5
    assert all("zone a" in why for why in answer.waiting.values())


places = st.integers(0, 40).map(lambda number: place(number, ("p5", "g5")[number % 2], ("a", "b", None)[number % 3]))
policies = st.builds(
    Policy,
    repair_fleet_nodes=st.integers(1, 12),
    repair_fleet_percent=st.integers(0, 100),
    repair_profile_nodes=st.integers(1, 8),
    repair_zone_nodes=st.integers(1, 8),
    repair_zone_percent=st.integers(0, 100),
    repair_hour_nodes=st.integers(1, 30),
)


@given(st.lists(places, max_size=30), st.lists(places, max_size=8), st.integers(0, 30), policies, st.integers(0, 60))
def test_no_limit_is_ever_exceeded_by_what_is_granted(
    wanted: list[Place], disturbed: list[Place], begun: int, policy: Policy, fleet: int
) -> None:
    sizes = Sizes(fleet, {"p5": fleet // 2, "g5": fleet // 2}, {"a": fleet // 3, "b": fleet // 3, None: fleet // 3})
    wishes = [Wish(f"o{at}", one, "gpu.ecc") for at, one in enumerate(wanted)]
    by_order = {one.order_id: one.place for one in wishes}

    answer = ask(wishes, disturbed, policy, sizes=sizes, begun_within_hour=begun)

    assert set(answer.granted) | set(answer.waiting) == by_order.keys()
    before = {one.node_id: one for one in disturbed}
    fresh = {by_order[one].node_id: by_order[one] for one in answer.granted if by_order[one].node_id not in before}
    after = [*before.values(), *fresh.values()]
    if not fresh:
        return
    assert begun + len(fresh) <= policy.repair_hour_nodes
    limit = limit_of(fleet, most=policy.repair_fleet_nodes, percent=policy.repair_fleet_percent)
    assert len(after) <= limit
    for zone in {one.zone for one in fresh.values()}:
        limit = limit_of(fleet // 3, most=policy.repair_zone_nodes, percent=policy.repair_zone_percent)
        assert Counter(one.zone for one in after)[zone] <= limit
    for profile in {one.profile for one in fresh.values()}:
        limit = limit_of(fleet // 2, most=policy.repair_profile_nodes, percent=policy.repair_profile_percent)
        assert Counter(one.profile for one in after)[profile] <= limit


@given(st.lists(places, min_size=1, max_size=20), st.integers(1, 60))
def test_a_fleet_at_rest_can_always_mend_one_node(wanted: list[Place], fleet: int) -> None:
    answer = ask([Wish(f"o{at}", one, "gpu.ecc") for at, one in enumerate(wanted)], policy=Policy(), sizes=Sizes(fleet))

    assert answer.granted


# --- the detector -----------------------------------------------------------------------------------------------------


def turns(count: int, *, every: float = 1, condition: str = "gpu.ecc", first: int = 0) -> list[Turn]:
    return [Turn(condition, f"n{first + number}", NOON + timedelta(seconds=every * number)) for number in range(count)]


def test_many_nodes_that_turn_bad_at_once_cast_doubt_on_the_check() -> None:
    assert suspect(turns(4), fleet=80, trusted_at={}, policy=Policy()) == ()
    (found,) = suspect(turns(9), fleet=80, trusted_at={}, policy=Policy())

    assert (found.condition, found.nodes, found.limit) == ("gpu.ecc", 5, 4)
    assert found.since == NOON + timedelta(seconds=4)
    assert "gpu.ecc" in found.told()


def test_in_a_large_fleet_more_nodes_are_believed() -> None:
    assert suspect(turns(50), fleet=1000, trusted_at={}, policy=Policy()) == ()
    assert suspect(turns(51), fleet=1000, trusted_at={}, policy=Policy())


def test_what_turns_bad_slowly_or_on_one_node_is_believed() -> None:
    again = [Turn("gpu.ecc", "n1", one.at) for one in turns(20)]

    assert suspect(turns(20, every=150), fleet=80, trusted_at={}, policy=Policy()) == ()
    assert suspect(again, fleet=80, trusted_at={}, policy=Policy()) == ()


def test_each_check_is_judged_by_its_own() -> None:
    mixed = turns(4) + turns(4, condition="gpu.xid", first=10) + turns(5, condition="efa.link", first=20)

    assert [one.condition for one in suspect(mixed, fleet=80, trusted_at={}, policy=Policy())] == ["efa.link"]


def test_after_a_person_said_go_on_only_what_turns_bad_later_counts() -> None:
    said = {"gpu.ecc": NOON + timedelta(seconds=30)}
    later = [Turn("gpu.ecc", f"m{number}", NOON + timedelta(seconds=40 + number)) for number in range(5)]

    assert suspect(turns(20), fleet=80, trusted_at=said, policy=Policy()) == ()
    assert suspect([*turns(20), *later], fleet=80, trusted_at=said, policy=Policy())


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3000)), max_size=40),
    st.randoms(),
)
def test_a_suspicion_is_one_of_a_window_that_holds_too_many_nodes(told: list[tuple[int, int]], random: object) -> None:
    policy = Policy()
    listed = [Turn("gpu.ecc", f"n{node}", NOON + timedelta(seconds=second)) for node, second in told]
    mixed = sorted(listed, key=lambda _: random.random())  # type: ignore[attr-defined]
    window = timedelta(seconds=policy.detector_window_seconds)
    crowded = [
        end.at
        for end in listed
        if len({one.node_id for one in listed if end.at - window < one.at <= end.at}) > policy.detector_nodes
    ]

    found = suspect(mixed, fleet=20, trusted_at={}, policy=policy)

    assert found == suspect(listed, fleet=20, trusted_at={}, policy=policy)
    assert bool(found) is bool(crowded)
    if found:
        assert found[0].since == min(crowded)
