# SPDX-License-Identifier: Apache-2.0
"""Who acts, and on what? The two sides of every event."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    """Who can act."""

    OPERATOR = "operator"
    """A person, or a program with a person's token."""
    NODE = "node"
    """A machine reporting about itself."""
    RULE = "rule"
    """A rule of the policy, by its name."""
    SYSTEM = "system"
    """The service itself, or somebody on its host."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it. As text: `operator:alice`, `rule:xid_79`."""

    kind: ActorKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Actor:
        """Read `<kind>:<name>`. Raises ValueError for an unknown kind or an empty name."""
        kind, _, name = text.partition(":")
        if not name:
            raise ValueError(f"not an actor: {text!r}")
        return cls(ActorKind(kind), name)


SYSTEM = Actor(ActorKind.SYSTEM, "pratique")
"""The service acting by itself: what ended on time, what a list settled."""


class SubjectKind(StrEnum):
    """What an event can be about. Each subject numbers its own events from 1."""

    DEVICE = "device"
    """A unit, by our id."""
    BOARD = "board"
    """A board, by our id."""
    NODE = "node"
    """A node, by its name."""
    QUARANTINE = "quarantine"
    """A hold, by our id."""
    FAILURE = "failure"
    """A recorded fault, by our id."""
    REPAIR = "repair"
    """An order to repair something, by our id."""
    JOB = "job"
    """A job, by the id that it gives itself."""
    CONFLICT = "conflict"
    """A conflict, by our id."""
    PROFILE = "profile"
    """A profile, by its name."""
    TOKEN = "token"  # noqa: S105 - a subject
    """A credential, by its public id."""
    SUBSCRIPTION = "subscription"
    """An address that is told of events, by our id."""
    SERVICE = "service"
    """The service, by the name `pratique`."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing an event is about."""

    kind: str
    id: str
