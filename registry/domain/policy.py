# SPDX-License-Identifier: Apache-2.0
"""Which numbers decide? Every threshold of the rules in one place, the reason beside each.

The digest names the policy that a decision was made under: it covers the thresholds and the effect of every fault
code, so two servers with the same digest decide alike.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from registry.domain.canonical import canonical
from registry.domain.failures import CATALOGUE, UNKNOWN_CODE_EFFECT


@dataclass(frozen=True, slots=True)
class Policy:
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

    def to_json(self) -> dict[str, Any]:
        """Return the thresholds, the effect of every known code, and the effect of an unknown one."""
        effects = {code: row.effect.value for code, row in sorted(CATALOGUE.items())}
        return {**dataclasses.asdict(self), "effects": effects, "unknown_code_effect": UNKNOWN_CODE_EFFECT.value}

    @property
    def digest(self) -> str:
        """`sha256:` and the hash of the canonical JSON; equal policies have equal digests on every machine."""
        return digest_of(self)


# Every decision carries the digest, and hashing the catalogue takes longer than deciding; a process has one policy.
@lru_cache(maxsize=8)
def digest_of(policy: Policy) -> str:
    """Return `sha256:<64 hex digits>` of the canonical JSON of `policy`: its `to_json`, keys sorted, no blanks."""
    return "sha256:" + hashlib.sha256(canonical(policy.to_json()).encode()).hexdigest()
