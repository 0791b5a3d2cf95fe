# SPDX-License-Identifier: Apache-2.0
"""Does a join token give each new instance one token, as often as it may, and does the history tell of it?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import AlreadyJoined, Forbidden, InstanceSuperseded, InvalidField, Unauthenticated
from registry.domain.events import Event
from registry.domain.joining import JoinTerms, Trade
from registry.domain.roles import Role
from registry.services.admission import decide_admission
from registry.services.joining import join
from registry.services.tokens import Caller, TokenView, authenticate, create_token, list_tokens, revoke_token
from registry.store.history import page_events
from tests.fleet import Fleet
from tests.racing import together

PEPPER = b"pepper" * 8
ROOT = Actor(ActorKind.OPERATOR, "root")


def join_token(fleet: Fleet, **changes: Any) -> Caller:
    """Make a join token and return who holds it."""
    terms = JoinTerms(**{"pattern": "gpu-*", "uses": 3, "expires_at": fleet.clock.now + timedelta(days=1), **changes})
    _, secret = create_token(
        fleet.db, role=Role.JOIN, name="pool", terms=terms, pepper=PEPPER, actor=ROOT, now=fleet.clock.now
    )
    return authenticate(fleet.db, secret, PEPPER)


def trade(fleet: Fleet, held: Caller, node: str = "gpu-1", instance: str = "i-1", **more: Any) -> tuple[TokenView, str]:
    """Trade as a new node does, a second after whatever was before."""
    fleet.clock.advance(1)
    actor = Actor(ActorKind.OPERATOR, held.name)
    return join(fleet.db, Trade(node, instance, **more), caller=held, pepper=PEPPER, actor=actor, now=fleet.clock.now)


def events(fleet: Fleet) -> list[Event]:
    with fleet.db.read() as snapshot:
        return list(page_events(snapshot))


def used(fleet: Fleet, held: Caller) -> int | None:
    return next(one.used for one in list_tokens(fleet.db) if one.id == held.token_id)


def test_a_trade_gives_a_token_that_speaks_for_one_instance(fleet: Fleet) -> None:
    held = join_token(fleet, profile="p5.48xlarge")

    view, secret = trade(fleet, held, profile="p5.48xlarge", boot_id="boot-1")

    asking = authenticate(fleet.db, secret, PEPPER)
    assert (asking.role, asking.node, asking.provider_id, asking.profile) == (Role.NODE, "gpu-1", "i-1", "p5.48xlarge")
    assert secret.startswith("prq_node_")
    assert (view.joined_with, view.created_by, used(fleet, held)) == (held.token_id, "node:gpu-1", 1)
    created = events(fleet)[-1]
    assert (created.type, str(created.actor)) == ("token.created", "node:gpu-1")
    assert created.data == {
        "role": "node",
        "name": "pool",
        "node": "gpu-1",
        "token": view.id,
        "provider_id": "i-1",
        "boot_id": "boot-1",
        "profile": "p5.48xlarge",
        "joined_with": held.token_id,
    }
    assert [(one.kind, one.id) for one, _ in created.subjects] == [
        ("token", view.id),
        ("node", "gpu-1"),
        ("token", held.token_id),
    ]


def test_a_second_trade_of_an_instance_is_refused_and_on_record(fleet: Fleet) -> None:
    held = join_token(fleet, uses=1)
    view, secret = trade(fleet, held)

    with pytest.raises(AlreadyJoined, match=view.id) as caught:
        trade(fleet, held)

    assert caught.value.extra == {"token_id": view.id}
    assert authenticate(fleet.db, secret, PEPPER).node == "gpu-1"
    assert used(fleet, held) == 1
    refused = events(fleet)[-1]
    assert (refused.type, refused.data["because"], refused.data["provider_id"]) == (
        "join.refused",
        "already_joined",
        "i-1",
    )
    assert [(one.kind, one.id) for one, _ in refused.subjects] == [("token", held.token_id), ("node", "gpu-1")]


def test_revoking_its_token_lets_an_instance_join_once_more(fleet: Fleet) -> None:
    held = join_token(fleet)
    view, secret = trade(fleet, held)
    revoke_token(fleet.db, view.id, ROOT, fleet.clock.now)

    again, other = trade(fleet, held)

    assert again.id != view.id
    assert authenticate(fleet.db, other, PEPPER).provider_id == "i-1"
    with pytest.raises(Unauthenticated):
        authenticate(fleet.db, secret, PEPPER)


def test_a_new_instance_takes_the_name_and_the_old_ones_token_with_it(fleet: Fleet) -> None:
    held = join_token(fleet)
    old, secret = trade(fleet, held)

    new, _ = trade(fleet, held, instance="i-2")

    with pytest.raises(Unauthenticated):
        authenticate(fleet.db, secret, PEPPER)
    revoked, created = events(fleet)[-2:]
    assert (revoked.type, revoked.data["token"], revoked.data["replaced_by"]) == ("token.revoked", old.id, "i-2")
    assert (created.type, created.data["token"]) == ("token.created", new.id)
    with pytest.raises(InstanceSuperseded):
        trade(fleet, held)
    revoke_token(fleet.db, new.id, ROOT, fleet.clock.now)
    with pytest.raises(InstanceSuperseded):
        trade(fleet, held)


def test_an_instance_whose_successor_reported_does_not_join(fleet: Fleet) -> None:
    held = join_token(fleet)
    fleet.report("gpu-1", instance="i-1")
    fleet.report("gpu-1", instance="i-2")

    with pytest.raises(InstanceSuperseded):
        trade(fleet, held, instance="i-1")

    assert trade(fleet, held, instance="i-2")[0].provider_id == "i-2"


def test_a_hand_made_token_of_the_name_is_left_alone(fleet: Fleet) -> None:
    _, secret = create_token(
        fleet.db, role=Role.NODE, name="n", node="gpu-1", pepper=PEPPER, actor=ROOT, now=fleet.clock.now
    )

    trade(fleet, join_token(fleet))

    assert authenticate(fleet.db, secret, PEPPER).provider_id is None


@pytest.mark.parametrize(
    ("terms", "asked", "because", "is_noted"),
    [
        ({}, {"node": "cpu-1"}, "name_outside", True),
        ({"profile": "p5.48xlarge"}, {"profile": "g5.48xlarge"}, "profile_outside", True),
        ({"profile": "p5.48xlarge"}, {}, "profile_outside", True),
        ({"uses": 1}, {"instance": "i-2", "node": "gpu-2"}, "used_up", False),
    ],
)
def test_what_the_terms_do_not_cover_is_refused(
    fleet: Fleet, terms: dict[str, Any], asked: dict[str, Any], because: str, is_noted: bool
) -> None:
    held = join_token(fleet, **terms)
    trade(fleet, held, profile="p5.48xlarge")
    before = len(events(fleet))

    with pytest.raises(Forbidden) as caught:
        trade(fleet, held, **{"node": "gpu-9", "instance": "i-9", **asked})

    assert caught.value.extra == {"because": because}
    assert [one.data["because"] for one in events(fleet)[before:]] == ([because] if is_noted else [])
    assert used(fleet, held) == 1


def test_an_expired_or_revoked_join_token_is_worth_nothing(fleet: Fleet) -> None:
    held = join_token(fleet, expires_at=fleet.clock.now + timedelta(seconds=5))
    fleet.clock.advance(4)
    before = len(events(fleet))

    with pytest.raises(Forbidden) as caught:
        trade(fleet, held)
    revoke_token(fleet.db, held.token_id, ROOT, fleet.clock.now)
    with pytest.raises(Unauthenticated):
        trade(fleet, held)

    assert caught.value.extra == {"because": "expired"}
    assert [one.type for one in events(fleet)[before:]] == ["token.revoked"]


def test_an_admin_trades_without_bounds_but_for_each_instance_once(fleet: Fleet) -> None:
    _, secret = create_token(fleet.db, role=Role.ADMIN, name="root", pepper=PEPPER, actor=ROOT, now=fleet.clock.now)
    root = authenticate(fleet.db, secret, PEPPER)

    view, _ = trade(fleet, root, node="anything")

    assert (view.node, view.provider_id, view.profile) == ("anything", "i-1", None)
    with pytest.raises(AlreadyJoined):
        trade(fleet, root, node="anything")


def test_a_name_that_no_node_can_have_does_not_join(fleet: Fleet) -> None:
    held = join_token(fleet, pattern="*")

    with pytest.raises(InvalidField):
        trade(fleet, held, node="a/b")


def test_twenty_trades_of_one_use_at_once_give_one_token(fleet: Fleet) -> None:
    held = join_token(fleet, uses=1)
    actor = Actor(ActorKind.OPERATOR, "pool")

    def one(number: int) -> str:
        asked = Trade(f"gpu-{number}", f"i-{number}")
        try:
            return join(fleet.db, asked, caller=held, pepper=PEPPER, actor=actor, now=fleet.clock.now)[1]
        except Forbidden as error:
            return str(error.extra["because"])

    answers = together(*(lambda number=number: one(number) for number in range(20)))

    assert sum(answer.startswith("prq_node_") for answer in answers) == 1
    assert answers.count("used_up") == 19
    assert len([one for one in list_tokens(fleet.db) if one.role is Role.NODE]) == 1


def test_an_instance_joins_under_one_name_only(fleet: Fleet) -> None:
    held = join_token(fleet)
    view, _ = trade(fleet, held, "gpu-1", "i-1")

    with pytest.raises(AlreadyJoined, match="as node gpu-1") as caught:
        trade(fleet, held, "gpu-2", "i-1")

    assert caught.value.extra == {"token_id": view.id}
    assert used(fleet, held) == 1
    assert (events(fleet)[-1].type, str(events(fleet)[-1].actor)) == ("join.refused", "node:gpu-2")
    revoke_token(fleet.db, view.id, ROOT, fleet.clock.now)
    assert trade(fleet, held, "gpu-2", "i-1")[0].node == "gpu-2"


def test_twenty_trades_of_one_instance_under_twenty_names_give_one_token(fleet: Fleet) -> None:
    held = join_token(fleet, uses=99)
    actor = Actor(ActorKind.OPERATOR, "pool")

    def one(number: int) -> str:
        try:
            asked = Trade(f"gpu-{number}", "i-1")
            return join(fleet.db, asked, caller=held, pepper=PEPPER, actor=actor, now=fleet.clock.now)[1]
        except AlreadyJoined as error:
            return str(error.extra["token_id"])

    answers = together(*(lambda number=number: one(number) for number in range(20)))

    (token,) = [one for one in list_tokens(fleet.db) if one.role is Role.NODE]
    assert sum(answer.startswith("prq_node_") for answer in answers) == 1
    assert answers.count(token.id) == 19


def test_a_machine_that_once_gave_a_wrong_instance_joins_and_reports_under_a_new_one(fleet: Fleet) -> None:
    held = join_token(fleet)
    fleet.report("gpu-1", instance="i-1")
    fleet.report("gpu-1", instance="i-wrong")
    with pytest.raises(InstanceSuperseded):
        fleet.report("gpu-1", instance="i-1")

    _, secret = trade(fleet, held, instance="i-1.2")

    assert authenticate(fleet.db, secret, PEPPER).provider_id == "i-1.2"
    fleet.admit("gpu-1", instance="i-1.2")
    assert fleet.codes("gpu-1") == []


def test_what_another_instance_reported_admits_nobody_else(fleet: Fleet) -> None:
    fleet.admit("gpu-1", instance="i-1")

    def decide(instance: str | None) -> list[str]:
        decision = decide_admission(fleet.db, "gpu-1", instance=instance, policy=fleet.policy, now=fleet.clock.now)
        return [str(reason.code) for reason in decision.reasons]

    assert decide(None) == decide("i-1") == []
    assert decide("i-2") == ["node_unknown"]
