# SPDX-License-Identifier: Apache-2.0
"""Who is to blame for a failed job: hardware, driver, platform or user? Or does the evidence not say?

First error first: what came later may have followed, and counts for less. Witnesses are no culprits: however many
ranks wait or find a peer gone, it is one incident, and they blame nobody; so no witness ever brings blame on anybody.
What hit many nodes at one moment hit what they share. A device is excluded for what it showed itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from registry.domain.blame_evidence import CLOCKS, as_following, before_the_wait, suspects_of, told_as_evidence
from registry.domain.excerpts import Places, read_log
from registry.domain.failures import Cause
from registry.domain.findings import (
    LINK_DOWN,
    LINK_ERRORS,
    LINK_KINDS,
    MAYBE_AFTER,
    NETWORK_KINDS,
    PLATFORM_SIDE,
    UNREACHED_KINDS,
    Finding,
    Origin,
    is_of_job,
    on_record,
)
from registry.domain.job_failures import (
    Attribution,
    Evidence,
    Grade,
    JobFailure,
    Retry,
    Surroundings,
    Verdict,
)
from registry.domain.job_signals import read_exit, read_signals
from registry.domain.policy import Policy

SILENCE = timedelta(seconds=60)
"""A node is silent between two reports anyway: so long before something else it must have been so to come first."""

TOGETHER = timedelta(seconds=120)
"""What hits several nodes within this time hit them together; what raises within this time of a fault follows it."""

MANY_NODES = 3
"""So many nodes at least, and half of the job's, must be hit together before it is what they share."""

CULPRIT = 60
"""From this weight on a finding can name a culprit."""

MARGIN = 20
"""How much more must speak for one side than for the other: else it is undecided."""

DOUBT = 10
"""More than this beside a program's symptoms leaves it open whether they are its own: memory that is not its own is
touched by a wrong program and by one whose numbers came wrong out of a device."""

CONFIRMED = 4
"""What each further sort of witness adds to the confidence."""

SURE = 99
"""The most that is ever said."""


def judge(job: JobFailure, around: Surroundings, policy: Policy) -> Verdict:
    """Say who is to blame for a failure. A function of its arguments, whatever order they list things in."""
    places = Places.of(job)
    signals = (one for one in read_signals(job, places) if is_of_job(one.at, job, policy))
    told = (*signals, *read_log(job, places), *read_exit(job))
    witnesses = [one for one in told if one.grade is Grade.WITNESS]
    others = before_the_wait(job, (one for one in told if one.grade is not Grade.WITNESS), witnesses)
    found = sorted((*on_record(job, around, policy), *others), key=_key)
    suspects = suspects_of(job, witnesses)
    weighed = weigh(found, len(job.nodes), suspects)
    evidence = told_as_evidence(job, around, weighed, witnesses)
    user = _best(weighed, (Cause.USER,))
    platform = _best(weighed, PLATFORM_SIDE)
    best, other = max(user, platform), min(user, platform)
    confidence = min(best + CONFIRMED * _confirmations(weighed, is_users=user > platform), SURE) - other // 2
    is_open = user > platform and not _is_proved(weighed) and (platform > DOUBT or bool(around.unknown))
    if is_open or best < CULPRIT or best - other < MARGIN or confidence < policy.blame_confidence_percent:
        left_out = suspects if best < CULPRIT else ()
        retry = Retry.EXCLUDE_NODES if left_out else Retry.ASK
        return Verdict(Attribution.UNDECIDED, None, confidence, evidence, retry, left_out)
    if user > platform:
        return Verdict(Attribution.APPLICATION, Cause.USER, confidence, evidence, Retry.DO_NOT_RETRY)
    cause = _cause(weighed)
    guilty = [one for one in weighed if one.cause is cause and one.weight >= CULPRIT]
    return _of_platform(cause, confidence, evidence, guilty)


# --- weighing ---------------------------------------------------------------------------------------------------------


def weigh(found: Sequence[Finding], nodes: int, suspects: Sequence[str] = ()) -> list[Finding]:
    """Weigh findings against one another: what followed from something else counts for less."""
    weighed = list(found)
    rules: tuple[Callable[[list[Finding]], list[Finding]], ...] = (
        lambda all_: [_pointed_at(one, suspects) for one in all_],
        lambda all_: _shared(all_, nodes),
        _links_after_devices,
        _drivers_and_devices,
        _nodes_of_faults,
        _symptoms,
        _first_error,
    )
    for rule in rules:
        weighed = rule(weighed)
    return weighed


