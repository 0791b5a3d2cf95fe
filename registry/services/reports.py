# SPDX-License-Identifier: Apache-2.0
"""A node reports: what does that change, did its run count, and may the node take work now?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor, Subject, SubjectKind
from registry.domain.canonical import JSON
from registry.domain.checks import CLEAN, CheckState, count_check, identity_check
from registry.domain.errors import CoversRequired, FieldError, InvalidField
from registry.domain.events import Draft, EventType
from registry.domain.identifiers import identifiers_of
from registry.domain.identity import check_slots
from registry.domain.known import MatchedBy, Outcome
from registry.domain.passes import Because, Verdict, effective_have, resets
from registry.domain.policy import Policy
from registry.domain.profiles import Profile
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Kind, Notice, Report
from registry.domain.times import rfc3339
from registry.services import heartbeat, passes, receipts, runs
from registry.services.admission import decide_in, expected_counts
from registry.services.cures import count_towards_release
from registry.services.failures import attach_waiting, record_in
from registry.services.life import silence
from registry.services.listing import Applied, Listing, apply_list
from registry.services.lives import Arrival, arrive, note_host
from registry.services.profiles import find_profile
from registry.services.receipts import PassAnswer
from registry.services.subjects import of_devices
from registry.store import devices, nodes
from registry.store.database import Database, Transaction, to_micros
from registry.store.nodes import NodeState
from registry.store.placements import open_here, units_here
from registry.store.profiles import waivers_of

DERIVED = frozenset(f"{kind.value}.{what}" for kind in Kind for what in ("count", "identity"))
"""Checks that only the server can make: it alone knows what is expected and who is who."""


def accept_report(db: Database, report: Report, *, actor: Actor, policy: Policy, now: datetime) -> dict[str, Any]:
    """Take a report in and answer what counted and the decision of now.

    The same report again changes nothing and gets the first answer about its pass. Raises CoversRequired, SlotRepeated,
    InvalidField, ReportIdReused, InstanceSuperseded; then nothing of the report is applied.
    """
    unchanged = heartbeat.accept_unchanged(db, report, policy=policy, now=now)
    if unchanged is not None:
        return unchanged
    if report.entries:
        check_slots(report.entries)
    with db.write(now) as tx:
        return _accept(tx, report, actor, policy)


def _accept(tx: Transaction, report: Report, actor: Actor, policy: Policy) -> dict[str, Any]:
    node = nodes.find_node(tx, report.node)
    # Locked before the receipts are read: an unchanged report may be writing its own there at this moment.
    state = nodes.find_state(tx, node.id, lock=True) if node else None
    before = receipts.find(state.receipts, report) if state else None
    if before is not None:
        return answer(tx, report, before, policy, replayed=True)
    arrival = arrive(tx, report, actor)
    notices: list[Notice] = []
    if _is_late(arrival, report):
        verdict = _keep_evidence(tx, arrival, report, actor)
    else:
        notices += note_host(tx, arrival, report, actor)
        verdict = _apply(tx, arrival, report, actor, policy, notices)
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
    notices: list[Notice] | None = None,
) -> dict[str, Any]:
    """Give the answer to a report, with the decision of this moment."""
    tx.flush()
    decision = decide_in(tx, report.node, policy=policy, now=tx.now)
    return {
        "report_id": report.report_id,
        "replayed": replayed,
        "pass": told.to_json(),
        "admission": decision.to_json(),
        "warnings": [{"code": one.code, "message": one.message} for one in (*report.warnings, *(notices or ()))],
    }


def _is_late(arrival: Arrival, report: Report) -> bool:
    """A message of a boot that is over, or overtaken by a later one of this boot: evidence, not state."""
    if arrival.is_past:
        return True
    return report.seq is not None and arrival.state.seq is not None and report.seq <= arrival.state.seq


def _keep_evidence(tx: Transaction, arrival: Arrival, report: Report, actor: Actor) -> Verdict:
    """Put the faults of a late message on record, and nothing else."""
    _record_failures(tx, arrival, report, actor)
    return Verdict(counted=False, because=Because.NOT_CURRENT, detail="boot" if arrival.is_past else "seq")


def _record_failures(tx: Transaction, arrival: Arrival, report: Report, actor: Actor) -> None:
    """Record the faults of a report. They work on the node's saved row, so it is saved before and read again after."""
    if not report.failures:
        return
    nodes.save_state(tx, arrival.state)
    for failure in report.failures:
        record_in(tx, failure, actor=actor, node_scope=report.node, boot=arrival.boot, is_past=arrival.is_past)
    arrival.state = _state_of(tx, arrival)


def _state_of(tx: Transaction, arrival: Arrival) -> NodeState:
    state = nodes.find_state(tx, arrival.node.id)
    assert state is not None  # noqa: S101 - it was saved in this transaction
    return state


# --- what the message changes ---------------------------------------------------------------------------------------


