# SPDX-License-Identifier: Apache-2.0
"""What is a join token good for, and why is a trade refused?

A new node trades one for a token of its own. The join token names no node: it says which names, which profile, how
often and until when.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from registry.domain.errors import AlreadyJoined, FieldError, Forbidden, InstanceSuperseded, PratiqueError
from registry.domain.times import rfc3339

USES_MAX = 100_000
"""Most trades of one join token: more nodes than anybody has under one name pattern."""

_PATTERN = re.compile(r"[A-Za-z0-9._*?-]{1,253}")
_NODE_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")


@dataclass(frozen=True, slots=True)
class JoinTerms:
    """The bounds of a join token. `pattern` is a node's name with `*` for any text and `?` for one character."""

    pattern: str
    uses: int
    expires_at: datetime
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Trade:
    """What a new node says of itself when it asks for a token of its own."""

    node: str
    provider_id: str
    profile: str | None = None
    boot_id: str | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A token that an instance of a node was given by a trade."""

    token_id: str
    provider_id: str
    is_open: bool


class JoinRefusal(StrEnum):
    """Why a trade is refused, the first that applies."""

    EXPIRED = "expired"
    """The join token's time is over."""
    NAME_OUTSIDE = "name_outside"
    """The node's name does not fit the pattern."""
    PROFILE_OUTSIDE = "profile_outside"
    """The join token is for nodes of another profile."""
    ALREADY_JOINED = "already_joined"
    """This instance has a token from an earlier trade, under this name or another."""
    INSTANCE_SUPERSEDED = "instance_superseded"
    """A newer instance has the node's name."""
    USED_UP = "used_up"
    """It was traded as often as it may be."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A trade that is not made, and in what words."""

    because: JoinRefusal
    detail: str
    token_id: str | None = None
    """The token that stands in the way."""

    @property
    def is_noted(self) -> bool:
        """Whether it goes into the history. A token that is merely over does not: a forgotten script would fill it."""
        return self.because not in {JoinRefusal.EXPIRED, JoinRefusal.USED_UP}

    def as_error(self) -> PratiqueError:
        """Give the fact that stops the caller."""
        if self.because is JoinRefusal.ALREADY_JOINED:
            return AlreadyJoined(self.detail, token_id=self.token_id)
        if self.because is JoinRefusal.INSTANCE_SUPERSEDED:
            return InstanceSuperseded(self.detail)
        return Forbidden(self.detail, because=self.because.value)


def check_terms(terms: JoinTerms, now: datetime) -> list[FieldError]:
    """Return what is wrong with the terms of a join token that is to be made now."""
    errors = []
    if not _PATTERN.fullmatch(terms.pattern):
        errors.append(FieldError("/pattern", "must be 1 to 253 letters, digits, dots, dashes, underscores, * or ?"))
    if not 1 <= terms.uses <= USES_MAX:
        errors.append(FieldError("/uses", f"must be 1 to {USES_MAX:,}"))
    if terms.expires_at <= now:
        errors.append(FieldError("/expires_at", "must lie in the future"))
    return errors


def check_trade(trade: Trade) -> list[FieldError]:
    """Return what is wrong with what a node says of itself."""
    if _NODE_NAME.fullmatch(trade.node):
        return []
    return [FieldError("/node", "must be 1 to 253 letters, digits, dots, dashes or underscores")]


def outside_terms(terms: JoinTerms, trade: Trade, now: datetime) -> Refused | None:
    """Say why these terms do not cover a trade, whatever was traded before."""
    if now >= terms.expires_at:
        told = f"The join token ended at {rfc3339(terms.expires_at)}: ask an administrator for another."
        return Refused(JoinRefusal.EXPIRED, told)
    if not fnmatchcase(trade.node, terms.pattern):
        told = f"The join token is for nodes named {terms.pattern}, not for {trade.node}: ask for one with its name."
        return Refused(JoinRefusal.NAME_OUTSIDE, told)
    if terms.profile is not None and trade.profile != terms.profile:
        named = f"for {trade.profile}" if trade.profile else "for a node that names none"
        told = f"The join token is for nodes of profile {terms.profile}, not {named}: ask for one of its profile."
        return Refused(JoinRefusal.PROFILE_OUTSIDE, told)
    return None


def taken_before(trade: Trade, joined: Sequence[Joined]) -> Refused | None:
    """Say why this instance may not join again. `joined` are the earlier trades under the name, the oldest first."""
    own = [at for at, one in enumerate(joined) if one.provider_id == trade.provider_id]
    held = next((joined[at] for at in own if joined[at].is_open), None)
    if held is not None:
        told = (
            f"Instance {trade.provider_id} of node {trade.node} has its token already, and it is not shown again. If "
            f"it was lost, let an administrator revoke token {held.token_id}: then the instance may join once more."
        )
        return Refused(JoinRefusal.ALREADY_JOINED, told, held.token_id)
    # Also when the newer one's token is revoked by now: else the old machine could come back in that moment.
    return superseded(trade) if own and own[-1] < len(joined) - 1 else None


def taken_elsewhere(trade: Trade, node: str, token_id: str) -> Refused:
    """Refuse an instance that has joined under another name: one machine is one node."""
    told = (
        f"Instance {trade.provider_id} has joined already, as node {node}. If it is to be {trade.node}, let an "
        f"administrator revoke token {token_id}: then the instance may join once more."
    )
    return Refused(JoinRefusal.ALREADY_JOINED, told, token_id)


def superseded(trade: Trade) -> Refused:
    """Refuse an instance whose name a newer one has."""
    told = (
        f"Instance {trade.provider_id} of node {trade.node} was replaced by a newer one and is not taken back. A "
        "machine that returns begins a new life, with a new provider_id."
    )
    return Refused(JoinRefusal.INSTANCE_SUPERSEDED, told)


def used_up(uses: int) -> Refused:
    """Refuse a trade with a join token that was traded as often as it may be."""
    told = f"The join token was traded {uses} times, as often as it may be: ask an administrator for another."
    return Refused(JoinRefusal.USED_UP, told)