def _pointed_at(one: Finding, suspects: Sequence[str]) -> Finding:
    """A node that fell silent just then, and at which the others point, was gone before the job was."""
    is_gone = one.origin is Origin.NODE and one.weight == MAYBE_AFTER and one.node in suspects
    return replace(one, weight=80) if is_gone else one


def _shared(found: list[Finding], nodes: int) -> list[Finding]:
    """Links or whole machines that fail on many of the job's nodes together: what they share failed, none of them."""
    for is_of, what in ((_is_network, "links"), (_is_machine, "machines")):
        hit = [one for one in found if is_of(one) and one.node]
        first = min((one.at for one in hit), default=None)
        together = [one for one in hit if first is not None and one.at - first <= TOGETHER]
        names = {one.node for one in together}
        if len(names) < max(MANY_NODES, (nodes + 1) // 2):
            continue
        said = f"{what} of {len(names)} of {nodes} nodes failed together: what they share did"
        one = replace(
            together[0], cause=Cause.PLATFORM, weight=85, what=said, node=None, device=None, retry=Retry.AS_IS
        )
        found = [*(as_following(other) if other in together else other for other in found), one]
    return found


def _is_network(one: Finding) -> bool:
    is_link = one.kind in NETWORK_KINDS or (one.origin is Origin.SIGNAL and one.kind == "a link went down")
    return is_link and one.cause is Cause.HARDWARE and one.weight >= CULPRIT


def _is_machine(one: Finding) -> bool:
    return one.origin is Origin.NODE and one.weight >= CULPRIT


def _links_after_devices(found: list[Finding]) -> list[Finding]:
    """A link breaks when a device at one of its ends does, and errors run through a fabric from a link that is down.

    The neighbours only report it: of one link of a rack that went down 63 other GPUs told.
    https://github.com/marin-community/marin/issues/9086
    """
    broken = _first(found, lambda one: one.cause is Cause.HARDWARE and one.device and one.kind not in LINK_KINDS)
    down = _first(found, lambda one: one.device and one.kind == LINK_DOWN)

    def follows(one: Finding) -> bool:
        if one.kind not in LINK_KINDS or one.weight < CULPRIT:
            return False
        is_over = broken is not None and _is_before(broken, one)
        return is_over or (down is not None and one.kind == LINK_ERRORS and _is_before(down, one))

    return [as_following(one) if follows(one) else one for one in found]


def _drivers_and_devices(found: list[Finding]) -> list[Finding]:
    """Of a driver that fails and a device that is broken, the driver fails over the device.

    A look at the device may show that only later. But that a tool gets no answer from a device whose driver has failed
    says nothing of the device.
    """
    drivers = [one for one in found if _is_proof(one) and one.cause is Cause.DRIVER and one.device]
    devices = [one for one in found if _is_proof(one) and one.cause is Cause.HARDWARE and one.device]

    def is_unreached(one: Finding) -> bool:
        before = (other for other in drivers if other.device == one.device and _is_before(other, one))
        return one.cause is Cause.HARDWARE and one.kind in UNREACHED_KINDS and any(before)

    broken = [one for one in devices if not is_unreached(one)]

    def is_over(one: Finding) -> bool:
        same = (other for other in broken if other.device == one.device)
        return one.cause is Cause.DRIVER and any(abs(other.at - one.at) <= TOGETHER or other.is_look for other in same)

    return [as_following(one) if is_unreached(one) or is_over(one) else one for one in found]


def _nodes_of_faults(found: list[Finding]) -> list[Finding]:
    """A node goes down, or is booted, for what had failed on it, or because it was taken away."""
    broken = [one for one in found if _is_proof(one) and one.origin is not Origin.NODE]

    def explains(other: Finding, one: Finding) -> bool:
        is_of_it = other.node == one.node or (other.cause is Cause.PLATFORM and other.node is None)
        return is_of_it and _is_before(other, one)

    def follows(one: Finding) -> bool:
        return one.origin is Origin.NODE and any(explains(other, one) for other in broken)

    return [as_following(one) if follows(one) else one for one in found]


def _symptoms(found: list[Finding]) -> list[Finding]:
    """What a program shows when the ground under it fails is no fault of the program."""
    broken = [one for one in found if _is_proof(one)]

    def follows(one: Finding) -> bool:
        is_symptom = one.grade is Grade.SYMPTOM and one.cause is Cause.USER
        return is_symptom and any(other.at <= one.at + TOGETHER / 2 for other in broken)

    return [as_following(one) if follows(one) else one for one in found]


def _first_error(found: list[Finding]) -> list[Finding]:
    """Of a proof against the program and one against the platform, the earlier counts.

    An exception long after a fault is not explained by it: the job had gone on. Then both stand, undecided.
    """
    own = _first(found, lambda one: one.cause is Cause.USER and one.grade is Grade.PROOF)
    broken = _first(found, _is_proof)
    if own is None or broken is None:
        return found
    if not _is_before(broken, own):
        return [as_following(one) if one.cause in PLATFORM_SIDE and not _is_before(one, own) else one for one in found]
    if own.at - broken.at > TOGETHER:
        return found
    return [as_following(one) if one.cause is Cause.USER else one for one in found]


def _is_proof(one: Finding) -> bool:
    """Tell whether a finding is enough by itself to blame the platform's side."""
    return one.cause in PLATFORM_SIDE and one.grade is Grade.PROOF and one.weight >= CULPRIT


def _is_proved(found: Iterable[Finding]) -> bool:
    """Tell whether the program itself said what it did wrong."""
    return any(one.cause is Cause.USER and one.grade is Grade.PROOF and one.weight >= CULPRIT for one in found)


def _is_before(one: Finding, other: Finding) -> bool:
    """Tell whether one came before, or at the same moment as, the other. Lines of one log have an order and no time."""
    if one.origin is Origin.LOG and other.origin is Origin.LOG:
        return one.order <= other.order
    slack = -SILENCE if one.origin is Origin.NODE else CLOCKS
    return one.at <= other.at + slack


def _first(found: Iterable[Finding], is_wanted: Callable[[Finding], object]) -> Finding | None:
    return min((one for one in found if is_wanted(one) and one.weight >= CULPRIT), key=_key, default=None)


def _key(one: Finding) -> tuple[str, ...]:
    return one.key


# --- the verdict ------------------------------------------------------------------------------------------------------


def _best(found: Iterable[Finding], causes: Sequence[Cause]) -> int:
    return max((one.weight for one in found if one.cause in causes), default=0)


def _confirmations(found: Iterable[Finding], *, is_users: bool) -> int:
    """Count the sorts of witness beyond the first that speak for the side that is to blame."""
    side = (Cause.USER,) if is_users else PLATFORM_SIDE
    return max(0, len({one.origin for one in found if one.cause in side and one.weight >= CULPRIT // 2}) - 1)


def _cause(found: Sequence[Finding]) -> Cause:
    """Say which cause on the platform's side: the weightiest, and of those that weigh about the same the first."""
    best = _best(found, PLATFORM_SIDE)
    near = [one for one in found if one.cause in PLATFORM_SIDE and one.weight >= max(best - MARGIN // 2, 1)]
    cause = min(near, key=lambda one: (one.at, -one.weight, one.key)).cause
    assert cause is not None  # noqa: S101 - it is one of the platform's side
    return cause


def _of_platform(cause: Cause, confidence: int, evidence: tuple[Evidence, ...], guilty: Sequence[Finding]) -> Verdict:
    """Say what to leave out of a retry: devices for what they showed, nodes where no device of theirs is known."""
    blamed = [one for one in guilty if one.retry is not Retry.AS_IS]
    devices = tuple(sorted({one.device for one in blamed if one.device}))
    carriers = {one.node for one in blamed if one.device}
    nodes = tuple(sorted({one.node for one in blamed if one.node and not one.device} - carriers))
    if nodes:
        retry = Retry.EXCLUDE_NODES
    elif devices:
        retry = Retry.EXCLUDE_DEVICES
    else:
        retry = Retry.AS_IS if any(one.retry is Retry.AS_IS for one in guilty) else Retry.ASK
    return Verdict(Attribution.PLATFORM, cause, confidence, evidence, retry, nodes, devices)
