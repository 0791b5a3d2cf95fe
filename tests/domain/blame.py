# SPDX-License-Identifier: Apache-2.0
"""How does a test tell of a failed job and what was known around it, with only what matters said?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from registry.domain.attribution import judge
from registry.domain.failures import Cause, look_up
from registry.domain.job_failures import (
    CheckFact,
    Fault,
    JobFailure,
    NodeChange,
    NodeFact,
    Signal,
    Surroundings,
    Verdict,
)
from registry.domain.policy import Policy

FAILED = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NODES = tuple(f"node-{letter}" for letter in "abcdefgh")


def at(seconds: float) -> datetime:
    """A time so many seconds after the failure."""
    return FAILED + timedelta(seconds=seconds)


def job(**changes: Any) -> JobFailure:
    """A job on eight nodes that failed after six hours."""
    return replace(JobFailure("job-1", NODES, at(-21600), FAILED), **changes)


def fault(code: str, node: str = "node-c", device: str | None = "gpu-1", seconds: float = -5, **changes: Any) -> Fault:
    """A fault as the catalogue has it."""
    kind = look_up(code)
    moment = at(seconds)
    made = Fault(f"f-{code}-{device}", code, kind.kind, Cause(kind.cause), kind.severity, moment, moment)
    return replace(made, node=node, device=device, label=device, **changes)


def signal(kind: str, seconds: float = -1, **changes: Any) -> Signal:
    """Something the job saw."""
    return Signal(kind, at(seconds), **changes)


def timeouts(ranks: int = 64) -> tuple[Signal, ...]:
    """The timeout of one collective on so many ranks, eight to a node."""
    return tuple(signal("nccl_timeout", 0, rank=rank, node=NODES[rank // 8 % 8]) for rank in range(ranks))


def check(name: str, node: str = "node-c", seconds: float = -10, status: str = "fail") -> CheckFact:
    """A check that is not well since then."""
    return CheckFact(node, name, status, at(seconds))


def change(what: NodeChange, node: str = "node-c", seconds: float = -120) -> NodeFact:
    """Something that happened to a node."""
    return NodeFact(node, what, at(seconds))


def verdict(told: JobFailure | None = None, policy: Policy | None = None, **around: Any) -> Verdict:
    """Judge by the built-in policy unless another is given."""
    known = {name: tuple(value) for name, value in around.items()}
    return judge(told or job(), Surroundings(**known), policy or Policy())
