# SPDX-License-Identifier: Apache-2.0
"""How do the parts of a round of checks add up, and what does the round do to the node's passes?

Works on the node's state in memory; the caller saves it and writes the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.checks import CheckState, advance, worst
from registry.domain.glance import Glance
from registry.domain.passes import Run, Standing, Verdict, clean, judge, run_times
from registry.domain.policy import Policy
from registry.domain.profiles import Profile
from registry.domain.reports import CheckResult, CheckStatus, Kind, Notice, Report
from registry.store.database import from_micros, to_micros
from registry.store.nodes import NodeState

RUNS_KEPT = 8
"""Rounds that may still get parts: a slow check that comes later than eight rounds counts for itself."""

_STATUSES = {str(status): status for status in CheckStatus}

STAMPS_KEPT = 64
COUNTED_KEPT = 64
"""As many as reports are remembered: an older repeat is too old to count anyway."""


DERIVED = frozenset(f"{kind.value}.{what}" for kind in Kind for what in ("count", "identity"))
"""Checks that only the server can make: it alone knows what is expected and who is who."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one report brings to its round: results by check, and the units that its lists showed, by kind."""

    results: tuple[CheckResult, ...]
    listed: Mapping[str, frozenset[str]]
    is_current: bool
    is_repeated: bool


def reported_checks(report: Report) -> tuple[CheckResult, ...]:
    """The results of a report that are the node's to give."""
    return tuple(one for one in report.checks if one.name not in DERIVED)


def notices_on(seen: Glance) -> Iterator[Notice]:
    """What of a report is not used, for its sender."""
    if seen.report.covers and seen.kinds is None:
        yield Notice("covers_ignored", "`covers` came without `devices`: no list, and no placement, is changed.")
    if any(one.name in DERIVED for one in seen.report.checks):
        yield Notice("check_derived", "*.count and *.identity are made by the server; the reported ones are ignored.")


def unit_key(unit_id: str) -> str:
    """Shorten a unit's id to its 48 random bits: enough to tell the few on a node apart, in a row written often."""
    return unit_id[-12:]


def is_repeated(state: NodeState | None, report: Report) -> bool:
    """Tell whether an inventory of this report is a look that counted already, by its own timestamp text."""
    return state is not None and bool(_counted_looks(state, report))


def is_old_news(state: NodeState, seen: Glance) -> bool:
    """Tell whether a repeated look also says what it said when it counted.

    A tool may look twice within one second of its clock. What it then found new is evidence all the same, though it
    can neither count as a pass nor prove that the node is alive.
    """
    counted = _counted_looks(state, seen.report)
    return bool(counted) and counted[-1] == seen.look


def _counted_looks(state: NodeState, report: Report) -> list[str]:
    """The digests under which a stamp of this report counted, oldest first."""
    kept = (one.partition(" ") for one in state.passes.get("stamps", ()))
    return [look for look, _, stamp in kept if stamp in report.stamps]


def add_part(state: NodeState, seen: Glance, part: Part, now: datetime) -> tuple[Run, dict[str, Any]]:
    """Add a report to its round, and return the round as the rule sees it, with its row in the state."""
    report = seen.report
    run_id = report.run_id or report.report_id
    row = next((one for one in state.runs if one["id"] == run_id), None)
    if row is None:
        row = {"id": run_id, "first": to_micros(now)}
        state.runs = [*state.runs[-(RUNS_KEPT - 1) :], row]
    row.update({name: row.get(name) or empty for name, empty in (("results", {}), ("listed", {}), ("stamps", []))})
    statuses: dict[str, CheckStatus] = row["results"]
    for result in part.results:
        before = statuses.get(result.name)
        statuses[result.name] = result.status if before is None else worst((result.status, CheckStatus(before)))
    row["listed"].update({kind: sorted([unit_key(one) for one in units]) for kind, units in part.listed.items()})
    looks = [f"{seen.look} {stamp}" for stamp in report.stamps]
    row["stamps"] = list(dict.fromkeys([*row["stamps"], *looks]))
    times = run_times(
        received_at=now,
        first_received_at=from_micros(row["first"]),
        started_at=report.started_at,
        finished_at=report.finished_at,
        sent_at=report.sent_at,
    )
    run = Run(
        run_id=run_id,
        times=times,
        received_at=now,
        finished_at=report.finished_at,
        results={name: _STATUSES[status] for name, status in statuses.items()},
        listed={kind: frozenset(units) for kind, units in row["listed"].items()},
        is_current=part.is_current,
        is_content_repeated=part.is_repeated,
    )
    return run, row


def keep_readings(state: NodeState, seen: Glance, kinds: Iterable[str]) -> None:
    """Keep the newest readings, in the order of the list; they are all that a look at the same devices changes."""
    for kind in kinds:
        state.readings[kind] = [
            dict(read) for of, read in zip(seen.kinds or (), seen.readings, strict=True) if of == kind
        ]


def note_per_boot(state: NodeState, profile: Profile | None, results: Iterable[CheckResult]) -> None:
    """Remember which per-boot checks came clean in this boot."""
    wanted = profile.per_boot_checks if profile else ()
    statuses: dict[str, list[CheckStatus]] = {}
    for one in results:
        if one.name in wanted:
            statuses.setdefault(one.name, []).append(one.status)
    fresh = [name for name, found in statuses.items() if clean(worst(found))]
    state.passes["clean_in_boot"] = list(dict.fromkeys([*state.passes.get("clean_in_boot", []), *fresh]))


def verdict_on(
    state: NodeState,
    run: Run,
    *,
    profile: Profile | None,
    expected: Mapping[str, int | None],
    placed: Mapping[str, Iterable[str]],
    policy: Policy,
    now: datetime,
) -> Verdict:
    """Ask the rule whether the round counts."""
    standing = Standing(
        have=state.have,
        counted_run_ids=frozenset(state.passes.get("counted", ())),
        last_start=state.counted_start,
        last_end=state.counted_end,
        newest_fault_at=state.fault_at,
        newest_release_at=state.release_at,
        clean_in_boot=frozenset(state.passes.get("clean_in_boot", ())),
    )
    return judge(
        run,
        standing,
        profile=profile,
        expected=expected,
        placed={kind: frozenset([unit_key(one) for one in units]) for kind, units in placed.items()},
        policy=policy,
        now=now,
    )


def count(state: NodeState, run: Run, row: dict[str, Any], need: int) -> None:
    """Let a round count."""
    state.have = min(state.have + 1, need)
    state.counted_total += 1
    state.counted_start, state.counted_end = run.times.start, run.times.end
    state.passes["counted"] = [*state.passes.get("counted", [])[-(COUNTED_KEPT - 1) :], run.run_id]
    state.passes["stamps"] = [*state.passes.get("stamps", []), *row["stamps"]][-STAMPS_KEPT:]
    # It counts once, whatever else comes of it; what it found is not asked for again.
    del row["results"], row["listed"], row["stamps"]


def advance_checks(
    state: NodeState, results: Iterable[CheckResult], run_id: str, now: datetime
) -> list[tuple[CheckState | None, CheckState]]:
    """Bring the check states up to date; returns (before, after) of those whose status changed."""
    by_name: dict[str, list[CheckResult]] = {}
    for one in results:
        by_name.setdefault(one.name, []).append(one)
    changed = []
    for name, group in by_name.items():
        before = state.checks.get(name)
        after = advance(before, group, run_id=run_id, at=now)
        state.checks[name] = after
        if before is None or before.status != after.status:
            changed.append((before, after))
    return changed
