# SPDX-License-Identifier: Apache-2.0
"""Does the fleet keep what was promised, how fast is the room for failure being used up, and by whose fault?

    burn rate = what went wrong in a window / what may go wrong in as long a time

At a burn rate of 1 the room for failure is used up exactly at the end of the objective's window. An alert asks two
windows at once: the long one says that it matters, the short one that it still goes on. Windows and shares are those of
the SRE workbook, chapter 5, table 5-8 (https://sre.google/workbook/alerting-on-slos/): 2 % of the room within an hour
or 5 % within six wake somebody up, 10 % within three days make a ticket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from registry.domain.failures import Cause

UNIT = 1000
"""A target is counted in thousandths: of a per cent, or of an interruption in 1,000 node-days."""

WHOLE = 100 * UNIT
"""All of it, 100 %."""

NODE_DAY = 86_400_000_000
"""Microseconds."""

PLATFORM_CAUSES = frozenset({Cause.HARDWARE, Cause.DRIVER, Cause.PLATFORM})
"""Whose interruptions count against the platform. A program that fails by itself does not, and one of which nobody
knows yet is shown beside them."""

LEAST_INTERRUPTIONS = 3
"""Fewer interruptions in the long window raise no alert: in a small fleet a single one burns at any rate
("Low-Traffic Services and Error Budget Alerting", the same chapter)."""

SPLIT = (Cause.HARDWARE, Cause.DRIVER, Cause.PLATFORM, Cause.USER, Cause.UNKNOWN)
"""Every objective is split by these."""


class ObjectiveName(StrEnum):
    """What is promised."""

    AVAILABILITY = "availability"
    """Node-time in which a node might take work, of all node-time owned."""
    INTERRUPTIONS = "interruptions"
    """Interruptions of jobs by hardware, driver or platform in 1,000 node-days of jobs."""
    GOODPUT = "goodput"
    """Device-time on progress that survived, of all device-time allocated to jobs."""


class AlertLevel(StrEnum):
    """Whom an alert is for."""

    PAGE = "page"
    """Somebody now."""
    TICKET = "ticket"
    """Somebody in the next days."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A promise: at least `target` in `window_seconds`, or, of interruptions, at most so many."""

    name: ObjectiveName
    target: int
    window_seconds: int

    @property
    def allowed(self) -> float:
        """How much may go wrong: a share of all, or interruptions in 1,000 node-days."""
        if self.name is ObjectiveName.INTERRUPTIONS:
            return self.target / UNIT
        return (WHOLE - self.target) / WHOLE

    @property
    def promised(self) -> float:
        """The target as `Standing.actual` counts it."""
        return self.target / (UNIT if self.name is ObjectiveName.INTERRUPTIONS else WHOLE)

    @property
    def target_text(self) -> str:
        """The target as a policy file writes it: `95%`, `6.5`."""
        number = format((Decimal(self.target) / UNIT).normalize(), "f")
        return number if self.name is ObjectiveName.INTERRUPTIONS else f"{number}%"

    def to_json(self) -> dict[str, str | int]:
        """Give it as the policy shows it."""
        return {"name": str(self.name), "target": self.target_text, "window_seconds": self.window_seconds}


@dataclass(frozen=True, slots=True)
class BurnRule:
    """Alert when this share of the room for failure, in per cent, is used up in the long window, and still is used."""

    level: AlertLevel
    long_seconds: int
    short_seconds: int
    percent: int

    def threshold(self, objective: Objective) -> float:
        """The burn rate at which that happens: 14.4, 6 and 1 for 30 days."""
        return self.percent * objective.window_seconds / self.long_seconds / 100


BURN_RULES = (
    BurnRule(AlertLevel.PAGE, 3_600, 300, 2),
    BurnRule(AlertLevel.PAGE, 21_600, 1_800, 5),
    BurnRule(AlertLevel.TICKET, 259_200, 21_600, 10),
)

