# SPDX-License-Identifier: Apache-2.0
"""Is this report the same as before? Then one row moves on, nothing is written to the history, and that is all.

It stands beside the full way because nearly all of a fleet's reports are of this sort: whatever is not plainly
unchanged takes the full way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from registry.domain.admission import NodeFacts
from registry.domain.condition_words import is_same_news
from registry.domain.glance import Glance
from registry.domain.naming import has_counted
from registry.domain.passes import effective_have, resets
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, Report
from registry.domain.staleness import is_stale
from registry.services import heat, receipts, runs
from registry.services.admission import decide_on, facts_on
from registry.services.failures import is_told
from registry.services.receipts import PassAnswer
from registry.services.settled import is_log_failing
from registry.store import nodes
from registry.store.database import Database, Snapshot
from registry.store.nodes import NodeState
from registry.store.summaries import Known, find_known


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of a report at first hearing: its answer, when it was unchanged.

    Else `is_known` says whether at least its list is: same devices, same firmware, nothing to be read line by line.
    """

    answer: dict[str, Any] | None = None
    is_known: bool = False


Judged = tuple[Heard, NodeState | None]
"""What came of a report, and the row of its node, moved on where there is an answer."""


def accept_unchanged(db: Database, seen: Glance, *, policy: Policy, now: datetime) -> Heard:
    """Take in a report that says what the last one said; any other changes nothing and gets no answer.

    All is thought out in one view, which hinders nobody; then the row is written, unless somebody else wrote it
    meanwhile. The decision is of a moment within this request.
    """
    # Faults are looked up one by one, and for what is not plain there is more to be read.
    judged = None if seen.report.failures else db.look(lambda snapshot: _judge_plainly(snapshot, seen, policy, now))
    if judged is None:
        with db.read() as snapshot:
            judged = _judge(snapshot, find_known(snapshot, seen.report.node), seen, policy, now)
    heard, state = judged
    if state is None or heard.answer is None:
        return heard
    is_saved = db.move(nodes.heartbeat_of(state), nodes.save_heartbeats, now)
    return heard if is_saved else replace(heard, answer=None)  # the full way sees what the others did


def _judge_plainly(snapshot: Snapshot, seen: Glance, policy: Policy, now: datetime) -> Judged | None:
    """Judge on one statement, where that is enough, which it is for nearly every node; else None."""
    known = find_known(snapshot, seen.report.node)
    is_enough = known is None or known.summary.is_plain
    return _judge(snapshot, known, seen, policy, now) if is_enough else None


def _judge(snapshot: Snapshot, known: Known | None, seen: Glance, policy: Policy, now: datetime) -> Judged:
    """Judge the report by what is known of its node, and move that on."""
    if known is None:
        return Heard(), None
    report, state = seen.report, known.state
    covers = covered(state, seen)
    is_known = is_known_list(state, seen, covers) and is_known_firmware(state, seen, covers)
    is_same = _is_same(state, seen, covers, policy) and _is_told(snapshot, report, now)
    return Heard(_move_on(snapshot, known, seen, covers, policy, now) if is_same else None, is_known), state


def _is_same(state: NodeState, seen: Glance, covers: frozenset[str], policy: Policy) -> bool:
    report = seen.report
    known = state.digest.get(key_of(covers))
    if known is None or known["policy"] != policy.digest or known["said"] != seen.said:
        return False
    if report.host or report.earlier_boots or has_counted(report) or is_log_failing(report):
        return False
    if report.seq is not None and state.seq is not None and report.seq <= state.seq:
        return False
    return not runs.is_repeated(state, report) and receipts.find(state.receipts, report) is None


def _is_told(snapshot: Snapshot, report: Report, now: datetime) -> bool:
    """Tell whether all faults were told before: a log shows them at each report, and they do nothing more."""
    return all(is_told(snapshot, replace(one, node=report.node), report.node, now) for one in report.failures)


def covered(state: NodeState, seen: Glance) -> frozenset[str]:
    """The kinds of the report's list. Without `covers` it is those the same list was taken for before."""
    if seen.kinds is None:
        return frozenset()
    if seen.report.covers is not None:
        return seen.report.covers
    present = frozenset(seen.kinds)
    fitting = [key for key in state.digest if present <= set(key.split("+"))]
    return frozenset(min(fitting, key=len).split("+")) if fitting else present


