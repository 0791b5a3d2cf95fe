# SPDX-License-Identifier: Apache-2.0
"""What does each thing that is on record around a failed job say about its cause, taken by itself?

A finding is a piece of evidence before it is weighed against the others. Its weight is how sure the cause would be,
in per cent, if nothing else were known; the numbers are ours, and `tests/bench` measures what comes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from registry.domain.failures import Cause, Severity
from registry.domain.job_failures import (
    CheckFact,
    Earlier,
    Fault,
    Grade,
    HoldFact,
    JobFailure,
    NodeChange,
    NodeFact,
    Retry,
    Surroundings,
)
from registry.domain.policy import Policy

PLATFORM_SIDE = (Cause.HARDWARE, Cause.DRIVER, Cause.PLATFORM)
"""The causes that are not the application's."""

LINK_DOWN, LINK_ERRORS = "gpu.nvlink.down", "gpu.nvlink.errors"

LINK_KINDS = frozenset(
    {
        *("efa.link_down", "efa.flap", "efa.traffic_stall", "efa.errors", "efa.missing"),
        *(LINK_DOWN, LINK_ERRORS, "nvswitch.fatal", "nvswitch.nonfatal"),
    }
)
"""Faults of links: each has two ends, and the one that reports need not be the one that failed."""

NETWORK_KINDS = frozenset({"efa.link_down", "efa.flap", "efa.traffic_stall", "efa.missing"})
"""Links that lead to what many nodes share."""

UNREACHED_KINDS = frozenset(
    {"gpu.missing", "gpu.nvml_unknown", "gpu.unknown_device", "gpu.requires_reset", "gpu.init_failed"}
)
"""What tools say that get no answer from a GPU: a driver that hangs makes them say so too."""

CONTAINED_KINDS = frozenset({"gpu.mem.contained"})
"""The job is lost, the device goes on: NVIDIA's first step for Xid 94 is to restart the program, and nothing more.
https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/"""

CONTAINED = 80
"""How much such a fault says: it ends the program it hits."""

TIMED_OUT = "somebody waited in vain"
"""What a witness says whose time was up."""

ENDED_BY_HAND = "whoever ran the job ended it"
"""What is said of a job that somebody stopped who may."""

KERNEL_SLACK = timedelta(seconds=60)
"""How much later than the failure a line of a kernel's log may be dated: two clocks, and a process that dies slowly."""

KERNEL_CODES = ("xid_", "sxid_")
"""Codes that the kernel's log tells, at their own moment. All others are found by looking."""

SILENCE_SEEN = timedelta(seconds=60)
"""How much later than the bound of silence everybody is asked: a last report may come just after the failure."""

START_SLACK = timedelta(minutes=15)
"""How long before the job began a fault may have been: it was given the node as it was."""

_WEIGHTS = {
    (Cause.HARDWARE, Severity.FATAL): 92,
    (Cause.HARDWARE, Severity.CRITICAL): 80,
    (Cause.HARDWARE, Severity.WARNING): 25,
    (Cause.DRIVER, Severity.FATAL): 88,
    (Cause.DRIVER, Severity.CRITICAL): 75,
    (Cause.DRIVER, Severity.WARNING): 30,
    (Cause.PLATFORM, Severity.FATAL): 85,
    (Cause.PLATFORM, Severity.CRITICAL): 80,
    (Cause.USER, Severity.WARNING): 55,
}
"""How much a fault on record says, by the catalogue's cause and severity. What is not here says nothing.

A program's fault on one device alone is left open: by NVIDIA's word it is the program's, yet of the accounts that were
retold to measure these rules as many could not say it.
"""

_SPREAD = 80
"""How much programs' faults say that several devices show at once: that is no device's doing."""

_BY_CODE = {"xid_45": 30, "xid_63": 55, "operator.suspect": 50}
"""Codes that say less than their group: a cleanup follows another fault, a remap is noted by a job that goes on, and a
suspicion is no observation. https://docs.nvidia.com/deploy/xid-errors/"""

_LASTING_KINDS = frozenset({"gpu.pcie", "gpu.perf.low", "gpu.inforom"})
_LASTING = 45
"""What makes a job slow, or nothing at all, where a tool finds it by looking: jobs run on with it."""

