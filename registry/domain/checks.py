# SPDX-License-Identifier: Apache-2.0
"""Which check results does the server derive itself, and how do several results for one check combine?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from registry.domain.known import Match, MatchedBy, Outcome
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, Kind
from registry.domain.times import brief

WORST_FIRST: tuple[CheckStatus, ...] = (
    CheckStatus.FAIL,
    CheckStatus.UNKNOWN,
    CheckStatus.SKIPPED,
    CheckStatus.WARN,
    CheckStatus.PASS,
    CheckStatus.NOT_APPLICABLE,
)
"""Of several results for one check the leftmost counts: not having looked is worse than a remark."""

CLEAN: frozenset[CheckStatus] = frozenset({CheckStatus.PASS, CheckStatus.WARN, CheckStatus.NOT_APPLICABLE})
"""What a clean pass may be made of."""

_SILENT = CLEAN - {CheckStatus.WARN}
"""What leaves no finding: it says no more than that all is well. With a code it says why a fault hinders nothing."""

FINDINGS_LIMIT = 64
"""How many findings one check keeps: four for each of 16 devices; a log gone wild must not fill a row."""

_RANK = {status: rank for rank, status in enumerate(WORST_FIRST)}


@dataclass(frozen=True, slots=True)
class CheckState:
    """Where one check of a node stands in the current boot.

    `since` is when the status changed and stays when only the findings change; `at` is the newest result.
    `findings` are the results that say more than that all is well, worst first, at most `FINDINGS_LIMIT`.
    """

    name: str
    status: CheckStatus
    since: datetime
    at: datetime
    run_id: str
    findings: tuple[CheckResult, ...] = ()


def worst(statuses: Iterable[CheckStatus]) -> CheckStatus:
    """Combine several statuses of one check. None at all is `unknown`: nobody looked."""
    return min(statuses, key=_RANK.__getitem__, default=CheckStatus.UNKNOWN)


def advance(previous: CheckState | None, results: Sequence[CheckResult], *, run_id: str, at: datetime) -> CheckState:
    """Give the state of one check after new results for it.

    Another part of the same run adds to what the run already said; another run replaces it.
    Raises ValueError without results: a check that was not run keeps its state.
    """
    if not results:
        raise ValueError("no results, no new state")
    first = results[0]
    if previous is not None and len(results) == 1 and previous.run_id != run_id and _is_silent(first):
        # What nearly every result is: silent, and the only one of its run. It leaves no finding.
        since = previous.since if previous.status is first.status else at
        return CheckState(first.name, first.status, since=since, at=at, run_id=run_id)
    said: list[CheckResult] = list(results)
    statuses = [one.status for one in results]
    if previous is not None and previous.run_id == run_id:
        said = [*previous.findings, *said]
        statuses.append(previous.status)
    status = worst(statuses)
    is_same = previous is not None and previous.status == status
    since = previous.since if previous is not None and is_same else at
    return CheckState(results[0].name, status, since=since, at=at, run_id=run_id, findings=_findings(said))


def count_check(
    kind: str, listed: int, expected: int | None, *, is_partial: bool, awaited_until: datetime | None = None
) -> CheckResult | None:
    """Compare the length of a list with what is expected, by profile or waiver.

    None when nothing is expected of this kind. A partial list fails in any case: its tool knows of devices that it
    could not list. Too few are `unknown` while late ones are awaited.
    """
    name = f"{kind}.count"
    if is_partial:
        return CheckResult(name, CheckStatus.FAIL, message=f"the list is incomplete: {listed} listed, more attached")
    if expected is None:
        return None
    told = f"{listed} of {expected} listed"
    if listed < expected and awaited_until is not None:
        return CheckResult(
            name, CheckStatus.UNKNOWN, message=f"{told}; late ones are waited for until {brief(awaited_until)}"
        )
    return CheckResult(name, CheckStatus.PASS if listed == expected else CheckStatus.FAIL, message=told)


def awaited_until(kind: str, booted_at: datetime, policy: Policy, now: datetime) -> datetime | None:
    """Say until when devices of a kind may still turn up after a boot; None when that time is over, or there is none.

    EFAs of the larger types are enumerated one after the other: https://github.com/awslabs/awsome-distributed-ai
    (`2-efa-enumeration.sh` looks again for them). `booted_at` is when the boot was first heard of.
    """
    until = booted_at + timedelta(seconds=policy.efa_grace_seconds)
    return until if kind == Kind.EFA and now < until else None


def identity_check(kind: str, matches: Sequence[Match]) -> CheckResult:
    """Say whether every entry of this kind was told apart: derived for GPUs, as `gpu.identity`.

    An entry matched by its slot only is `unknown`: whatever sits there may be another device by now.
    """
    name = f"{kind}.identity"
    mine = [match for match in matches if match.entry.kind == kind]
    if not mine:
        return CheckResult(name, CheckStatus.NOT_APPLICABLE, message="the list has no entry of this kind")
    conflicts = [match for match in mine if match.outcome is Outcome.CONFLICT]
    if conflicts:
        return CheckResult(name, CheckStatus.FAIL, message=_told(conflicts))
    vague = [match for match in mine if match.outcome is Outcome.UNIDENTIFIED or match.matched_by is MatchedBy.SLOT]
    if vague:
        return CheckResult(name, CheckStatus.UNKNOWN, message=_told(vague))
    return CheckResult(name, CheckStatus.PASS)


def kind_of(check: str) -> str | None:
    """Say which kind of device a check speaks of, by the first word of its name; None for the node as a whole."""
    word = check.partition(".")[0]
    if word == "dcgm":
        return Kind.GPU
    return word if word in set(Kind) else None


def _told(matches: Sequence[Match]) -> str:
    """Quote the first reason and count the rest."""
    more = f" (and {len(matches) - 1} more)" if len(matches) > 1 else ""
    return f"{matches[0].reason}{more}"


def _is_silent(result: CheckResult) -> bool:
    return result.status in _SILENT and result.code is None


def _findings(results: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    kept = dict.fromkeys(result for result in results if not _is_silent(result))
    return tuple(sorted(kept, key=lambda result: _RANK[result.status]))[:FINDINGS_LIMIT]
