# SPDX-License-Identifier: Apache-2.0
"""Which numbers decide? Every threshold of the rules in one place, the reason beside each.

The digest names the policy that a decision was made under: it covers the thresholds, the effect of every fault code
and the rules, so two servers with the same digest decide alike.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from registry.domain.canonical import canonical
from registry.domain.failures import CATALOGUE, UNKNOWN_CODE_EFFECT, Effect, FailureKind, look_up
from registry.domain.policy_repairs import RepairPolicy
from registry.domain.rules import DEFAULT_RULES, Rule
from registry.domain.slo import DEFAULT_OBJECTIVES, Objective
from registry.domain.tolerances import DEFAULT_TOLERANCES, FLAPPING, Limits, Tolerance, is_accelerated


@dataclass(frozen=True, slots=True)
class Policy(RepairPolicy):
    """The thresholds in force. All times are seconds, all shares whole percents (floats would round floors down)."""

    pass_count: int = 2
    """Clean runs a node needs: one may be luck, or the run that a fault was just about to spoil."""

    pass_gap_seconds: int = 30
    """Least time from one counted run's start to the next one's: two runs in the same second are one look."""

    pass_max_age_seconds: int = 900
    """Oldest run that may count, and longest silence that standing passes survive: a slow round of checks takes
    minutes, and a quarter of an hour without a word says nothing of now."""

    report_stale_seconds: int = 120
    """Silence after which a node is stale: four periods of the agent, so that three lost reports are forgiven."""

    future_tolerance_seconds: int = 5
    """How far a node's clock may be ahead: synchronised clocks differ by less, and more would let a run age late."""

    life_sign_seconds: int = 10
    """How often the service writes that it is up: three of them fit in the shortest outage that counts as one."""

    outage_gap_seconds: int = 30
    """A longer gap between signs of life is our own outage and left out of all ages: it must make nobody stale."""

    efa_grace_seconds: int = 120
    """How long after a boot was first seen EFAs may still be missing without fault: on p5en some come up a minute
    after the others, and twice that tells late from never."""

    heat_warn_celsius: int = 10
    """Degrees above the median of its neighbours that make a GPU hot: between the cool and the warm end of one air
    stream lie fewer."""

    heat_fail_celsius: int = 15
    """Degrees that no place in the chassis explains: the cooler is loose, blocked or dead."""

    heat_clear_celsius: int = 7
    """Degrees below which a hot GPU is hot no longer: with a gap to the margin a reading that wavers is one story."""

    heat_window_seconds: int = 300
    """How long a GPU must be hot: a job that begins or ends is over by then, a cooler that fails is not."""

    heat_neighbours: int = 3
    """Neighbours that a comparison takes: the median of fewer is the word of a single card."""

    heat_power_band_percent: int = 20
    """Difference in power within which two loads are alike: cards of one model spread less under one job."""

    heat_busy_percent: int = 50
    """Utilisation below which a GPU is not compared: what an idle one shows is its last job and its place."""

    heat_busy_band_percent: int = 20
    """Difference in utilisation within which two loads are alike, where power is not printed."""

    heat_counts: bool = False
    """Whether a GPU that is `heat_fail_celsius` hotter fails `gpu.thermal`. Else it warns: by itself heat loses no job,
    and a hot corner of a room must not take a row of nodes away unasked."""

    after_passes_count: int = 2
    """Clean runs that release an `after_passes` hold: the same proof that a node has to bring."""

    receipts_kept: int = 64
    """Report ids remembered per node: half an hour of an agent's repeats, in a bounded row."""

    board_units_max: int = 8
    """Units one board may carry before its serial is taken for a placeholder: twice the four of a Tesla M10,
    the most that are known on one."""

    node_active_hours: int = 24
    """A node that reported within this time counts as part of the fleet for the breaker."""

    breaker_window_seconds: int = 600
    """The breaker counts nodes newly held in this time: long enough to see a wave, short enough to clear by itself."""

    breaker_fleet_percent: int = 5
    """Share of the fleet that rules may hold in a window: real faults come singly, a bad rule or update all at once."""

    breaker_profile_percent: int = 10
    """Share of the nodes of one profile: a driver update hits one type of machine and is small in a mixed fleet."""

    breaker_zone_percent: int = 20
    """Share of one zone: power and cooling fail by zone, and a zone out of service looks like many bad nodes."""

    breaker_limit_min: int = 1
    """The breaker always lets this many through: a fleet of three must be able to hold its one bad node."""

    breaker_permanent_min: int = 4
    """The same for permanent codes, whose evidence no outage imitates and no later boot shows again."""

    condition_accelerated_seconds: int = 600
    """How long a condition of the accelerators may last before it is a failure: what EKS waits before it repairs one,
    long enough for a driver that is loaded anew. https://docs.aws.amazon.com/eks/latest/userguide/node-health.html"""

    condition_other_seconds: int = 1800
    """The same for every other condition, as EKS has it: kernels and networks mend themselves more often."""

    condition_clear_seconds: int = 300
    """How long all must be well before a condition is over: ten reports, so that a lucky look does not end it."""

    condition_unknown_seconds: int = 1800
    """How long nobody may be able to look before that is told. It is never more: who cannot look has seen no fault."""

    condition_flap_changes: int = 6
    """Changes between well and bad within the window that are flapping: three drops, as one is an accident."""

    condition_flap_window_seconds: int = 3600
    """The window of these changes, and how long after the first of them at the most a steady check counts as flapping.
    """

    conditions: tuple[Tolerance, ...] = DEFAULT_TOLERANCES
    """How patient the policy is with single conditions: some mend themselves, and some no repair can mend."""

    blame_before_seconds: int = 2700
    """How long before the failure of a job something may have to do with it: the watchdogs of collectives wait ten
    minutes or thirty by default, and the job may have hung all the while.
    https://docs.pytorch.org/docs/stable/distributed.html"""

    blame_after_seconds: int = 900
    """How long after it a tool may find what was broken before: a diagnostic takes minutes, and needs the job gone."""

    blame_confidence_percent: int = 60
    """Confidence below which nobody is blamed: a wrong verdict costs a job or a good node, an open one a look."""

    unknown_code_effect: Effect = UNKNOWN_CODE_EFFECT
    """What a code outside the catalogue does: it must not pass unseen, and is not enough to open a quarantine."""

    effects: tuple[tuple[str, Effect], ...] = ()
    """Effects that differ from the catalogue's, by code: a fleet may know better than the table what a code is worth.
    """

    slo: tuple[Objective, ...] = DEFAULT_OBJECTIVES
    """What the fleet promises to those who run jobs on it. No decision depends on it."""

    rules: tuple[Rule, ...] = DEFAULT_RULES
    """What is counted, and opens a hold when there is too much of it: repetition says what no single fault says."""

    def look_up(self, code: str) -> FailureKind:
        """Return what is known of a fault code, with the effect that it has under this policy. Never raises."""
        kind = look_up(code)
        by_default = kind.effect if code in CATALOGUE else self.unknown_code_effect
        effect = dict(self.effects).get(code, by_default) if kind.is_fault else kind.effect
        return kind if effect is kind.effect else dataclasses.replace(kind, effect=effect)

    def knows(self, code: str) -> bool:
        """Tell whether anything is said of a fault code: by the catalogue, or by this policy."""
        return code in CATALOGUE or code in dict(self.effects) or any(code in one.codes for one in self.rules)

    def limits_of(self, condition: str) -> Limits:
        """Return how patient this policy is with a condition. What says nothing of flapping is as for what flaps."""
        said = {one.name: one for one in self.conditions}
        base = condition.removesuffix(FLAPPING)
        own = said.get(condition) or said.get(base) or Tolerance(condition)
        usual = self.condition_accelerated_seconds if is_accelerated(base) else self.condition_other_seconds
        tolerance = None if own.never else _or_else(own.tolerance_seconds, usual)
        return Limits(
            tolerance,
            _or_else(own.clear_seconds, self.condition_clear_seconds),
            _or_else(own.unknown_seconds, self.condition_unknown_seconds),
        )

    def thresholds(self) -> dict[str, int]:
        """Return every number by its name."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, int)}

    def to_json(self) -> dict[str, Any]:
        """Return the thresholds, the effect of every known code and of an unknown one, and the rules."""
        codes = sorted({*CATALOGUE, *dict(self.effects)})
        return {
            **self.thresholds(),
            "effects": {code: self.look_up(code).effect.value for code in codes},
            "unknown_code_effect": self.unknown_code_effect.value,
            "conditions": {one.name: one.to_json() for one in self.conditions},
            "slo": [one.to_json() for one in self.slo],
            "repair_trusted_checks": list(self.repair_trusted_checks),
            "rules": [one.to_json() for one in self.rules],
        }

    @property
    def digest(self) -> str:
        """`sha256:` and the hash of the canonical JSON; equal policies have equal digests on every machine."""
        return digest_of(self)


def _or_else(said: int | None, usual: int) -> int:
    return usual if said is None else said


# Every decision carries the digest, and hashing the catalogue takes longer than deciding; a process has one policy.
@lru_cache(maxsize=8)
def digest_of(policy: Policy) -> str:
    """Return `sha256:<64 hex digits>` of the canonical JSON of `policy`: its `to_json`, keys sorted, no blanks."""
    return "sha256:" + hashlib.sha256(canonical(policy.to_json()).encode()).hexdigest()
