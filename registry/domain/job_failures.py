# SPDX-License-Identifier: Apache-2.0
"""A job failed: what was told of it, what was known around it, and in what words is it said who is to blame?

Values only. `findings` makes evidence of them, `attribution` judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from registry.domain.failures import Cause
from registry.domain.times import rfc3339, rfc3339_or_none


class Attribution(StrEnum):
    """Whose matter the failure is."""

    PLATFORM = "platform"
    """What the job ran on: hardware, driver, or the platform around them."""
    APPLICATION = "application"
    """The program, its data, or whoever ran it."""
    UNDECIDED = "undecided"
    """The evidence does not say. Nobody is blamed."""


class Retry(StrEnum):
    """What to do with the job."""

    AS_IS = "as_is"
    """Run it again, anywhere: what stopped it is over, or hits no node in particular."""
    EXCLUDE_NODES = "exclude_nodes"
    """Run it again without the nodes that are named."""
    EXCLUDE_DEVICES = "exclude_devices"
    """Run it again without the devices that are named."""
    DO_NOT_RETRY = "do_not_retry"
    """It would fail again: its owner has to change something."""
    ASK = "ask"
    """A person has to look."""


class Grade(StrEnum):
    """What a piece of evidence is worth beside others."""

    PROOF = "proof"
    """It happened by itself."""
    SYMPTOM = "symptom"
    """It may have followed from something worse."""
    WITNESS = "witness"
    """It says that somebody else is gone or late, and blames nobody."""


class NodeChange(StrEnum):
    """What happened to a node as a whole."""

    SILENT = "silent"
    """Its last report came then, and none since, while the service was up."""
    BOOTED = "booted"
    """It was heard of under a new boot for the first time."""
    REPLACED = "replaced"
    """Another instance took its name."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that the job, its launcher or its scheduler saw. `kind` and `detail` are as they were told."""

    kind: str
    at: datetime
    rank: int | None = None
    node: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class JobFailure:
    """One failure of one job, as it was told. `signal` is a name as SIGKILL, `user` whoever ran the job."""

    job_id: str
    nodes: tuple[str, ...]
    started_at: datetime
    failed_at: datetime
    exit_code: int | None = None
    signal: str | None = None
    log_excerpt: str | None = None
    signals: tuple[Signal, ...] = ()
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault on record, as far as it was seen around the time: first at `at`, last at `last_at`.

    `node` is where it was seen, `device` our id, `label` the device in words.
    """

    id: str
    code: str
    kind: str | None
    cause: Cause
    severity: str
    at: datetime
    last_at: datetime
    count: int = 1
    node: str | None = None
    device: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class CheckFact:
    """A check of a node that is not well, and since when."""

    node: str
    name: str
    status: str
    since: datetime


@dataclass(frozen=True, slots=True)
class NodeFact:
    """Something that happened to a node as a whole."""

    node: str
    change: NodeChange
    at: datetime


@dataclass(frozen=True, slots=True)
class HoldFact:
    """A quarantine of a node, or of a device on it, that was in force then."""

    id: str
    node: str | None
    device: str | None
    cause: str | None
    at: datetime
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Earlier:
    """A program's fault on a device in the time of another job, and whose job that was."""

    device: str
    user: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the registry knew of the job's nodes and their devices around the time. `unknown` names never reported."""

    faults: tuple[Fault, ...] = ()
    checks: tuple[CheckFact, ...] = ()
    nodes: tuple[NodeFact, ...] = ()
    holds: tuple[HoldFact, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that speaks for a cause, or for none, with a weight of 0 to 100."""

    cause: Cause | None
    weight: int
    what: str
    at: datetime | None = None
    node: str | None = None
    device: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Give it as the API answers it; a place that nobody knows is left out."""
        place = {"at": rfc3339_or_none(self.at), "node": self.node, "device": self.device}
        said = {"for": self.cause and str(self.cause), "weight": self.weight, "what": self.what}
        return {**said, **{name: value for name, value in place.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who is to blame, how sure that is in per cent, why, and what to do with the job.

    `cause` is None where nothing was decided. `evidence` stands in the order of its weight.
    """

    attribution: Attribution
    cause: Cause | None
    confidence: int
    evidence: tuple[Evidence, ...]
    retry: Retry
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give it as the API answers it."""
        return {
            "attribution": str(self.attribution),
            "cause": self.cause and str(self.cause),
            "confidence": self.confidence,
            "evidence": [one.to_json() for one in self.evidence],
            "retry": str(self.retry),
            "exclude": {"nodes": list(self.nodes), "devices": list(self.devices)},
        }


def told(job: JobFailure) -> Mapping[str, Any]:
    """Give what was told of a failure in the shape of the API; what was not told is left out."""
    said = {
        "job_id": job.job_id,
        "nodes": list(job.nodes),
        "started_at": rfc3339(job.started_at),
        "failed_at": rfc3339(job.failed_at),
        "exit_code": job.exit_code,
        "signal": job.signal,
        "log_excerpt": job.log_excerpt,
        "user": job.user,
        "signals": [_signal(one) for one in job.signals] or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _signal(one: Signal) -> dict[str, Any]:
    said = {"kind": one.kind, "at": rfc3339(one.at), "rank": one.rank, "node": one.node, "detail": one.detail}
    return {name: value for name, value in said.items() if value is not None}
