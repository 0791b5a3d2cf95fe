# SPDX-License-Identifier: Apache-2.0
"""Is this report the same as before? Then one row moves on, nothing is written to the history, and that is all.

It stands beside the full way because nearly all of a fleet's reports are of this sort: whatever is not plainly
unchanged returns None and takes the full way.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from registry.domain.admission import NodeFacts
from registry.domain.passes import effective_have, resets
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, Report
from registry.services import receipts, runs
from registry.services.admission import decide_on, load_facts
from registry.services.receipts import PassAnswer
from registry.store import nodes, placements
from registry.store.database import Database, Overtaken, Snapshot
from registry.store.nodes import NodeState


def accept_unchanged(db: Database, report: Report, *, policy: Policy, now: datetime) -> dict[str, Any] | None:
    """Take in a report that says what the last one said, or return None without having changed anything.

    All is thought out in one snapshot, which hinders nobody; then the row is written, unless somebody else wrote it
    meanwhile. The decision is of a moment within this request.
    """
    if report.failures or report.host or (report.covers and report.entries is None):
        return None
    with db.read() as snapshot:
        found = _take_in(snapshot, report, policy, now)
    if found is None:
        return None
    state, told = found
    try:
        with db.touch(now) as tx:
            return told if nodes.save_heartbeat(tx, state) else None
    except Overtaken:
        return None  # the full way sees what the others did


def _take_in(
    snapshot: Snapshot, report: Report, policy: Policy, now: datetime
) -> tuple[NodeState, dict[str, Any]] | None:
    said = digest_of(report)
    node = nodes.find_node(snapshot, report.node)
    state = nodes.find_state(snapshot, node.id, is_brief=True) if node and node.retired_at is None else None
    if state is None or not _is_same(state, report, said):
        return None
    facts = load_facts(snapshot, report.node, policy=policy, now=now)
    told = _move_on(snapshot, state, report, facts, policy, now)
    return None if told is None else (state, told)


def _is_same(state: NodeState, report: Report, said: str) -> bool:
    known = state.digest.get(key_of(_covered(state, report)))
    if known is None or known["said"] != said:
        return False
    if report.seq is not None and state.seq is not None and report.seq <= state.seq:
        return False
    return not runs.is_repeated(state, report) and receipts.find(state.receipts, report) is None


def _covered(state: NodeState, report: Report) -> frozenset[str]:
    """The kinds of the report's list. Without `covers` it is those the same list was taken for before."""
    if report.entries is None:
        return frozenset()
    if report.covers is not None:
        return report.covers
    present = {entry.kind for entry in report.entries}
    fitting = [key for key in state.digest if present <= set(key.split("+"))]
    return frozenset(min(fitting, key=len).split("+")) if fitting else frozenset(present)


def _move_on(
    snapshot: Snapshot, state: NodeState, report: Report, facts: NodeFacts, policy: Policy, now: datetime
) -> dict[str, Any] | None:
    """Count the round, if that takes no event, and answer. A hold, a reset or a pass that counts needs the full way."""
    if facts.holds or facts.conflicts or effective_have(state.have, facts.silence_seconds, policy) < state.have:
        return None
    covers = _covered(state, report)
    results = (*report.checks, *_derived(state.digest[key_of(covers)]["derived"]))
    placed = placements.units_here(snapshot, state.instance_id)
    listed = {kind: frozenset(placed.get(kind, ())) for kind in covers} if report.entries is not None else {}
    run, row = runs.add_part(state, report, runs.Part(results, listed, is_current=True, is_repeated=False), now)
    changed = runs.advance_checks(state, results, run.run_id, now)
    verdict = runs.verdict_on(
        state, run, profile=facts.profile, expected=facts.expected_counts, placed=placed, policy=policy, now=now
    )
    if changed or (resets(run) and state.have) or (verdict.counted and state.have < policy.pass_count):
        return None
    if verdict.counted:
        runs.count(state, run, row, policy.pass_count)
    told = PassAnswer.of(verdict, have=state.have, need=policy.pass_count)
    runs.note_per_boot(state, facts.profile, results)
    runs.keep_readings(state, report.entries or (), covers)
    state.seq = state.seq if report.seq is None else report.seq
    state.reported_at = now
    state.receipts = receipts.add(state.receipts, report, told, keep=policy.receipts_kept)
    # The same snapshot: only what this report moved on is different.
    facts = replace(
        facts, silence_seconds=0.0, checks=state.checks, have=state.have, last_counted_start=state.counted_start
    )
    decision = decide_on(snapshot, facts, policy=policy, now=now)
    return {
        "report_id": report.report_id,
        "replayed": False,
        "pass": told.to_json(),
        "admission": decision.to_json(),
        "warnings": [{"code": one.code, "message": one.message} for one in report.warnings],
    }


def _derived(stored: list[list[str]]) -> list[CheckResult]:
    """The results that the server made of this very list before."""
    return [CheckResult(name, CheckStatus(status)) for name, status in stored]


def key_of(covers: frozenset[str]) -> str:
    """Name the kinds that a message speaks for; messages of one round take turns, each compared with its own last."""
    return "+".join(sorted(covers))


def digest_of(report: Report) -> str:
    """Digest what a report says, without what may change from look to look: ids, times, readings and messages."""
    said = [
        report.provider_id,
        report.boot_id,
        report.profile,
        report.zone,
        # Without `covers` a list may have to be refused that is taken with it.
        None if report.covers is None else sorted(report.covers),
        sorted(report.partial),
        *runs.said_in(report),
    ]
    return hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()
