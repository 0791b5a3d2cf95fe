# SPDX-License-Identifier: Apache-2.0
"""What would the service remember of a simulated fleet, and whom would it admit?

Every judgement is asked of `registry.domain`: conditions, what a fault opens, the counting rules, the breaker, clean
runs, releases, admission. Boards are known by their serials, whatever the node is called that they turn up in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from registry.domain.admission import HoldOn, NodeFacts, decide
from registry.domain.checks import CheckState
from registry.domain.condition_shown import Condition, worst_first
from registry.domain.condition_words import FAILING, Said, Word
from registry.domain.conditions import Judge, News, Record
from registry.domain.decision import DeviceRef
from registry.domain.passes import Run, RunTimes, Standing, judge
from registry.domain.policy import Policy
from registry.domain.profiles import Profile
from registry.domain.repair import Action
from registry.domain.reports import CheckResult, CheckStatus
from tests.bench.response_faults import GPUS
from tests.bench.response_fleet import PROVEN, Key, Node, moment
from tests.bench.response_holds import Holds
from tests.bench.response_world import World

PROFILE = Profile("eight", GPUS)
REPORT = 30.0
SILENT = 3600.0


@dataclass(slots=True)
class Known:
    """What is remembered of one instance. `clean_runs` counts those since it last failed, fell silent or began anew."""

    name: str
    have: int = 2
    last_start: datetime | None = None
    fault_at: datetime | None = None
    restart_at: datetime | None = None
    clean_runs: int = 0
    is_silent: bool = False
    is_running: bool = False
    checks: dict[Key, Record] = field(default_factory=dict)
    admitted: bool = False
    admitted_at: datetime | None = None


class Records:
    """The memory behind `Pratique`. `tell` hears what the history would hear of conditions."""

    def __init__(self, world: World, policy: Policy, tell: Callable[[Node, Key, News], None]) -> None:
        self._world, self._policy, self._tell, self._judge = world, policy, tell, Judge(policy)
        self._known = [Known(node.name, admitted=True, admitted_at=moment(0)) for node in world.nodes]
        self.holds = Holds(world, policy, self.decide)
        self.proven: set[str] = set()

    @property
    def _now(self) -> datetime:
        return moment(self._world.now)

    # --- checks and conditions ----------------------------------------------------------------------------------------

    def hear(self, node: Node, key: Key, code: str | None, *, is_bad: bool) -> None:
        """Take the word of a check on a device or on the node."""
        known, now = self._known[node.index], self._now
        word = Word.BAD if is_bad else Word.WELL
        record = known.checks.get(key) or Record(key[0], Word.WELL, now, device_id=key[1])
        is_news = is_bad and record.word is not Word.BAD
        self._put(node, key, self._judge.hear(record, word, Said(code or FAILING, "as simulated"), now))
        if is_bad:
            known.have, known.clean_runs = 0, 0
            known.fault_at = now
        if is_news and key[1] is not None:
            self.holds.take(node, key[1], code or ("gpu.diag_failed" if key[0] == PROVEN else None))
            if key[0] == PROVEN:
                self.proven.add(key[1])
        self._await_run(node)
        self.decide(node)

    def _put(self, node: Node, key: Key, heard: tuple[Record, tuple[News, ...]]) -> None:
        """Keep a record, pass its news on, and look again when something comes about by itself."""
        known, (record, news) = self._known[node.index], heard
        known.checks[key] = record
        due_at = self._judge.due_at(record)
        if due_at is not None:
            wait = max((due_at - self._now).total_seconds(), 0.0) + 0.001
            self._world.after(wait, lambda: self._catch_up(node, known, key))
        self.decide(node)
        for one in news:
            self._tell(node, key, one)

    def _catch_up(self, node: Node, known: Known, key: Key) -> None:
        if self._known[node.index] is not known:
            return
        record = known.checks[key]
        due_at = self._judge.due_at(record)
        if due_at is not None and due_at <= self._now:
            self._put(node, key, self._judge.catch_up(record, self._now))

    def condition(self, node: Node, key: Key) -> Condition | None:
        """Give the gravest condition of a check that stands now."""
        record = self._known[node.index].checks.get(key)
        found = worst_first(self._judge.standing(record, self._now)) if record else []
        device = DeviceRef(key[1], "gpu", key[1]) if key[1] else None
        return replace(found[0], device=device) if found else None

    # --- the life of an instance --------------------------------------------------------------------------------------

    def lose(self, node: Node) -> None:
        """Nobody hears of a node."""
        known = self._known[node.index]
        known.is_silent, known.have, known.clean_runs = True, 0, 0
        for key, record in list(known.checks.items()):
            self._put(node, key, self._judge.hear(record, Word.UNKNOWN, Said("silent", ""), self._now))
        self.decide(node)

    def boot(self, node: Node) -> None:
        """A node reports again after a restart, or for the first time under its name."""
        if node.name != self._known[node.index].name:
            self._known[node.index] = Known(node.name, restart_at=self._now)
        known = self._known[node.index]
        if known.is_silent:
            known.restart_at = self._now
        known.is_silent, known.have, known.clean_runs = False, 0, 0
        for key in dict.fromkeys((*known.checks, *node.bad)):
            self.hear(node, key, node.bad.get(key), is_bad=key in node.bad)
        self._await_run(node)
        self.decide(node)

    def restarted(self, node: Node, action: Action) -> None:
        """Remember a reset or a boot."""
        if action in {Action.RESET_GPU, Action.REBOOT_NODE}:
            self._known[node.index].restart_at = self._now

    def is_new(self, node: Node) -> bool:
        """Tell whether a machine has had no work under this name."""
        return self._known[node.index].admitted_at is None

    def _await_run(self, node: Node) -> None:
        """The agent looks every half minute; only the runs that may change something are simulated."""
        known = self._known[node.index]
        is_well = all(one.word is Word.WELL for one in known.checks.values())
        if known.is_running or known.is_silent or not is_well or known.have >= self._policy.pass_count:
            return
        known.is_running = True
        self._world.after(REPORT, lambda: self._run(node, known))

    def _run(self, node: Node, known: Known) -> None:
        """Let a run of checks be judged."""
        known.is_running = False
        if self._known[node.index] is not known or known.is_silent or node.working is not None:
            return
        now, serials = self._now, frozenset(one.serial for one in node.machine.boards)
        results = {key[0]: CheckStatus.PASS for key, one in known.checks.items() if one.word is Word.WELL}
        results |= {key[0]: CheckStatus.FAIL for key, one in known.checks.items() if one.word is Word.BAD}
        run = Run(f"{now}", RunTimes(now, now), now, now, results, {"gpu": serials}, is_current=True)
        standing = Standing(known.have, last_start=known.last_start, newest_fault_at=known.fault_at)
        placed = {"gpu": serials}
        verdict = judge(run, standing, profile=PROFILE, expected={}, placed=placed, policy=self._policy, now=now)
        if verdict.counted:
            known.have, known.last_start, known.clean_runs = known.have + 1, now, known.clean_runs + 1
            self.holds.cure(node, known.clean_runs, known.restart_at)
        self._await_run(node)
        self.decide(node)

    # --- admission ----------------------------------------------------------------------------------------------------

    def is_admitted(self, node: Node) -> bool:
        """Give the newest decision on a node."""
        return self._known[node.index].admitted

    def was_back(self, node: Node, since: datetime) -> bool:
        """Tell whether a node was admitted at any moment after a time, now included."""
        known = self._known[node.index]
        return known.admitted or (known.admitted_at is not None and known.admitted_at > since)

    def decide(self, node: Node) -> None:
        """Decide anew, and tell those who wait for nodes."""
        known, before = self._known[node.index], self._known[node.index].admitted
        facts = self._facts(node, known)
        known.admitted = decide(facts, policy=self._policy, policy_digest="", sequence=0, now=self._now).admitted
        if known.admitted or before:
            known.admitted_at = self._now
        if known.admitted is not before:
            self._world.reckon(node)
        if known.admitted and not before:
            self._world.scheduler.offer()

    def _facts(self, node: Node, known: Known) -> NodeFacts:
        now = self._now
        refs = {one.serial: DeviceRef(one.serial, "gpu", one.serial) for one in node.machine.boards}
        holds = (
            HoldOn(one.id, refs[serial], one.owner, one.reason, one.opened_at)
            for serial in refs
            for one in self.holds.open_on(serial)
        )
        standing = (found for one in known.checks.values() for found in self._judge.standing(one, now))
        bad = [(key, one) for key, one in known.checks.items() if one.word is Word.BAD]
        return NodeFacts(
            node.name,
            is_known=True,
            profile_name=PROFILE.name,
            profile=PROFILE,
            silence_seconds=SILENT if known.is_silent else 0.0,
            holds=tuple(holds),
            withheld=tuple(one for serial in refs for one in self.holds.withheld_on(serial)),
            devices=tuple(refs.values()),
            listed_counts={"gpu": GPUS},
            checks={key[0]: _failing(key, one) for key, one in bad},
            conditions=tuple(standing),
            have=known.have,
            last_counted_start=known.last_start,
        )


def _failing(key: Key, record: Record) -> CheckState:
    since = record.word_since
    found = CheckResult(key[0], CheckStatus.FAIL, key[1], record.said.reason)
    return CheckState(key[0], CheckStatus.FAIL, since, since, "run", (found,))
