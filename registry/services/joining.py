# SPDX-License-Identifier: Apache-2.0
"""May this new node have a token of its own? A join token is traded for one that is good for one instance only."""

from __future__ import annotations

from datetime import datetime

from registry.domain.actors import ActorKind
from registry.domain.errors import InvalidField, Unauthenticated
from registry.domain.events import Actor, Draft, EventType, Subject, SubjectKind
from registry.domain.joining import (
    Joined,
    JoinTerms,
    Refused,
    Trade,
    check_trade,
    outside_terms,
    superseded,
    taken_before,
    taken_elsewhere,
    used_up,
)
from registry.domain.roles import Role
from registry.services.tokens import Caller, TokenView, draft_of, hand_out
from registry.store import nodes
from registry.store import tokens as store
from registry.store.database import Database, Transaction, new_id
from registry.store.tokens import TokenRow


def join(
    db: Database, trade: Trade, *, caller: Caller, pepper: bytes, actor: Actor, now: datetime
) -> tuple[TokenView, str]:
    """Hand out a node's token for one instance, and return it with its secret, which is kept nowhere.

    `actor` is who traded where that is an admin; the holder of a join token is the node that it says it is.
    The trade is counted, the tokens of earlier instances of the name are revoked, and all of it is in the history, in
    one transaction. An admin may trade without bounds. Raises InvalidField, Unauthenticated when the join token was
    revoked meanwhile, Forbidden when its terms do not cover the trade, AlreadyJoined and InstanceSuperseded; a refusal
    that somebody should know of is in the history, too.
    """
    errors = check_trade(trade)
    if errors:
        raise InvalidField("the node cannot join", errors=tuple(errors))
    with db.write(now) as tx:
        held = store.find_token(tx, caller.token_id)
        if held is None or held.revoked_at is not None:
            raise Unauthenticated("the token was revoked: ask an administrator for another")
        if held.role is Role.JOIN:
            actor = Actor(ActorKind.NODE, trade.node)  # a machine speaks of itself; the token that it used is told too
        joined = store.list_joined(tx, trade.node)
        refused = _why_not(tx, held, trade, joined)
        if refused is None:
            _revoke_earlier(tx, trade, joined, actor)
            row = _row(held, trade, actor, now)
            return hand_out(tx, row, pepper, actor, **({"boot_id": trade.boot_id} if trade.boot_id else {}))
        # Whoever lost the answer asks for ever: the first time is news.
        if refused.is_noted and (refused.token_id is None or store.note_refusal(tx, refused.token_id)):
            tx.record(_refusal(held, trade, refused, actor))
    raise refused.as_error()


def _why_not(tx: Transaction, held: TokenRow, trade: Trade, joined: list[TokenRow]) -> Refused | None:
    """Say why the trade is not made, or count it."""
    terms = _terms(held)
    refused = outside_terms(terms, trade, tx.now) if terms else None
    before = [Joined(one.id, one.provider_id or "", one.revoked_at is None) for one in joined]
    refused = refused or taken_before(trade, before)
    elsewhere = store.find_joined(tx, trade.provider_id)
    if refused is None and elsewhere is not None:
        refused = taken_elsewhere(trade, elsewhere.node or "", elsewhere.id)
    if refused is None and _is_superseded(tx, trade):
        refused = superseded(trade)
    if refused is None and terms and not store.count_use(tx, held.id):
        refused = used_up(terms.uses)
    return refused


def _terms(held: TokenRow) -> JoinTerms | None:
    if held.role is not Role.JOIN:
        return None
    assert held.pattern is not None and held.uses is not None and held.expires_at is not None  # noqa: PT018, S101 - so made
    return JoinTerms(held.pattern, held.uses, held.expires_at, held.profile)


def _is_superseded(tx: Transaction, trade: Trade) -> bool:
    """Whether this instance has reported and another one has since: its reports would be refused anyway."""
    node = nodes.find_node(tx, trade.node)
    instance = nodes.find_instance(tx, node.id, trade.provider_id) if node else None
    state = nodes.find_state(tx, node.id) if node and instance else None
    return instance is not None and state is not None and state.instance_id != instance.id


def _revoke_earlier(tx: Transaction, trade: Trade, joined: list[TokenRow], actor: Actor) -> None:
    """Take the tokens of earlier instances of the name: what those machines ask from now on is not about them."""
    for one in joined:
        if one.revoked_at is None:
            store.set_revoked(tx, one.id)
            tx.record(draft_of(EventType.TOKEN_REVOKED, one, actor, replaced_by=trade.provider_id))


def _row(held: TokenRow, trade: Trade, actor: Actor, now: datetime) -> TokenRow:
    return TokenRow(
        id=new_id(now),
        role=Role.NODE,
        name=held.name,
        node=trade.node,
        created_at=now,
        created_by=str(actor),
        provider_id=trade.provider_id,
        profile=held.profile,
        joined_with=held.id,
    )


def _refusal(held: TokenRow, trade: Trade, refused: Refused, actor: Actor) -> Draft:
    subjects = (Subject(SubjectKind.TOKEN, held.id), Subject(SubjectKind.NODE, trade.node))
    return Draft(
        EventType.JOIN_REFUSED,
        actor,
        subjects,
        {
            "token": held.id,
            "name": held.name,
            "node": trade.node,
            "provider_id": trade.provider_id,
            "boot_id": trade.boot_id,
            "profile": trade.profile,
            "because": refused.because.value,
        },
    )