def _apply(
    tx: Transaction, arrival: Arrival, report: Report, actor: Actor, policy: Policy, notices: list[Notice]
) -> Verdict:
    state = arrival.state
    profile = find_profile(tx, report.profile)
    covers = covered_kinds(report, profile)
    expected = expected_counts(tx, arrival.node.id, profile, tx.now)
    is_repeated = runs.is_repeated(state, report)
    is_old = is_repeated and runs.is_old_news(state, report)
    _catch_up(tx, arrival, report, policy, actor, is_repeated=is_repeated)
    applied = None
    if covers and not is_old:
        applied = _take_list(tx, arrival, report, covers, actor, policy)
        state = arrival.state
    _record_failures(tx, arrival, report, actor)
    state = arrival.state
    results = _results(report, applied, covers, expected, profile, notices) if not is_old else ()
    listed = {kind: applied.unit_ids(kind) for kind in covers} if applied else {}
    part = runs.Part(results, listed, is_current=True, is_repeated=is_repeated)
    verdict = _judge(tx, arrival, report, part, profile, expected, policy, actor)
    _remember(tx, state, report, covers, results, applied, is_repeated=is_repeated)
    return verdict


def covered_kinds(report: Report, profile: Profile | None) -> frozenset[str]:
    """Say which kinds a report's list speaks for; none when it brings no list. Raises CoversRequired, InvalidField."""
    if report.entries is None:
        return frozenset()
    present = {entry.kind for entry in report.entries}
    if report.covers is not None:
        stray = sorted(present - report.covers)
        if stray:
            errors = (FieldError("/covers", f"{', '.join(stray)} is listed and not covered"),)
            raise InvalidField(f"The list has {', '.join(stray)} devices that `covers` does not name.", errors=errors)
        return report.covers
    wanted = set(profile.expected_kinds) if profile else set()
    lacking = sorted(wanted - present)
    if lacking:
        errors = (FieldError("/covers", f"the profile {report.profile} expects {', '.join(lacking)}"),)
        raise CoversRequired(
            f"The list has no {', '.join(lacking)} device, and the profile {report.profile} expects some. Add "
            '`"covers"` with the kinds that this list speaks for: one without an entry says there are none.',
            errors=errors,
        )
    return frozenset(present | wanted)


def _catch_up(
    tx: Transaction, arrival: Arrival, report: Report, policy: Policy, actor: Actor, *, is_repeated: bool
) -> None:
    """Bring the row up to this message: silence, profile and zone, seq, sign of life."""
    state, name = arrival.state, arrival.node.name
    if effective_have(state.have, silence(tx, state.reported_at, tx.now), policy) < state.have:
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


def _take_list(
    tx: Transaction, arrival: Arrival, report: Report, covers: frozenset[str], actor: Actor, policy: Policy
) -> Applied:
    state = arrival.state
    before = _placed_ids(tx, arrival, covers)
    waived = waivers_of(tx, arrival.node.id, tx.now)
    listing = Listing(
        arrival.node, arrival.instance, report.entries or (), covers, report.partial, frozenset(waived), actor
    )
    fresh = covers - state.listed.keys()
    nodes.save_state(tx, state)
    applied = apply_list(tx, listing, policy)
    if fresh:
        attach_waiting(tx, arrival.node, arrival.boot, fresh, actor)
    arrival.state = state = _state_of(tx, arrival)
    for kind in covers:
        state.listed.setdefault(kind, {"count": 0, "partial": False, "unidentified": [], "first": to_micros(tx.now)})
    after = _placed_ids(tx, arrival, covers)
    if before != after:
        passes.reset(tx, arrival.node.name, state, why="devices_changed", detail=None, actor=actor)
        state.counted_start = state.counted_end = None
    return applied


def _placed_ids(tx: Transaction, arrival: Arrival, covers: frozenset[str]) -> set[str]:
    placed = units_here(tx, arrival.instance.id)
    return {one for kind in covers for one in placed.get(kind, [])}


def _results(
    report: Report,
    applied: Applied | None,
    covers: frozenset[str],
    expected: Mapping[str, int | None],
    profile: Profile | None,
    notices: list[Notice],
) -> tuple[CheckResult, ...]:
    """The results of this message: what was reported, and what the server derives from the list."""
    reported = [one for one in report.checks if one.name not in DERIVED]
    if report.covers and report.entries is None:
        notices.append(
            Notice("covers_ignored", "`covers` came without `devices`: no list, and no placement, is changed.")
        )
    if len(reported) < len(report.checks):
        notices.append(
            Notice("check_derived", "*.count and *.identity are made by the server; the reported ones are ignored.")
        )
    if applied is None:
        return tuple(reported)
    derived = []
    for kind in sorted(covers):
        entries = [one.entry for one in applied.listed(kind)]
        counted = count_check(kind, len(entries), expected.get(kind), kind in report.partial)
        derived += [counted] if counted else []
        derived += _model_checks(kind, entries, profile)
    if Kind.GPU in covers:
        derived.append(identity_check(Kind.GPU, applied.matches))
    return (*reported, *derived)