_CHECK_WEIGHTS = {
    **dict.fromkeys(("gpu.ecc", "gpu.row_remap", "gpu.responding", "gpu.count", "gpu.recovery_action"), 75),
    **dict.fromkeys(("gpu.nvlink", "efa.link", "efa.count", "dcgm.diag"), 72),
    "dcgm.health": 50,
    "gpu.thermal": 25,
}
"""How much a check says that fails since the time of the failure. `gpu.xid` is told by its faults."""

_TOLD_OTHERWISE = frozenset({"gpu.xid", "gpu.identity"})
_OTHER_CHECK = 45
"""How much any other check says, or a node's condition (`condition.…`): something is wrong there, nobody knows what."""

_NODE_WORDS = {
    NodeChange.SILENT: "has not reported since",
    NodeChange.BOOTED: "came up under another boot",
    NodeChange.REPLACED: "was replaced by another instance",
}


MAYBE_AFTER = 55
"""How much a silence says that may have begun after the failure."""


class Origin(StrEnum):
    """Which sort of witness a finding is from: two of different sorts confirm one another."""

    FAULT = "fault"
    CHECK = "check"
    NODE = "node"
    HOLD = "hold"
    SIGNAL = "signal"
    LOG = "log"
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that speaks for a cause, or for none (`cause` None), with its place where it has one.

    `order` tells lines of one log apart, which have no time of their own. `toward` is the node that a witness points
    at, `teller` who does: its node, or its rank where that is all that is known. `retry` is what the finding alone
    would have done with the job; `AS_IS` means that its place is not to blame. `is_look`: a tool found it by looking,
    and it was there before.
    """

    origin: Origin
    cause: Cause | None
    weight: int
    grade: Grade
    what: str
    at: datetime
    order: int = 0
    node: str | None = None
    device: str | None = None
    kind: str | None = None
    toward: str | None = None
    teller: str | None = None
    retry: Retry | None = None
    is_look: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """By what findings are put into an order that does not depend on the order in which they were told."""
        place = (self.node or "", self.device or "", self.toward or "")
        return (self.at.isoformat(), f"{self.order:06d}", self.origin, self.kind or "", self.what, *place)


def window(job: JobFailure, policy: Policy) -> tuple[datetime, datetime]:
    """Return between which times something may have to do with the failure, both included."""
    begin = job.failed_at - timedelta(seconds=policy.blame_before_seconds)
    begin = max(begin, job.started_at - START_SLACK)
    return begin, job.failed_at + timedelta(seconds=policy.blame_after_seconds)


def is_of_job(at: datetime, job: JobFailure, policy: Policy) -> bool:
    """Tell whether what a job tells can be of its own life: not what a log kept from the job before it.

    A job may tell of what began long before it failed: its watchdogs wait as long as it likes.
    """
    return job.started_at - START_SLACK <= at <= window(job, policy)[1]


def next_look(job: JobFailure, policy: Policy, after: datetime) -> datetime | None:
    """Return when a verdict is to be looked at once more, later than `after`; None when all has been seen.

    Once when a node that fell silent under the job shows as silent, and once when the window is over: what else came
    up meanwhile, a boot, another instance, a check that began to fail, is no fault and calls nobody by itself.
    """
    is_silent = job.failed_at + timedelta(seconds=policy.report_stale_seconds) + SILENCE_SEEN
    return next((at for at in sorted((is_silent, window(job, policy)[1])) if at > after), None)


def base_of(code: str, cause: Cause, severity: str) -> tuple[Cause | None, int, Grade]:
    """Return the cause that a fault of this code speaks for by itself, its weight and its grade."""
    weight = _BY_CODE.get(code, _WEIGHTS.get((cause, Severity(severity)), 0))
    if code == "operator.suspect":
        return Cause.HARDWARE, weight, Grade.SYMPTOM
    grade = Grade.SYMPTOM if cause is Cause.USER else Grade.PROOF
    return cause if weight else None, weight, grade


def on_record(job: JobFailure, around: Surroundings, policy: Policy) -> Iterator[Finding]:
    """Give what the registry's own facts say."""
    begin, end = window(job, policy)
    faults = [one for one in around.faults if _is_near(one, job, begin, end)]
    program = {one.device for one in faults if one.cause is Cause.USER and one.device}
    for fault in faults:
        yield _of_fault(fault, begin, around, job.user, spread=len(program))
    for check in around.checks:
        if check.status == "fail" and check.name not in _TOLD_OTHERWISE and begin <= check.since <= end:
            yield _of_check(check)
    yield from (_of_node(one, job) for one in around.nodes if begin <= one.at <= end)
    for hold in around.holds:
        found = _of_hold(hold)
        if found is not None and hold.at <= end:
            yield found


