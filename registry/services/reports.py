# SPDX-License-Identifier: Apache-2.0
"""A node reports: what does that change, did its run count, and may the node take work now?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.canonical import JSON
from registry.domain.checks import CLEAN, CheckState
from registry.domain.clocks import late_by, slow_by
from registry.domain.errors import DeviceAmbiguous, FieldError, Forbidden, InvalidField, NotFound
from registry.domain.events import Draft, EventType
from registry.domain.glance import Glance, glance_of
from registry.domain.identity import check_slots
from registry.domain.naming import without_device
from registry.domain.passes import Because, Run, Verdict, effective_have, resets
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, Notice, Report, ReportedFailure
from registry.domain.staleness import is_stale
from registry.domain.times import rfc3339
from registry.services import condition_changes, heartbeat, heat, passes, receipts, runs
from registry.services.admission import decide_in, expected_counts
from registry.services.cures import count_towards_release
from registry.services.evidence import take_findings, take_late_findings
from registry.services.failures import record_in
from registry.services.inventory import Expectation, Taken, covered_kinds, take_list
from registry.services.life import silence
from registry.services.lives import Arrival, arrive, note_host
from registry.services.naming import as_listed
from registry.services.profiles import find_profile
from registry.services.receipts import PassAnswer
from registry.services.settled import with_settled
from registry.services.subjects import of_units
from registry.store import nodes
from registry.store.database import Database, Transaction
from registry.store.placements import boards_here, units_here
from registry.store.profiles import waivers_of

FAULTS_MAX = 1024
"""Faults that one report may tell of: its parts together, as many as a list in JSON may hold."""


def accept_report(db: Database, report: Report, *, actor: Actor, policy: Policy, now: datetime) -> dict[str, Any]:
    """Take a report in and answer what counted and the decision of now.

    The same report again changes nothing and gets the first answer about its pass. Raises CoversRequired, SlotRepeated,
    InvalidField, ReportIdReused, InstanceSuperseded; then nothing of the report is applied.
    """
    return accept_glance(db, glance_of(report), lambda: report, actor=actor, policy=policy, now=now)


def accept_glance(
    db: Database, seen: Glance, read: Callable[[], Report], *, actor: Actor, policy: Policy, now: datetime
) -> dict[str, Any]:
    """Take a report in, as `accept_report` does; `read` gives it with its lines, and is called when they are needed."""
    _check_faults(seen.report)
    heard = heartbeat.accept_unchanged(db, seen, policy=policy, now=now)
    if heard.answer is not None:
        return heard.answer
    # Read before the transaction, where others wait; one that turns out to be needed after all is read inside.
    whole = lru_cache(maxsize=1)(lambda: _checked(read()))
    if not heard.is_known:
        whole()
    with db.write(now) as tx:
        return _accept(tx, seen, whole, actor, policy)


def _check_faults(report: Report) -> None:
    """Refuse what no machine can have: each fault is a record, an event and a question to every rule."""
    if len(report.failures) > FAULTS_MAX:
        told = f"The report tells of {len(report.failures)} faults, and one may tell of {FAULTS_MAX}."
        errors = (FieldError("/failures", f"at most {FAULTS_MAX}"),)
        raise InvalidField(f"{told} Send what this node's own tools print, of this boot.", errors=errors)


def _checked(report: Report) -> Report:
    if report.entries:
        check_slots(report.entries)
    return report


def _accept(tx: Transaction, seen: Glance, read: Callable[[], Report], actor: Actor, policy: Policy) -> dict[str, Any]:
    report = seen.report
    node = nodes.find_node(tx, report.node)
    # Locked before the receipts are read: an unchanged report may be writing its own there at this moment.
    state = nodes.find_state(tx, node.id, lock=True) if node else None
    before = receipts.find(state.receipts, report) if state else None
    if before is not None:
        return answer(tx, report, before, policy, replayed=True)
    arrival = arrive(tx, report, node, state, actor)
    notices: list[Notice] = []
    if _is_late(arrival, report):
        verdict = _keep_evidence(tx, arrival, report, actor, policy)
    else:
        notices = [*note_host(tx, arrival, report, actor), *runs.notices_on(seen)]
        verdict = _apply(tx, arrival, seen, read, actor, policy)
    # Evidence may have put the passes back through the node's row, so what was told is read from there.
    told = PassAnswer.of(verdict, have=arrival.state.have, need=policy.pass_count)
    arrival.state.receipts = receipts.add(arrival.state.receipts, report, told, keep=policy.receipts_kept)
    nodes.save_state(tx, arrival.state)
    return answer(tx, report, told, policy, notices=notices)


def answer(
    tx: Transaction,
    report: Report,
    told: PassAnswer,
    policy: Policy,
    *,
    replayed: bool = False,
    notices: Sequence[Notice] = (),
) -> dict[str, Any]:
    """Give the answer to a report, with the decision of this moment."""
    tx.flush()
    decision = decide_in(tx, report.node, policy=policy, now=tx.now)
    return receipts.answer(report, told, decision, notices, replayed=replayed)


def _is_late(arrival: Arrival, report: Report) -> bool:
    """A message of a boot that is over, or overtaken by a later one of this boot: evidence, not state."""
    if arrival.is_past:
        return True
    return report.seq is not None and arrival.state.seq is not None and report.seq <= arrival.state.seq


def _keep_evidence(tx: Transaction, arrival: Arrival, report: Report, actor: Actor, policy: Policy) -> Verdict:
    """Put the faults of a late message on record, and nothing else."""
    report = as_listed(tx, arrival, report)
    began = nodes.get_boot(tx, arrival.state.boot_id).started_at if arrival.is_past else None
    _record_failures(tx, arrival, report, actor, policy, behind=lambda failure: late_by(failure, began))
    take_late_findings(tx, arrival, report, actor, policy)
    return Verdict(counted=False, because=Because.NOT_CURRENT, detail="boot" if arrival.is_past else "seq")


def _record_failures(
    tx: Transaction,
    arrival: Arrival,
    report: Report,
    actor: Actor,
    policy: Policy,
    *,
    behind: Callable[[ReportedFailure], timedelta],
) -> None:
    """Record the faults of a report. They work on the node's saved row, so it is saved before and read again after."""
    if not report.failures:
        return
    nodes.save_state(tx, arrival.state)
    for failure in report.failures:
        seen_here = replace(failure, node=report.node, slow_by=behind(failure))
        try:
            _record_failure(tx, arrival, seen_here, actor, policy)
        except (NotFound, Forbidden, DeviceAmbiguous):
            # A tool may name what no list has shown yet, or what was here before: no reason to refuse the report.
            _record_failure(tx, arrival, without_device(seen_here), actor, policy)
    arrival.reload(tx)


