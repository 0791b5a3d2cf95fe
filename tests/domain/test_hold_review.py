# SPDX-License-Identifier: Apache-2.0
"""Is it said truly which evidence a hold has, whose move it is, and what a person's second look changes?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import InvalidField, NotOpen
from registry.domain.hold_review import Case, Known, Piece, Review, next_step, reviewed, weigh
from registry.domain.policy import Policy
from registry.domain.quarantine import Hold, HoldState, ReleasePolicy, TargetKind, asks_for_review
from registry.domain.repair import Action
from registry.domain.repair_orders import Order, OrderState

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOLD = Hold(
    id="hold-1",
    owner=Actor(ActorKind.OPERATOR, "alice"),
    target_kind=TargetKind.BOARD,
    target_key="board:1",
    reason="it smells",
    opened_at=NOW - 24 * HOUR,
)
HERE, THERE = ("node-a", "0000:11:00.0"), ("node-b", "0000:12:00.0")
WHOLE = Known(
    kind="gpu",
    codes=frozenset({"xid_79", "dcgm_ecc"}),
    fault_places=frozenset({HERE, THERE}),
    nodes=("node-b",),
)


def case(known: Known = WHOLE, **changes: Any) -> Case:
    of_case = {name: changes.pop(name) for name in ("limited_by", "restart_at", "clean_runs", "order") & changes.keys()}
    return Case(replace(HOLD, **changes), known, **of_case)


def order(state: OrderState, **changes: Any) -> Order:
    return Order("order-1", Action.RETURN_DEVICE, "gpu.ecc", "n", "i", "x", NOW, state=state, **changes)


def step(told: Case) -> str:
    return next_step(told, policy=Policy(), now=NOW)


def test_a_gpu_with_all_pieces_is_complete() -> None:
    found = weigh(case(ticket="OPS-7"))
    assert (found.told(), found.missing) == ("5 of 5", ())


def test_what_nobody_knows_anything_of_lacks_everything() -> None:
    found = weigh(case(Known("gpu")))
    assert (found.told(), found.missing) == ("0 of 5", tuple(Piece))


@pytest.mark.parametrize(
    ("known", "piece"),
    [
        (Known("gpu", frozenset({"gpu_lost"})), Piece.FAILURE),
        (Known("gpu", frozenset({"sxid_12028"})), Piece.KERNEL_LOG),
        (Known("gpu", logged=True), Piece.KERNEL_LOG),
        (Known("gpu", evidence='{"line": "NVRM: Xid (PCI:0000:a1:00): 79"}'), Piece.KERNEL_LOG),
        (Known("gpu", frozenset({"dcgm_ecc"})), Piece.DIAGNOSTIC),
        (Known("gpu", diagnosed=True), Piece.DIAGNOSTIC),
        (Known("gpu", evidence="dcgmi diag -r 3 failed"), Piece.DIAGNOSTIC),
        (Known("gpu", fault_places=frozenset({HERE, THERE})), Piece.SECOND_PLACE),
        (Known("gpu", fault_places=frozenset({HERE}), later_places=frozenset({THERE})), Piece.SECOND_PLACE),
    ],
)
def test_each_piece_is_found_where_it_may_stand(known: Known, piece: Piece) -> None:
    assert piece in weigh(case(known)).have


@pytest.mark.parametrize(
    ("known", "piece"),
    [
        (Known("gpu", frozenset({"gpu_lost"})), Piece.KERNEL_LOG),
        (Known("gpu", evidence="maximum idle"), Piece.KERNEL_LOG),
        (Known("gpu", fault_places=frozenset({HERE}), later_places=frozenset({HERE})), Piece.SECOND_PLACE),
    ],
)
def test_what_only_looks_like_a_piece_is_none(known: Known, piece: Piece) -> None:
    assert piece in weigh(case(known)).missing


def test_a_piece_that_cannot_be_had_of_a_thing_is_not_missing() -> None:
    adapter, machine = weigh(case(Known("efa"))), weigh(case(Known(None)))
    assert (adapter.told(), machine.told()) == ("0 of 3", "0 of 3")
    assert Piece.DIAGNOSTIC not in adapter.missing
    assert Piece.SECOND_PLACE not in machine.missing


AFTER = ReleasePolicy.AFTER_PASSES


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (case(limited_by="2 of at most 2 nodes of the fleet"), "The breaker withheld this hold: 2 of at most 2"),
        (case(review_at=NOW - HOUR), "Review overdue since 2026-11-29T11:00:00Z"),
        (case(expires_at=NOW - HOUR), "Review overdue since 2026-11-29T11:00:00Z"),
        (case(order=order(OrderState.READY)), "Claim its repair: return_device"),
        (case(order=order(OrderState.CLAIMED, claimed_by="operator:bob")), "return_device by operator:bob"),
        (case(order=order(OrderState.PLANNED, waits_for="the zone's budget")), "waits: the zone's budget"),
        (case(permanent=True), "only an admin"),
        (case(Known("gpu"), target_kind=TargetKind.IDENTIFIER), "no device has shown this identifier"),
        (case(release_policy=AFTER), "Waiting for a restart of node-b after the fault"),
        (case(release_policy=AFTER, restart_at=NOW, clean_runs=1), "Waiting for passes: 1 of 2 on node-b"),
        (case(Known("gpu"), release_policy=AFTER, restart_at=NOW), "Put it into a node"),
        (case(release_policy=ReleasePolicy.AT_EXPIRY, expires_at=NOW + HOUR), "Ends by itself at 2026-11-29T13"),
        (case(Known("gpu")), "Record the failure"),
        (case(replace(WHOLE, codes=frozenset({"gpu_lost"}))), "Attach the kernel log"),
        (case(replace(WHOLE, codes=frozenset({"xid_79"}))), "Attach a DCGM diagnostic"),
        (case(replace(WHOLE, fault_places=frozenset({HERE}))), "Try it in another slot or node"),
        (case(), "Open a ticket"),
        (case(ticket="OPS-7"), "Return it under RMA: its faults came along through 2 places"),
        (
            case(replace(WHOLE, fault_places=frozenset({HERE}), later_places=frozenset({THERE})), ticket="OPS-7"),
            "stayed behind",
        ),
        (case(Known(None, frozenset({"xid_79"})), ticket="OPS-7"), "return it under OPS-7, or release it"),
    ],
)
def test_the_next_step_is_the_most_urgent_one(told: Case, words: str) -> None:
    assert words in step(told)


def test_a_withheld_hold_is_decided_before_all_else() -> None:
    assert step(case(limited_by="x", review_at=NOW - HOUR, order=order(OrderState.READY))).startswith("Decide")


def test_more_clean_runs_than_are_needed_are_not_counted_on() -> None:
    told = case(release_policy=AFTER, restart_at=NOW, clean_runs=9)
    assert "2 of 2" in step(told)


# --- a person's second look -------------------------------------------------------------------------------------------


def test_a_review_sets_date_and_ticket_and_leaves_the_rest() -> None:
    after = reviewed(HOLD, Review("asked the maker", NOW + HOUR, "RMA-7"), now=NOW)
    assert after == replace(HOLD, review_at=NOW + HOUR, ticket="RMA-7")


def test_what_a_review_does_not_name_stays() -> None:
    held = replace(HOLD, review_at=NOW + HOUR, ticket="OPS-1")
    assert reviewed(held, Review("x", ticket="OPS-2"), now=NOW) == replace(held, ticket="OPS-2")
    assert reviewed(held, Review("x", NOW + 2 * HOUR), now=NOW).ticket == "OPS-1"


@pytest.mark.parametrize("date", ["review_at", "expires_at"])
def test_a_new_date_answers_every_date_that_was_over(date: str) -> None:
    held = replace(HOLD, **{date: NOW - HOUR})
    assert asks_for_review(held, NOW)
    assert not asks_for_review(reviewed(held, Review("x", NOW + HOUR), now=NOW), NOW)


def test_a_ticket_alone_answers_no_date() -> None:
    held = replace(HOLD, expires_at=NOW - HOUR)
    assert asks_for_review(reviewed(held, Review("x", ticket="OPS-7"), now=NOW), NOW)


def test_the_end_of_a_hold_that_ends_by_its_date_is_never_moved() -> None:
    held = replace(HOLD, release_policy=ReleasePolicy.AT_EXPIRY, expires_at=NOW + 2 * HOUR)
    assert reviewed(held, Review("x", NOW + HOUR), now=NOW).expires_at == held.expires_at
    with pytest.raises(InvalidField, match="after the quarantine has ended"):
        reviewed(held, Review("x", NOW + 3 * HOUR), now=NOW)


def test_every_wrong_field_of_a_review_is_named_at_once() -> None:
    with pytest.raises(InvalidField) as refused:
        reviewed(HOLD, Review(" ", NOW), now=NOW)
    assert [one.pointer for one in refused.value.errors] == ["/reason", "/review_at"]
    with pytest.raises(InvalidField, match="a new date, a ticket, or both"):
        reviewed(HOLD, Review("looked at it"), now=NOW)


def test_what_has_ended_is_not_reviewed() -> None:
    over = replace(HOLD, release_policy=ReleasePolicy.AT_EXPIRY, expires_at=NOW - HOUR)
    for ended in (over, replace(HOLD, state=HoldState.RELEASED)):
        with pytest.raises(NotOpen):
            reviewed(ended, Review("x", ticket="OPS-7"), now=NOW)