def _of_check(check: CheckFact) -> Finding:
    """One of ours names the hardware; one of somebody else's is a doubt, and no proof against anybody."""
    weight = _CHECK_WEIGHTS.get(check.name)
    cause, grade = (Cause.PLATFORM, Grade.SYMPTOM) if weight is None else (Cause.HARDWARE, Grade.PROOF)
    what = f"{check.name} fails on {check.node}"
    return Finding(Origin.CHECK, cause, weight or _OTHER_CHECK, grade, what, check.since, node=check.node)


def _is_near(fault: Fault, job: JobFailure, begin: datetime, end: datetime) -> bool:
    """Tell whether a fault is of the time. A kernel's line is of its own moment, a tool finds what was there before."""
    latest = min(end, job.failed_at + KERNEL_SLACK) if fault.code.startswith(KERNEL_CODES) else end
    return fault.at <= latest and fault.last_at >= begin


def _of_fault(fault: Fault, begin: datetime, around: Surroundings, user: str | None, *, spread: int) -> Finding:
    """Weigh a fault by itself. `spread` is on how many devices programs failed at the same time."""
    cause, weight, grade = base_of(fault.code, fault.cause, fault.severity)
    retry, note = None, ""
    if fault.kind in CONTAINED_KINDS:
        weight, retry = CONTAINED, Retry.AS_IS
    elif fault.kind in _LASTING_KINDS and not fault.code.startswith(KERNEL_CODES):
        weight, grade = min(weight, _LASTING), Grade.SYMPTOM
    elif cause is Cause.USER:
        cause, weight, note = _of_program(fault, weight, around.earlier, user, spread)
    times = f", {fault.count} times" if fault.count > 1 else ""
    where = fault.label or (f"node {fault.node}" if fault.node else "an unknown place")
    return Finding(
        origin=Origin.FAULT,
        cause=cause,
        weight=weight,
        grade=grade,
        what=f"{fault.code} on {where}{times}{note}",
        at=max(fault.at, begin),
        node=fault.node,
        device=fault.device,
        kind=fault.kind or fault.code,
        retry=retry,
        is_look=not fault.code.startswith(KERNEL_CODES),
    )


def _of_program(
    fault: Fault, weight: int, earlier: Iterable[Earlier], user: str | None, spread: int
) -> tuple[Cause | None, int, str]:
    """A program's fault is the program's, until one device shows it under programs of different people.

    On several devices at once it is the program's all the more: https://docs.nvidia.com/deploy/xid-errors/ (Xid 13 and
    31: on different GPUs the application, on the same GPU again the hardware).
    """
    others = {one.user for one in earlier if one.device == fault.device and user and one.user != user}
    if len(others) >= 2:
        return Cause.HARDWARE, 75, f", which jobs of {len(others) + 1} people met on it"
    if others:
        return None, 40, ", which a job of somebody else met on it too"
    return Cause.USER, _SPREAD if spread > 1 and weight > _BY_CODE["xid_45"] else weight, ""


def _of_node(fact: NodeFact, job: JobFailure) -> Finding:
    """A node that vanished or began anew under the job took it along.

    One that was booted afterwards may have been mended. One that reported until just before the failure may have been
    taken away after it, as a scheduler does with nodes that it needs no more.
    """
    is_after = fact.at > job.failed_at + KERNEL_SLACK
    is_close = fact.change is NodeChange.SILENT and fact.at > job.failed_at - KERNEL_SLACK
    weight = 40 if is_after else MAYBE_AFTER if is_close else 80
    what = f"node {fact.node} {_NODE_WORDS[fact.change]}"
    retry = Retry.AS_IS if fact.change is NodeChange.REPLACED else None
    return Finding(
        Origin.NODE, Cause.PLATFORM, weight, Grade.PROOF, what, fact.at, node=fact.node, kind="node", retry=retry
    )


def _of_hold(hold: HoldFact) -> Finding | None:
    """Somebody held it for a reason: a suspicion, which needs something else beside it."""
    cause = hold.cause if hold.cause in {str(one) for one in PLATFORM_SIDE} else None
    if cause is None:
        return None
    what = f"{hold.label or hold.node} was in quarantine"
    return Finding(
        Origin.HOLD, Cause(cause), 50, Grade.SYMPTOM, what, hold.at, node=hold.node, device=hold.device, kind="hold"
    )