def _move_on(
    snapshot: Snapshot, known: Known, seen: Glance, covers: frozenset[str], policy: Policy, now: datetime
) -> dict[str, Any] | None:
    """Count the round, if that takes no event, and answer. A hold, a reset or a pass that counts needs the full way."""
    state, placed = known.state, known.placed
    facts = facts_on(snapshot, seen.report.node, known.summary, policy=policy, now=now)
    if _is_disturbed(facts, state, policy):
        return None
    report = seen.report
    heated = heat.unchanged(state, seen, covers, policy, now)
    if heated is None:
        return None
    results = (*runs.reported_checks(report), *derived_before(state, covers), *heated)
    listed = {kind: frozenset(placed.get(kind, ())) for kind in covers}
    checks = dict(state.checks)
    run, row = runs.add_part(state, seen, runs.Part(results, listed, is_current=True, is_repeated=False), now)
    changed = runs.advance_checks(state, results, run.run_id, now)
    verdict = runs.verdict_on(
        state, run, profile=facts.profile, expected=facts.expected_counts, placed=placed, policy=policy, now=now
    )
    if (
        changed
        or not is_same_news(checks, state.checks)
        or (resets(run) and state.have)
        or (verdict.counted and state.have < policy.pass_count)
    ):
        return None
    if verdict.counted:
        runs.count(state, run, row, policy.pass_count)
    told = PassAnswer.of(verdict, have=state.have, need=policy.pass_count)
    runs.note_per_boot(state, facts.profile, results)
    runs.keep_readings(state, seen, covers)
    state.seq = state.seq if report.seq is None else report.seq
    state.reported_at = now
    state.receipts = receipts.add(state.receipts, report, told, keep=policy.receipts_kept)
    # The same snapshot: only what this report moved on is different.
    facts = replace(
        facts, silence_seconds=0.0, checks=state.checks, have=state.have, last_counted_start=state.counted_start
    )
    decision = decide_on(snapshot, facts, policy=policy, now=now)
    return receipts.answer(report, told, decision, runs.notices_on(seen))


def _is_disturbed(facts: NodeFacts, state: NodeState, policy: Policy) -> bool:
    """Whether something else than its reports concerns the node, or it was silent for long.

    Other lists may then have been matched meanwhile as if it were gone.
    """
    silent = facts.silence_seconds
    was_away = is_stale(silent, policy) or effective_have(state.have, silent, policy) < state.have
    return was_away or bool(facts.holds or facts.withheld or facts.conflicts)


def derived_before(state: NodeState, covers: frozenset[str]) -> tuple[CheckResult, ...]:
    """The results that the server made of this very list before."""
    return tuple(
        CheckResult(name, CheckStatus(status), device, code, message)
        for name, status, device, code, message in state.digest[key_of(covers)]["derived"]
    )


def key_of(covers: frozenset[str]) -> str:
    """Name the kinds that a message speaks for; messages of one round take turns, each compared with its own last."""
    return "+".join(sorted(covers))


def is_known_list(state: NodeState, seen: Glance, covers: frozenset[str]) -> bool:
    """Tell whether the list was matched before, and nothing since changes whom it would be matched with."""
    known = state.digest.get(key_of(covers))
    return seen.kinds is not None and known is not None and known["list"] == seen.list_digest


def is_known_firmware(state: NodeState, seen: Glance, covers: frozenset[str]) -> bool:
    """Tell of a known list whether its devices run what they ran."""
    known: str = state.digest[key_of(covers)]["firmware"]
    return known == seen.firmware_digest


def forget(state: NodeState, covers: frozenset[str]) -> None:
    """Forget what was said of these kinds: a message of one of them alone would come again as news."""
    key = key_of(covers)
    state.digest = {one: said for one, said in state.digest.items() if one != key and not covers & set(one.split("+"))}


def forget_other_policies(state: NodeState, policy: Policy) -> None:
    """Forget what was matched under another policy, which may match otherwise."""
    state.digest = {key: said for key, said in state.digest.items() if said.get("policy") == policy.digest}


def remember(
    state: NodeState, seen: Glance, covers: frozenset[str], derived: Sequence[CheckResult], policy: Policy
) -> None:
    """Keep what tells the same list, and the same message, when it comes again."""
    state.digest[key_of(covers)] = {
        "policy": policy.digest,
        "said": seen.said,
        "list": seen.list_digest,
        "firmware": seen.firmware_digest,
        "derived": [[one.name, one.status, one.device, one.code, one.message] for one in derived],
    }
