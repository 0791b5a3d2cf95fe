# SPDX-License-Identifier: Apache-2.0
"""What is a clean pass, and when does it count?

A run of checks counts when nothing speaks against it; the first thing that does is named in the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from registry.domain.checks import CLEAN
from registry.domain.policy import Policy
from registry.domain.profiles import Profile
from registry.domain.reports import CheckStatus, Kind
from registry.domain.times import rfc3339

_NOTHING: frozenset[str] = frozenset()
_ZERO = timedelta(0)


class Because(StrEnum):
    """Why a run did not count, in the order in which the reasons are looked at."""

    NOT_CURRENT = "not_current"
    """It is of an earlier boot or instance, or older than what was applied already."""
    FROM_FUTURE = "from_future"
    """It says that it finished after it arrived."""
    TOO_OLD = "too_old"
    """It ended too long ago to speak for now."""
    DUPLICATE_RUN = "duplicate_run"
    """This run counted before."""
    CONTENT_REPEATED = "content_repeated"
    """Its inventory is a look that counted before, by its own timestamp."""
    CHECK_MISSING = "check_missing"
    """A check that the profile requires has no result."""
    CHECK_NOT_CLEAN = "check_not_clean"
    """A check failed, or could not tell, or was skipped although required."""
    COUNTS_UNMET = "counts_unmet"
    """The run does not list exactly the devices placed, or not as many as the profile expects."""
    FAULT_NEWER = "fault_newer"
    """A blocking fault or a person's release is not older than the start of the run."""
    GAP_TOO_SHORT = "gap_too_short"
    """It began before the previous counted run ended, or too soon after that one began."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """When a run took place, on the server's clock."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Run:
    """A round of checks as far as its parts have come.

    `results` holds the worst status of each check. `listed` holds, for each kind whose list came, the unit ids in it.
    `is_current` covers instance, boot and `seq`.
    """

    run_id: str
    times: RunTimes
    received_at: datetime
    finished_at: datetime | None = None
    results: Mapping[str, CheckStatus] = field(default_factory=dict)
    listed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_current: bool = False
    is_content_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What a run is judged against. `last_*` are of the previous counted run.

    `clean_in_boot` holds the per-boot checks with a clean result in this boot, the run's own included.
    """

    have: int = 0
    counted_run_ids: frozenset[str] = frozenset()
    last_start: datetime | None = None
    last_end: datetime | None = None
    newest_fault_at: datetime | None = None
    newest_release_at: datetime | None = None
    clean_in_boot: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run counted. `because` is None when it did; `detail` names the check, kind or time."""

    counted: bool
    because: Because | None = None
    detail: str | None = None


def run_times(
    *,
    received_at: datetime,
    first_received_at: datetime,
    started_at: datetime | None = None,
    finished_at: datetime | None = None,
    sent_at: datetime | None = None,
) -> RunTimes:
    """Put a run on the server's clock, whatever the node's clock says: only differences of its times are used.

    `received_at` is the receipt of the completing part, `first_received_at` that of the first. A time left out equals
    the receipt. The start is never later than the first receipt: by then the run was under way.
    """
    finished = finished_at or received_at
    waited = (sent_at or received_at) - finished
    lasted = finished - (started_at or received_at)
    end = received_at - max(_ZERO, waited)
    return RunTimes(start=min(end - max(_ZERO, lasted), first_received_at), end=end)


def judge(
    run: Run,
    standing: Standing,
    *,
    profile: Profile | None,
    expected: Mapping[str, int | None],
    placed: Mapping[str, frozenset[str]],
    policy: Policy,
    now: datetime,
) -> Verdict:
    """Say whether a run counts as a pass, or the first reason why not.

    `expected` is the number of devices by kind, waivers applied, the profile's where left out.
    `placed` holds the unit ids now placed and not missing.
    """
    by_profile = {kind.value: profile.expected(kind) for kind in Kind} if profile else {}
    objections = (
        _object_to_times(run, policy, now),
        _object_to_repetition(run, standing),
        _object_to_gaps(run, standing, profile),
        _object_to_results(run, profile),
        _object_to_devices(run, {**by_profile, **expected}, placed),
        _object_to_neighbours(run, standing, policy),
    )
    for objection in objections:
        for because, detail in objection:
            return Verdict(counted=False, because=because, detail=detail)
    return Verdict(counted=True)


def clean(status: CheckStatus) -> bool:
    """Can this status be part of a clean pass?"""
    return status in CLEAN