DEFAULT_OBJECTIVES = (
    # One node in twenty may be out: the share that the breaker lets rules hold.
    Objective(ObjectiveName.AVAILABILITY, 95 * UNIT, 30 * 86_400),
    # The higher of the two rates of Kokolis et al.: worse than the worse of two known fleets wants a look.
    Objective(ObjectiveName.INTERRUPTIONS, 6_500, 30 * 86_400),
    # What Llama 3 reports of its 54 days: https://arxiv.org/abs/2407.21783, section 3.3.4.
    Objective(ObjectiveName.GOODPUT, 90 * UNIT, 30 * 86_400),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen in one window: microseconds of all, and of them the bad ones by cause.

    Of interruptions `total` is node-microseconds and `bad` counts them.
    """

    total: int
    bad: Mapping[Cause, int]

    def rates(self, name: ObjectiveName) -> dict[Cause, float] | None:
        """How much went wrong by each cause, in the terms of the objective; None where there is nothing to judge."""
        if not self.total:
            return None
        factor = 1000 * NODE_DAY if name is ObjectiveName.INTERRUPTIONS else 1
        return {cause: self.bad.get(cause, 0) * factor / self.total for cause in SPLIT}

    def failed(self, name: ObjectiveName) -> float | None:
        """How much went wrong that counts; None where there is nothing to judge."""
        rates = self.rates(name)
        if rates is None:
            return None
        is_counted = PLATFORM_CAUSES if name is ObjectiveName.INTERRUPTIONS else frozenset(SPLIT)
        return sum(rate for cause, rate in rates.items() if cause in is_counted)

    def counted(self) -> int:
        """How many of the bad ones count against the platform."""
        return sum(count for cause, count in self.bad.items() if cause in PLATFORM_CAUSES)


@dataclass(frozen=True, slots=True)
class Burn:
    """One rule, asked. A rate is None where its window holds nothing to judge."""

    rule: BurnRule
    threshold: float
    long: float | None
    short: float | None
    is_firing: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """How an objective stands. `actual` is in its own terms, `left` the part of the room for failure not used up yet:
    below zero when more went wrong than may. None where there is nothing to judge, which is not kept and not broken.
    """

    objective: Objective
    actual: float | None
    left: float | None
    by_cause: Mapping[Cause, float] | None
    burns: tuple[Burn, ...]

    @property
    def is_met(self) -> bool | None:
        """Whether the promise is kept in the window that ends now."""
        return None if self.left is None else self.left >= 0

    @property
    def alert(self) -> AlertLevel | None:
        """The most urgent alert that its burn rates ask for."""
        firing = [burn.rule.level for burn in self.burns if burn.is_firing]
        return min(firing, key=list(AlertLevel).index, default=None)


def burn_rate(objective: Objective, seen: Measured) -> float | None:
    """Return how many times as fast as it may the room for failure was used up in a window."""
    failed = seen.failed(objective.name)
    return None if failed is None else failed / objective.allowed


def windows_of(objective: Objective) -> tuple[int, ...]:
    """Return the lengths, in seconds, of all windows that `judge` needs, the shortest first."""
    lengths = {one for rule in BURN_RULES for one in (rule.long_seconds, rule.short_seconds)}
    return tuple(sorted({*lengths, objective.window_seconds}))


def judge(objective: Objective, seen: Mapping[int, Measured]) -> Standing:
    """Say how an objective stands, by what was seen in each of its windows."""
    whole = seen[objective.window_seconds]
    failed = whole.failed(objective.name)
    is_rate = objective.name is ObjectiveName.INTERRUPTIONS
    return Standing(
        objective=objective,
        actual=None if failed is None else failed if is_rate else max(0.0, 1 - failed),
        left=None if failed is None else 1 - failed / objective.allowed,
        by_cause=whole.rates(objective.name),
        burns=tuple(_ask(rule, objective, seen) for rule in BURN_RULES),
    )


def _ask(rule: BurnRule, objective: Objective, seen: Mapping[int, Measured]) -> Burn:
    threshold = rule.threshold(objective)
    long, short = (burn_rate(objective, seen[one]) for one in (rule.long_seconds, rule.short_seconds))
    is_enough = objective.name is not ObjectiveName.INTERRUPTIONS or (
        seen[rule.long_seconds].counted() >= LEAST_INTERRUPTIONS
    )
    is_firing = is_enough and long is not None and short is not None and min(long, short) >= threshold
    return Burn(rule, threshold, long, short, is_firing)
