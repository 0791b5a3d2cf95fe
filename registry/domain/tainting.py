# SPDX-License-Identifier: Apache-2.0
"""Which of our taints should a Kubernetes Node bear, by what was decided about it? Those of other keys never change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from registry.domain.decision import Disposition, ReasonCode
from registry.domain.taints import TAINT_KEY, TaintEffect
from registry.domain.times import brief, parse_rfc3339

SILENCE_WINDOW = timedelta(minutes=2)
"""Nodes that fall silent within so long are taken to have one cause."""

SILENCE_PERCENT = 10
"""More of the managed nodes than this, silent together, are not so many broken machines: it is us, or the network."""

_FROM_SILENCE = frozenset({str(ReasonCode.REPORT_STALE), str(ReasonCode.PASSES_INSUFFICIENT)})
"""What silence alone brings about: passes lapse after fifteen minutes of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was decided about a node. `reasons` are codes, each with its sentence, in the order of the answer."""

    disposition: Disposition
    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def is_silence(self) -> bool:
        """Is nothing said against the node but that nobody hears of it?"""
        codes = {code for code, _ in self.reasons}
        return str(ReasonCode.REPORT_STALE) in codes and codes <= _FROM_SILENCE


class Keep(StrEnum):
    """Why the taints of a node stay as they are, whatever they are. The value is the reason of its condition."""

    NO_DECISION = "NoDecision"
    """Nobody decides: the service is away."""
    NO_NAME = "NoName"
    """It cannot be told which node of the service this is."""
    MASS_SILENCE = "MassSilence"
    """Too many nodes fell silent at once to believe that they are broken."""


def taints_after(
    taints: Sequence[Mapping[str, Any]],
    answer: Answer | None,
    *,
    evicts: bool,
    keep: Keep | None = None,
    now: datetime,
) -> list[dict[str, Any]] | None:
    """Return the taints that the node should bear, everybody's in their order; None when they are so already.

    `evicts`: a node to be drained shall lose its pods too. Without an answer, or with a reason to `keep`, nothing is
    changed. Taints of other keys are never touched, whoever wrote them.
    """
    if answer is None or keep is not None:
        return None
    wanted = _wanted(answer.disposition, evicts=evicts)
    left = [dict(one) for one in taints if one.get("key") != TAINT_KEY or one.get("effect") in wanted]
    there = {one.get("effect") for one in left if one.get("key") == TAINT_KEY}
    added = [_taint(effect, now) for effect in wanted if effect not in there]
    return [*left, *added] if added or len(left) != len(taints) else None


def _wanted(disposition: Disposition, *, evicts: bool) -> tuple[TaintEffect, ...]:
    if disposition is Disposition.ADMIT:
        return ()
    if disposition is Disposition.DRAIN and evicts:
        return (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
    return (TaintEffect.NO_SCHEDULE,)


def _taint(effect: TaintEffect, now: datetime) -> dict[str, Any]:
    """Only evictions are counted from a time: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/#NodeSpec."""
    since = {"timeAdded": brief(now)} if effect is TaintEffect.NO_EXECUTE else {}
    return {"key": TAINT_KEY, "effect": str(effect), **since}


def is_mass_silence(managed: int, fallen: int) -> bool:
    """Did too many of the managed nodes fall silent together to close them for it? One alone is never too many."""
    return fallen > max(1, managed * SILENCE_PERCENT // 100)


def fell_silent_lately(condition: Mapping[str, Any] | None, reason: str, now: datetime) -> bool:
    """Has the node's condition become bad for its silence (`reason`) within the window? It keeps what was done before.

    It is read from the node, so that whoever leads next knows it too.
    """
    if condition is None or condition.get("status") != "False" or condition.get("reason") != reason:
        return False
    try:
        since = parse_rfc3339(str(condition.get("lastTransitionTime")))
    except ValueError:
        return False
    return abs(now - since) <= SILENCE_WINDOW
