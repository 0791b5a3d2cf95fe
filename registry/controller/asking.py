# SPDX-License-Identifier: Apache-2.0
"""How does the controller learn what was decided? It asks about many nodes at once, and reads each answer strictly."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from registry.client import Client, NotAuthorised, ServerUnreachable, is_decision
from registry.domain.decision import Disposition
from registry.domain.tainting import Answer
from registry.domain.times import parse_rfc3339

BATCH = 500
"""Nodes in one question. The service takes 1,000; half of it is answered well within the time limit."""

RETRY_LEAST, RETRY_MOST = 0.5, 30.0
"""Seconds in which a time to ask again is believed: a node that waits for passes may also be put on hold meanwhile."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer. `again` is in how many seconds asking can help, None where the service names no time."""

    answer: Answer
    again: float | None


@dataclass(slots=True)
class Asker:
    """Asks one Pratique. `fresh_token` reads the token again when it is refused.

    `by_boot`: a node is admitted only in the boot that its kubelet tells of, so that neither a reboot nor another
    machine under its name is let in by what was reported before.
    """

    client: Client
    fresh_token: Callable[[], str | None] = lambda: None
    by_boot: bool = False

    def ask(self, boots: Mapping[str, str | None]) -> Iterator[dict[str, Heard]]:
        """Give the answers about nodes, named with their boots, batch by batch. Raises ClientError where one fails."""
        names = list(boots)
        for at in range(0, len(names), BATCH):
            yield self._batch({name: boots[name] if self.by_boot else None for name in names[at : at + BATCH]})

    def _batch(self, names: Mapping[str, str | None]) -> dict[str, Heard]:
        body = {"candidates": [{"node": name, **({"boot_id": boot} if boot else {})} for name, boot in names.items()]}
        try:
            told = self.client.post("admissions", body=body)
        except NotAuthorised:
            token = self.fresh_token()
            if token is None or token == self.client.token:
                raise
            self.client.token = token
            told = self.client.post("admissions", body=body)
        items = told.get("items")
        if not isinstance(items, list) or len(items) != len(names):
            raise ServerUnreachable(f"{self.client.url} answered with other decisions than it was asked for")
        return {name: self._heard(name, item) for name, item in zip(names, items, strict=True)}

    def _heard(self, name: str, decision: object) -> Heard:
        if not is_decision(decision) or not isinstance(decision, dict) or decision["node"] != name:
            raise ServerUnreachable(f"{self.client.url} answered with something that is no decision about {name}")
        reasons = tuple((str(one["code"]), str(one.get("message", ""))) for one in decision["reasons"])
        return Heard(Answer(_disposition(decision), reasons), _again(decision))


def _disposition(decision: Mapping[str, Any]) -> Disposition:
    """Read it so that a word nobody knows, or one that contradicts the rest, lets nobody in and drives nobody out."""
    if decision["admitted"]:
        return Disposition.ADMIT if decision["disposition"] == Disposition.ADMIT else Disposition.HOLD
    return Disposition.DRAIN if decision["disposition"] == Disposition.DRAIN else Disposition.HOLD


def _again(decision: Mapping[str, Any]) -> float | None:
    """Seconds until asking again can help, by the service's own clock, and a little by chance. None where it could help
    now: the service is not waited for, but a report that may never come.
    """
    try:
        times = [parse_rfc3339(str(one["retry_at"])) for one in decision["reasons"] if one.get("retry_at")]
        if not times:
            return None
        pause = (min(times) - parse_rfc3339(str(decision.get("decided_at")))).total_seconds()
    except ValueError:
        return None
    if pause <= 0:
        return None
    return min(max(pause, RETRY_LEAST), RETRY_MOST) * random.uniform(1.0, 1.1)  # noqa: S311 - spreads load
