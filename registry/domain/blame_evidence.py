# SPDX-License-Identifier: Apache-2.0
"""How is it told why somebody is blamed for a failed job, who only waited, and at whom the others point?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from registry.domain.failures import Cause
from registry.domain.findings import ENDED_BY_HAND, TIMED_OUT, Finding, Origin
from registry.domain.job_failures import Evidence, Grade, JobFailure, Surroundings

POINTERS = 2
"""So many different reporters must point at one node before it is left out of a retry."""

EVIDENCE_MAX = 32
"""How many pieces of evidence are told; the weightiest first."""


CLOCKS = timedelta(seconds=5)
"""Times nearer than this are one moment: they are read from several clocks."""


def as_following(one: Finding) -> Finding:
    """Let a finding count for a third: something else explains it."""
    return replace(one, weight=one.weight // 3, what=f"{one.what}, which may have followed")


def before_the_wait(job: JobFailure, found: Iterable[Finding], witnesses: Sequence[Finding]) -> list[Finding]:
    """Let what a program shows count for less where the job had failed before, or a collective had timed out.

    Data that came late before a collective timed out may be why; data that came late afterwards is not. Whoever ends a
    job by hand in which others wait already ends what hangs, of whatever cause.
    """
    waits = min((one.at for one in witnesses), default=None)
    timed_out = (one.at for one in witnesses if one.kind == TIMED_OUT)
    latest = min((job.failed_at, *timed_out)) + CLOCKS

    def follows(one: Finding) -> bool:
        if one.kind == ENDED_BY_HAND:
            return waits is not None and waits <= one.at + CLOCKS
        return (
            one.grade is Grade.SYMPTOM and one.cause is Cause.USER and one.origin is Origin.SIGNAL and one.at > latest
        )

    return [as_following(one) if follows(one) else one for one in found]


def suspects_of(job: JobFailure, witnesses: Iterable[Finding]) -> tuple[str, ...]:
    """Return the node at which most others point: a suspicion, which a retry without that node puts to the test."""
    pointing: dict[str, set[str]] = {}
    for one in witnesses:
        if one.toward is not None and one.teller is not None:
            pointing.setdefault(one.toward, set()).add(one.teller)
    ranked = sorted(((len(by), name) for name, by in pointing.items()), reverse=True)
    if not ranked or ranked[0][0] < max(POINTERS, (len(job.nodes) - 1) // 2):
        return ()
    return (ranked[0][1],) if len(ranked) == 1 or ranked[1][0] < ranked[0][0] else ()


def told_as_evidence(
    job: JobFailure, around: Surroundings, weighed: Iterable[Finding], witnesses: Sequence[Finding]
) -> tuple[Evidence, ...]:
    """Tell what was found, the weightiest first, and the witnesses of one sort together."""
    told = {
        (one.cause, one.what, one.node, one.device): one
        for one in sorted(weighed, key=lambda one: one.key, reverse=True)
    }
    said = [Evidence(one.cause, one.weight, one.what, one.at, one.node, one.device) for one in told.values()]
    said.sort(key=lambda one: (-one.weight, one.at or job.failed_at, one.what, one.node or "", one.device or ""))
    return (*said[:EVIDENCE_MAX], *_told_witnesses(witnesses), *_told_unknown(around))


def _told_witnesses(witnesses: Sequence[Finding]) -> list[Evidence]:
    """Tell every sort of witness once, and every node that is pointed at with who points."""
    told: list[Evidence] = []
    for kind in sorted({one.kind or "" for one in witnesses}):
        mine = [one for one in witnesses if one.kind == kind]
        names = {one.node for one in mine if one.node}
        where = f", on nodes: {len(names)}" if names else ""
        what = f"{kind}, times: {len(mine)}{where}; who waits or is cut off is a witness, not the culprit"
        told.append(Evidence(None, 0, what, min(one.at for one in mine)))
    for target in sorted({one.toward for one in witnesses if one.toward}):
        tellers = {one.teller for one in witnesses if one.toward == target and one.teller}
        what = f"{len(tellers)} others point at {target}: a suspicion, no observation of it"
        told.append(Evidence(None, 0, what, node=target))
    return told


def _told_unknown(around: Surroundings) -> list[Evidence]:
    if not around.unknown:
        return []
    few = ", ".join(sorted(around.unknown)[:3])
    return [
        Evidence(None, 0, f"{len(around.unknown)} of the nodes never reported, and nothing is known of them: {few}")
    ]
