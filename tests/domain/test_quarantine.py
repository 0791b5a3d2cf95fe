# SPDX-License-Identifier: Apache-2.0
"""Does a hold block while it must, and end only as its release policy says?"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.domain.errors import Forbidden, InvalidField, NotOpen
from registry.domain.events import Actor, ActorKind
from registry.domain.failures import CATALOGUE, Effect, look_up
from registry.domain.policy import Policy
from registry.domain.quarantine import (
    Hold,
    HoldState,
    ReleasePolicy,
    TargetKind,
    after_passes_done,
    asks_for_review,
    is_in_force,
    may_release,
    rule_hold_for,
    validate_opening,
)
from registry.domain.rules import Rule
from tests.clock import NOON

LATER = NOON + timedelta(hours=1)
EARLIER = NOON - timedelta(hours=1)


def make_hold(**changes: Any) -> Hold:
    hold = Hold(
        id="q1",
        owner=Actor(ActorKind.OPERATOR, "alice"),
        target_kind=TargetKind.BOARD,
        target_key="b1",
        reason="fell off the bus",
        opened_at=NOON,
    )
    return replace(hold, **changes)


@pytest.mark.parametrize(
    ("changes", "moment", "in_force"),
    [
        ({}, LATER, True),
        ({"state": HoldState.RELEASED}, NOON, False),
        ({"expires_at": NOON}, LATER, True),
        ({"review_at": NOON}, LATER, True),
        ({"release_policy": ReleasePolicy.AFTER_PASSES, "expires_at": NOON}, LATER, True),
        ({"release_policy": ReleasePolicy.AT_EXPIRY, "expires_at": LATER}, NOON, True),
        ({"release_policy": ReleasePolicy.AT_EXPIRY, "expires_at": LATER}, LATER, False),
        ({"release_policy": ReleasePolicy.AT_EXPIRY}, LATER, True),
    ],
)
def test_only_a_hold_that_ends_at_its_date_ends_by_time(
    changes: dict[str, Any], moment: datetime, in_force: bool
) -> None:
    assert is_in_force(make_hold(**changes), moment) is in_force


@pytest.mark.parametrize(
    ("changes", "asks"),
    [
        ({}, False),
        ({"review_at": LATER}, False),
        ({"review_at": NOON}, True),
        ({"expires_at": EARLIER}, True),
        ({"expires_at": EARLIER, "release_policy": ReleasePolicy.AT_EXPIRY}, False),
        ({"review_at": EARLIER, "state": HoldState.RELEASED}, False),
    ],
)
def test_a_date_that_ends_nothing_asks_for_a_review(changes: dict[str, Any], asks: bool) -> None:
    assert asks_for_review(make_hold(**changes), NOON) is asks


@pytest.mark.parametrize(("role", "permanent"), [("operator", False), ("admin", False), ("admin", True)])
def test_any_operator_may_release_what_is_not_permanent(role: str, permanent: bool) -> None:
    may_release(make_hold(permanent=permanent), role, "replaced the board", now=NOON)


def test_a_permanent_hold_needs_an_admin() -> None:
    with pytest.raises(Forbidden, match="admin"):
        may_release(make_hold(permanent=True), "operator", "reason")


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_a_release_needs_a_reason(reason: str) -> None:
    with pytest.raises(InvalidField) as caught:
        may_release(make_hold(), "admin", reason)

    assert [error.pointer for error in caught.value.errors] == ["/reason"]


def test_a_hold_is_released_once() -> None:
    with pytest.raises(NotOpen):
        may_release(make_hold(state=HoldState.RELEASED, permanent=True), "operator", "again")


def test_a_hold_whose_date_is_over_is_not_open_even_before_it_is_swept() -> None:
    hold = make_hold(release_policy=ReleasePolicy.AT_EXPIRY, expires_at=NOON)

    with pytest.raises(NotOpen):
        may_release(hold, "admin", "reason", now=NOON)


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({}, []),
        ({"permanent": True}, []),
        ({"review_at": LATER, "expires_at": LATER}, []),
        ({"release_policy": ReleasePolicy.AT_EXPIRY, "expires_at": LATER, "review_at": LATER}, []),
        ({"reason": " "}, ["/reason"]),
        ({"release_policy": ReleasePolicy.AT_EXPIRY}, ["/expires_at"]),
        ({"release_policy": ReleasePolicy.AT_EXPIRY, "expires_at": NOON}, ["/expires_at"]),
        ({"review_at": NOON}, ["/review_at"]),
        (
            {"release_policy": ReleasePolicy.AT_EXPIRY, "expires_at": LATER, "review_at": LATER + timedelta(1)},
            ["/review_at"],
        ),
        ({"permanent": True, "release_policy": ReleasePolicy.AFTER_PASSES}, ["/release_policy"]),
        (
            {"permanent": True, "release_policy": ReleasePolicy.AT_EXPIRY, "reason": ""},
            ["/reason", "/release_policy", "/expires_at"],
        ),
    ],
)
def test_a_hold_that_contradicts_itself_is_refused_with_every_field_named(
    changes: dict[str, Any], pointers: list[str]
) -> None:
    asked: dict[str, Any] = {"reason": "bad memory", "now": NOON, **changes}
    named: list[str] = []

    try:
        validate_opening(**asked)
    except InvalidField as refusal:
        named = [error.pointer for error in refusal.errors]

    assert named == pointers


@pytest.mark.parametrize(
    ("changes", "clean_runs", "restart_at", "done"),
    [
        ({}, 2, LATER, True),
        ({}, 3, LATER, True),
        ({}, 1, LATER, False),
        ({}, 2, None, False),
        ({}, 9, NOON, False),
        ({}, 9, EARLIER, False),
        ({"release_policy": ReleasePolicy.MANUAL}, 9, LATER, False),
        ({"permanent": True}, 9, LATER, False),
        ({"state": HoldState.RELEASED}, 9, LATER, False),
    ],
)
def test_passes_end_a_hold_only_after_a_restart_that_is_newer_than_the_fault(
    changes: dict[str, Any], clean_runs: int, restart_at: datetime | None, done: bool
) -> None:
    hold = make_hold(**{"release_policy": ReleasePolicy.AFTER_PASSES, **changes})

    answer = after_passes_done(hold, clean_runs_since=clean_runs, restart_at=restart_at, fault_at=NOON, policy=Policy())

    assert answer is done


def test_a_failed_remap_waits_for_a_person_and_a_noted_one_for_passes() -> None:
    failed, noted = rule_hold_for(look_up("xid_64")), rule_hold_for(look_up("xid_63"))

    assert failed is not None
    assert noted is not None
    assert failed.release_policy is ReleasePolicy.MANUAL
    assert noted.release_policy is ReleasePolicy.AFTER_PASSES
    assert str(failed.owner) == "rule:xid_64"


def test_a_hold_is_opened_exactly_by_the_effects_that_are_strong_enough() -> None:
    for kind in CATALOGUE.values():
        assert (rule_hold_for(kind) is not None) is (kind.effect in {Effect.QUARANTINE, Effect.PERMANENT})


def test_a_counting_rule_may_hold_for_what_does_nothing_alone() -> None:
    rule = Rule("xid_43_repeated", count=3, within_seconds=600, codes=("xid_43",), release_policy="after_passes")
    hold = rule_hold_for(look_up("xid_43"), rule=rule, detail="on node-a")

    assert hold is not None
    assert str(hold.owner) == "rule:xid_43_repeated"
    assert hold.reason.startswith("3 or more sights within 10m: ")
    assert hold.reason.endswith(": on node-a")
    assert hold.release_policy is ReleasePolicy.AFTER_PASSES
