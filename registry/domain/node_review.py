# SPDX-License-Identifier: Apache-2.0
"""May somebody change a Kubernetes Node like this? Only our own taint and label are guarded, by the one decision."""

from __future__ import annotations

from dataclasses import dataclass

from registry.domain.decision import Decision
from registry.domain.taints import MANAGED_LABEL, TAINT_KEY, NodeMarks, Opening, find_openings

REASONS_SHOWN = 5
"""How many reasons a refusal spells out: a person reads it in a terminal."""

WARNING_LENGTH = 120
"""Kubernetes asks for warnings no longer than this:
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response."""

_WHAT_STAYS = {
    Opening.TAINT_REMOVED: f"the taint {TAINT_KEY} stays on it",
    Opening.LABEL_REMOVED: f"the label {MANAGED_LABEL} stays on it",
}


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """What is said of a change. `message` says why not; `warnings` go to whoever made a change that is let be."""

    is_allowed: bool
    message: str = ""
    warnings: tuple[str, ...] = ()


LET_BE = ReviewAnswer(is_allowed=True)
"""The change is none of our business."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A Node object as it was and as it shall be. `asked_as` is its name at Pratique, None where it has none."""

    node: str
    asked_as: str | None
    before: NodeMarks
    after: NodeMarks

    @property
    def openings(self) -> tuple[Opening, ...]:
        """How it would let work onto a node that we keep closed."""
        return find_openings(self.before, self.after)

    @property
    def is_uncordoned(self) -> bool:
        """It ends somebody's cordon on a node of ours: theirs to end, but a refusal of ours outlives it."""
        return self.before.is_managed and self.before.is_cordoned and not self.after.is_cordoned

    @property
    def needs_decision(self) -> bool:
        """The answer depends on whether the node is admitted."""
        return bool(self.openings) or self.is_uncordoned


def answer_change(change: NodeChange, decision: Decision) -> ReviewAnswer:
    """Say whether the change may be made, by what is decided about the node."""
    if decision.admitted or not change.needs_decision:
        return LET_BE
    if not change.openings:
        codes = ", ".join(dict.fromkeys(str(reason.code) for reason in decision.reasons))
        told = f"{change.node} takes no work yet, uncordoned or not: {codes}"
        return ReviewAnswer(is_allowed=True, warnings=(_cut(told, WARNING_LENGTH),))
    shown = "; ".join(reason.message for reason in decision.reasons[:REASONS_SHOWN])
    left = len(decision.reasons) - REASONS_SHOWN
    more = f"; and {left} more" if left > 0 else ""
    return ReviewAnswer(
        is_allowed=False, message=f"{change.node} is not admitted, so {_what_stays(change)}: {shown}{more}"
    )


def answer_without_decision(change: NodeChange, why: str) -> ReviewAnswer:
    """Say the same while nobody can decide: what would open a node is refused, everything else goes on."""
    if not change.openings:
        return LET_BE
    told = f"nobody can say whether {change.node} is admitted, so {_what_stays(change)}: {why}"
    return ReviewAnswer(is_allowed=False, message=told)


def _what_stays(change: NodeChange) -> str:
    return " and ".join(_WHAT_STAYS[opening] for opening in change.openings)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