def _record_failure(tx: Transaction, arrival: Arrival, failure: ReportedFailure, actor: Actor, policy: Policy) -> None:
    """Record one fault. One of an earlier boot, which a log still shows, is not of the boot that tells of it."""
    is_earlier = (failure.evidence or {}).get("earlier_boot") is True
    record_in(
        tx,
        failure,
        actor=actor,
        node_scope=failure.node,
        policy=policy,
        boot=None if is_earlier else arrival.boot,
        is_past=arrival.is_past or is_earlier,
    )


# --- what the message changes ---------------------------------------------------------------------------------------


def _apply(
    tx: Transaction,
    arrival: Arrival,
    seen: Glance,
    read: Callable[[], Report],
    actor: Actor,
    policy: Policy,
) -> Verdict:
    report = seen.report
    profile = find_profile(tx, report.profile)
    covers = covered_kinds(seen, profile)
    expected = Expectation(profile, expected_counts(tx, arrival.node.id, profile, tx.now))
    is_repeated = runs.is_repeated(arrival.state, report)
    is_old = is_repeated and runs.is_old_news(arrival.state, seen)
    _catch_up(tx, arrival, report, policy, actor, is_repeated=is_repeated)
    taken = Taken()
    if not is_old:
        taken = take_list(tx, arrival, seen, read, covers, expected, actor=actor, policy=policy)
    report = as_listed(tx, arrival, report)
    behind = slow_by(report.sent_at, policy, tx.now)
    _record_failures(tx, arrival, report, actor, policy, behind=lambda _: behind)
    results: tuple[CheckResult, ...] = ()
    if not is_old:
        # The lines of a known list are read only when one of its GPUs becomes hot, or cool.
        known = heat.unchanged(arrival.state, seen, covers, policy, tx.now) if taken.is_known else None
        heated = heat.judge(tx, arrival.state, covers, policy) if known is None else known
        results = (*runs.reported_checks(report), *taken.derived, *heated)
    results = with_settled(tx, arrival, report, results, policy)
    take_findings(tx, arrival, report, results, actor, policy)
    part = runs.Part(results, taken.listed, is_current=True, is_repeated=is_repeated)
    verdict = _judge(tx, arrival, seen, part, expected, policy, actor)
    heartbeat.forget(arrival.state, covers)
    if taken.is_plain and not is_repeated and not waivers_of(tx, arrival.node.id, tx.now):
        heartbeat.remember(arrival.state, seen, covers, taken.derived, policy)
    return verdict


