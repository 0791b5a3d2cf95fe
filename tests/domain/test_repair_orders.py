# SPDX-License-Identifier: Apache-2.0
"""Does an order to repair go through its life once, whoever claims it, vanishes, or comes too late?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.errors import NotOpen
from registry.domain.policy import Policy
from registry.domain.repair import Action, Done
from registry.domain.repair_orders import (
    Order,
    OrderState,
    Outcome,
    as_done,
    cancel,
    claim,
    complete,
    covers,
    expire,
    is_disturbing,
    let_wait,
    make_ready,
    review,
)
from tests.clock import NOON

POLICY = Policy()
LEASE = timedelta(seconds=POLICY.repair_lease_seconds)
SETTLE = timedelta(seconds=POLICY.repair_settle_seconds)
PLANNED = Order("o1", Action.RESET_GPU, "gpu.ecc", "n1", "i1", "it fails", NOON, device_id="u1")
READY = make_ready(PLANNED, NOON)
CLAIMED = claim(READY, "robot-1", policy=POLICY, now=NOON)
DONE = complete(CLAIMED, "robot-1", is_done=True, detail=None, now=NOON)
STEPS: dict[str, Callable[[Order, datetime], Order]] = {
    "let_wait": lambda order, _: let_wait(order, "the budget"),
    "make_ready": make_ready,
    "claim": lambda order, now: claim(order, "robot-1", token=order.attempts, policy=POLICY, now=now),
    "complete": lambda order, now: complete(order, "robot-1", is_done=True, detail=None, now=now),
    "cancel": lambda order, now: cancel(order, Outcome.BY_PERSON, "no", now=now),
}


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        ("planned", {"let_wait", "make_ready", "cancel"}),
        ("ready", {"let_wait", "claim", "cancel"}),
        ("claimed", {"claim", "complete", "cancel"}),
        ("done", set[str]()),
        ("failed", set[str]()),
        ("cancelled", set[str]()),
    ],
)
def test_each_state_lets_only_some_steps_be_taken(state: str, allowed: set[str]) -> None:
    order = replace(CLAIMED, state=OrderState(state))
    taken = set()
    for name, step in STEPS.items():
        try:
            step(order, NOON)
        except NotOpen:
            continue
        taken.add(name)

    assert taken == allowed


def test_an_order_tells_who_has_it_until_when_and_how_it_ended() -> None:
    assert (CLAIMED.claimed_by, CLAIMED.lease_until, CLAIMED.attempts) == ("robot-1", NOON + LEASE, 1)
    assert (DONE.state, DONE.outcome, DONE.ended_at, DONE.lease_until) == (
        *(OrderState.DONE, Outcome.CARRIED_OUT, NOON),
        None,
    )
    failed = complete(CLAIMED, "robot-1", is_done=False, detail="no console", now=NOON)
    assert (failed.state, failed.outcome, failed.detail) == (OrderState.FAILED, Outcome.NOT_POSSIBLE, "no console")


def test_nobody_else_can_claim_or_complete_what_is_claimed() -> None:
    with pytest.raises(NotOpen, match="robot-1"):
        claim(CLAIMED, "robot-2", policy=POLICY, now=NOON + LEASE / 2)
    with pytest.raises(NotOpen, match="robot-1"):
        complete(CLAIMED, "robot-2", is_done=True, detail=None, now=NOON)


def test_claiming_again_renews_the_lease_and_is_no_new_attempt() -> None:
    renewed = claim(CLAIMED, "robot-1", token=1, policy=POLICY, now=NOON + LEASE / 2)

    assert (renewed.lease_until, renewed.attempts, renewed.claimed_at) == (NOON + LEASE * 1.5, 1, NOON)


def test_a_lease_that_ran_out_lets_another_one_try_and_the_late_one_is_told() -> None:
    taken = claim(CLAIMED, "robot-2", policy=POLICY, now=NOON + LEASE)

    assert (taken.claimed_by, taken.attempts) == ("robot-2", 2)
    with pytest.raises(NotOpen, match="robot-2"):
        complete(taken, "robot-1", is_done=True, detail=None, now=NOON + LEASE)


def test_an_order_that_is_claimed_in_vain_again_and_again_has_failed() -> None:
    order, now = READY, NOON
    for _ in range(POLICY.repair_attempts):
        order = claim(order, "robot-1", policy=POLICY, now=now)
        now += LEASE
    order = expire(order, policy=POLICY, now=now)

    assert (order.state, order.outcome) == (OrderState.FAILED, Outcome.GIVEN_UP)
    assert str(POLICY.repair_attempts) in (order.detail or "")


@pytest.mark.parametrize(
    ("stands", "is_here", "wanted", "outcome"),
    [
        (True, True, Action.RESET_GPU, None),
        (True, True, None, None),
        (False, True, None, Outcome.RECOVERED),
        (True, False, Action.RESET_GPU, Outcome.GONE),
        (False, False, None, Outcome.GONE),
        (True, True, Action.REBOOT_NODE, Outcome.SUPERSEDED),
    ],
)
@pytest.mark.parametrize("order", [PLANNED, READY])
def test_what_is_not_so_any_more_is_not_carried_out(
    order: Order, stands: bool, is_here: bool, wanted: Action | None, outcome: Outcome | None
) -> None:
    after = review(order, stands=stands, is_here=is_here, wanted=wanted, now=NOON)

    assert after.outcome is outcome
    assert after.state is (OrderState.CANCELLED if outcome else order.state)


@pytest.mark.parametrize("order", [CLAIMED, DONE])
def test_what_somebody_carries_out_or_has_carried_out_is_not_taken_back(order: Order) -> None:
    assert review(order, stands=False, is_here=False, wanted=None, now=NOON) == order


@pytest.mark.parametrize(
    ("action", "device", "covered"),
    [
        (Action.RESET_GPU, "u1", True),
        (Action.MOVE_JOB, "u1", True),
        (Action.REBOOT_NODE, "u1", False),
        (Action.RESET_GPU, "u2", False),
        (Action.RESET_GPU, None, False),
    ],
)
def test_an_open_order_makes_others_needless_that_do_as_much(action: Action, device: str | None, covered: bool) -> None:
    assert covers(PLANNED, action, device) is covered
    assert not covers(DONE, action, device)


def test_a_boot_makes_resets_of_all_devices_needless() -> None:
    boot = replace(PLANNED, action=Action.REBOOT_NODE, device_id=None)

    assert covers(boot, Action.RESET_GPU, "u1")
    assert covers(replace(boot, device_id="u2"), Action.RESET_GPU, "u1")


@pytest.mark.parametrize(
    ("order", "is_back", "later", "expected"),
    [
        (PLANNED, False, timedelta(0), False),
        (READY, True, timedelta(0), True),
        (CLAIMED, True, LEASE * 5, True),
        (DONE, False, SETTLE - timedelta(seconds=1), True),
        (DONE, False, SETTLE, False),
        (DONE, True, timedelta(0), False),
        (cancel(READY, Outcome.RECOVERED, "", now=NOON), False, timedelta(0), False),
    ],
)
def test_a_node_is_disturbed_from_ready_until_it_is_back(
    order: Order, is_back: bool, later: timedelta, expected: bool
) -> None:
    assert is_disturbing(order, is_back=is_back, policy=POLICY, now=NOON + later) is expected


def test_only_what_was_tried_moves_the_ladder() -> None:
    assert as_done(DONE) == Done(Action.RESET_GPU, "gpu.ecc", NOON)
    assert [as_done(one) for one in (PLANNED, READY, CLAIMED)] == [None] * 3
    assert as_done(cancel(READY, Outcome.RECOVERED, "", now=NOON)) is None
    assert as_done(replace(DONE, state=OrderState.FAILED, outcome=Outcome.GIVEN_UP)) is None


@given(st.lists(st.tuples(st.sampled_from([*STEPS, "expire"]), st.integers(0, 4000)), max_size=12))
def test_what_is_over_stays_over_and_no_claim_outlives_its_lease(steps: list[tuple[str, int]]) -> None:
    order, now = PLANNED, NOON
    for name, seconds in steps:
        before, now = order, now + timedelta(seconds=seconds)
        try:
            order = expire(order, policy=POLICY, now=now) if name == "expire" else STEPS[name](order, now)
        except NotOpen:
            order = before
        if not before.state.is_open:
            assert order == before
        assert (order.state is OrderState.CLAIMED) is (order.lease_until is not None)
        assert (order.ended_at is None) is order.state.is_open
        assert order.attempts <= POLICY.repair_attempts