def resets(run: Run) -> bool:
    """Does this run set the standing passes to zero? Only a `fail` does; what is unknown is merely not counted."""
    return CheckStatus.FAIL in run.results.values()


def effective_have(have: int, silence_seconds: float | None, policy: Policy) -> int:
    """Give the passes that still stand: none after a silence longer than a pass may age.

    `silence_seconds` is the age of the last report without our own outages; None means that none ever came.
    """
    if silence_seconds is None or silence_seconds > policy.pass_max_age_seconds:
        return 0
    return min(have, policy.pass_count)


def retry_at(last_start: datetime | None, policy: Policy, now: datetime) -> datetime:
    """Say when the next run that could count may start at the earliest. Never in the past."""
    if last_start is None:
        return now
    return max(now, last_start + timedelta(seconds=policy.pass_gap_seconds))


_Objections = Iterator[tuple[Because, str | None]]


def _object_to_times(run: Run, policy: Policy, now: datetime) -> _Objections:
    if not run.is_current:
        yield Because.NOT_CURRENT, None
    ahead = (run.finished_at or run.received_at) - run.received_at
    if ahead > timedelta(seconds=policy.future_tolerance_seconds):
        yield Because.FROM_FUTURE, f"finished {ahead.total_seconds():.0f} s after it was received"
    age = now - run.times.end
    if age > timedelta(seconds=policy.pass_max_age_seconds):
        yield Because.TOO_OLD, f"ended {age.total_seconds():.0f} s ago, limit {policy.pass_max_age_seconds:.0f} s"


def _object_to_repetition(run: Run, standing: Standing) -> _Objections:
    if run.run_id in standing.counted_run_ids:
        yield Because.DUPLICATE_RUN, run.run_id
    if run.is_content_repeated:
        yield Because.CONTENT_REPEATED, None


def _object_to_gaps(run: Run, standing: Standing, profile: Profile | None) -> _Objections:
    """Look for checks that have no result, in this run or, for the slow ones, in this boot."""
    if profile is None:
        yield Because.CHECK_MISSING, "profile"
        return
    for name in profile.required_checks:
        if name not in run.results:
            yield Because.CHECK_MISSING, name
    for name in profile.per_boot_checks:
        if name not in standing.clean_in_boot:
            yield Because.CHECK_MISSING, name


def _object_to_results(run: Run, profile: Profile | None) -> _Objections:
    """Look at the results: a check that is not required may be skipped, but not fail or be unable to tell."""
    required = () if profile is None else profile.required_checks
    for name in required:
        if name in run.results and not clean(run.results[name]):
            yield Because.CHECK_NOT_CLEAN, name
    for name in sorted(run.results):
        if run.results[name] in {CheckStatus.FAIL, CheckStatus.UNKNOWN}:
            yield Because.CHECK_NOT_CLEAN, name


def _object_to_devices(
    run: Run, expected: Mapping[str, int | None], placed: Mapping[str, frozenset[str]]
) -> _Objections:
    """Compare kind by kind. A kind without a list counts as listing nothing, which suits where nothing is placed."""
    for kind in sorted({*expected, *placed, *run.listed}):
        listed = run.listed.get(kind, _NOTHING)
        wanted = expected.get(kind)
        if wanted is not None and len(listed) != wanted:
            yield Because.COUNTS_UNMET, f"{kind}: {len(listed)} of {wanted} listed"
        if listed != placed.get(kind, _NOTHING):
            yield Because.COUNTS_UNMET, f"{kind}: the list is not what is placed"


def _object_to_neighbours(run: Run, standing: Standing, policy: Policy) -> _Objections:
    """Compare with the newest fault and release, then with the previous counted run."""
    start = run.times.start
    if standing.newest_fault_at is not None and start <= standing.newest_fault_at:
        yield Because.FAULT_NEWER, f"fault of {rfc3339(standing.newest_fault_at)}"
    if standing.newest_release_at is not None and start <= standing.newest_release_at:
        yield Because.FAULT_NEWER, f"release of {rfc3339(standing.newest_release_at)}"
    if standing.last_end is not None and start < standing.last_end:
        yield Because.GAP_TOO_SHORT, f"began before {rfc3339(standing.last_end)}"
    if standing.last_start is None:
        return
    earliest = standing.last_start + timedelta(seconds=policy.pass_gap_seconds)
    if start < earliest:
        yield Because.GAP_TOO_SHORT, f"began before {rfc3339(earliest)}"