def _catch_up(
    tx: Transaction, arrival: Arrival, report: Report, policy: Policy, actor: Actor, *, is_repeated: bool
) -> None:
    """Bring the row up to this message: silence, profile and zone, seq, sign of life."""
    state, name = arrival.state, arrival.node.name
    silent = silence(tx, state.reported_at, tx.now)
    heartbeat.forget_other_policies(state, policy)
    if is_stale(silent, policy):
        condition_changes.fall_silent(tx, arrival, policy)
        state.digest = {}  # other lists were matched meanwhile as if this node were gone
    if effective_have(state.have, silent, policy) < state.have:
        passes.reset(tx, name, state, why="silence", detail=rfc3339(state.reported_at), actor=actor)
    if state.profile != report.profile:
        passes.reset(tx, name, state, why="profile_changed", detail=report.profile, actor=actor)
        state.counted_start = state.counted_end = None
    if (state.profile, state.zone) != (report.profile, report.zone):
        state.digest = {}
    state.profile, state.zone = report.profile, report.zone
    state.seq = state.seq if report.seq is None else report.seq
    if not is_repeated:
        state.reported_at = tx.now


# --- whether it counts ----------------------------------------------------------------------------------------------


def _judge(
    tx: Transaction,
    arrival: Arrival,
    seen: Glance,
    part: runs.Part,
    expected: Expectation,
    policy: Policy,
    actor: Actor,
) -> Verdict:
    state, profile = arrival.state, expected.profile
    run, row = runs.add_part(state, seen, part, tx.now)
    runs.note_per_boot(state, profile, part.results)
    for before, after in runs.advance_checks(state, part.results, run.run_id, tx.now):
        _check_event(tx, arrival, before, after, actor)
    condition_changes.note(tx, arrival, actor, policy)
    if resets(run):
        failed = sorted(name for name, status in run.results.items() if status is CheckStatus.FAIL)
        passes.reset(tx, arrival.node.name, state, why="check_failed", detail=", ".join(failed), actor=actor)
    placed = units_here(tx, arrival.instance.id)
    verdict = runs.verdict_on(
        state, run, profile=profile, expected=expected.counts, placed=placed, policy=policy, now=tx.now
    )
    if not verdict.counted:
        return verdict
    had = state.have
    runs.count(state, run, row, policy.pass_count)
    if had < policy.pass_count:
        _pass_event(tx, arrival, run, policy, actor)
    covered = frozenset(one for group in placed.values() for one in group)
    count_towards_release(tx, arrival.instance.id, covered, run, arrival.boot, policy)
    return verdict


def _pass_event(tx: Transaction, arrival: Arrival, run: Run, policy: Policy, actor: Actor) -> None:
    data: dict[str, JSON] = {
        "node": arrival.node.name,
        "run_id": run.run_id,
        "have": arrival.state.have,
        "need": policy.pass_count,
    }
    subjects = of_units(boards_here(tx, arrival.instance.id), nodes=[arrival.node.name])
    tx.record(Draft(EventType.PASS_COUNTED, actor, subjects, data))


def _check_event(tx: Transaction, arrival: Arrival, before: CheckState | None, after: CheckState, actor: Actor) -> None:
    """A check that begins clean is no news, unless it has a remark to make."""
    if before is None and after.status in CLEAN and after.status is not CheckStatus.WARN:
        return
    data: dict[str, Any] = {
        "node": arrival.node.name,
        "check": after.name,
        "from": before and before.status,
        "to": after.status,
        "findings": [
            {"device": one.device, "status": one.status, "code": one.code, "message": one.message}
            for one in after.findings
        ],
    }
    tx.record(Draft(EventType.CHECK_CHANGED, actor, (Subject(SubjectKind.NODE, arrival.node.name),), data))


# --- what is remembered of it ---------------------------------------------------------------------------------------