def _model_checks(kind: str, entries: list[DeviceEntry], profile: Profile | None) -> list[CheckResult]:
    """A GPU of a model that the profile does not name is not one of those that it counts."""
    if kind != Kind.GPU or profile is None:
        return []
    wrong = [one for one in entries if one.model is not None and not profile.model_matches(one.model)]
    allowed = ", ".join(profile.gpu_models)
    return [
        CheckResult(
            "gpu.count", CheckStatus.FAIL, one.slot or one.uuid or one.serial, None, f"{one.model} is not {allowed}"
        )
        for one in wrong
    ]


# --- whether it counts ----------------------------------------------------------------------------------------------


def _judge(
    tx: Transaction,
    arrival: Arrival,
    report: Report,
    part: runs.Part,
    profile: Profile | None,
    expected: Mapping[str, int | None],
    policy: Policy,
    actor: Actor,
) -> Verdict:
    state = arrival.state
    run, row = runs.add_part(state, report, part, tx.now)
    runs.note_per_boot(state, profile, part.results)
    for before, after in runs.advance_checks(state, part.results, run.run_id, tx.now):
        _check_event(tx, arrival, before, after, actor)
    if resets(run):
        failed = sorted(name for name, status in run.results.items() if status is CheckStatus.FAIL)
        passes.reset(tx, arrival.node.name, state, why="check_failed", detail=", ".join(failed), actor=actor)
    placed = units_here(tx, arrival.instance.id)
    verdict = runs.verdict_on(state, run, profile=profile, expected=expected, placed=placed, policy=policy, now=tx.now)
    if not verdict.counted:
        return verdict
    had = state.have
    runs.count(state, run, row, policy.pass_count)
    units = devices.get_devices(tx, [one for group in placed.values() for one in group])
    if had < policy.pass_count:
        data: dict[str, JSON] = {
            "node": arrival.node.name,
            "run_id": run.run_id,
            "have": state.have,
            "need": policy.pass_count,
        }
        subjects = of_devices(units.values(), nodes=[arrival.node.name])
        tx.record(Draft(EventType.PASS_COUNTED, actor, subjects, data))
    count_towards_release(tx, list(units.values()), run, arrival.boot, policy)
    return verdict


def _check_event(tx: Transaction, arrival: Arrival, before: CheckState | None, after: CheckState, actor: Actor) -> None:
    """A check that begins clean is no news."""
    if before is None and after.status in CLEAN:
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


def _remember(
    tx: Transaction,
    state: NodeState,
    report: Report,
    covers: frozenset[str],
    results: tuple[CheckResult, ...],
    applied: Applied | None,
    *,
    is_repeated: bool,
) -> None:
    """Keep what the lists said, line by line, and the digest that tells the same message when it comes again."""
    if applied is not None:
        runs.keep_readings(state, report.entries or (), covers)
        slots = {one.device_id: one.slot for one in open_here(tx, state.instance_id)}
        for kind in covers:
            lines = [_line(applied, match.index, slots) for match in applied.listed(kind)]
            state.entries[kind] = lines
            state.listed[kind] = {
                "first": state.listed[kind]["first"],
                "count": len(lines),
                "partial": kind in report.partial,
                "unidentified": [
                    {"kind": kind, "serial": one["serial"], "uuid": one["uuid"], "slot": one["slot"]}
                    for one in lines
                    if one["outcome"] == Outcome.UNIDENTIFIED
                ],
            }
    key = heartbeat.key_of(covers)
    # A message of other kinds takes turns with this one; one that shares a kind would come again as news.
    state.digest = {one: said for one, said in state.digest.items() if one != key and not covers & set(one.split("+"))}
    is_plain = applied is None or all(one.outcome in (Outcome.KNOWN, Outcome.NEW) for one in applied.matches)
    if is_repeated or not is_plain or report.failures or report.host or waivers_of(tx, state.node_id, tx.now):
        return
    derived = [[one.name, one.status] for one in results if one.name in DERIVED]
    state.digest[key] = {"said": heartbeat.digest_of(report), "derived": derived}


def _line(applied: Applied, index: int, slots: Mapping[str, str | None]) -> dict[str, Any]:
    """One line of a list as the node page shows it: usable values by name, everything printed beside them."""
    match = applied.matches[index]
    entry, unit = match.entry, applied.units.get(index)
    printed = identifiers_of(entry)
    usable = {one.type.value: one.value for one in printed if one.is_usable}
    is_taught = unit is not None and match.matched_by is not MatchedBy.RULING
    return {
        "id": unit.id if unit else None,
        "outcome": str(match.outcome),
        "matched_by": str(match.matched_by),
        "kind": entry.kind,
        "vendor": entry.vendor,
        "serial": usable.get("serial") or (unit.serial if unit and is_taught else None),
        "uuid": usable.get("uuid") or (unit.uuid if unit and is_taught else None),
        "slot": entry.slot or (slots.get(unit.id) if unit else None),
        "name": entry.name,
        "model": entry.model or (unit.model if unit else None),
        "part_number": entry.part_number or (unit.part_number if unit else None),
        "module_id": usable.get("module_id"),
        "firmware": dict(entry.firmware),
        "identifiers": [{"type": one.type, "value": one.value, "usable": one.is_usable} for one in printed],
        "reason": match.reason if unit is None else None,
    }
