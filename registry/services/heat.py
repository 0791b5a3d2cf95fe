# SPDX-License-Identifier: Apache-2.0
"""Do the readings of a node's GPUs say that one is hotter than its neighbours, and for how long by now?

What is hot is kept in `NodeState.listed` by the place in the list: `hot` maps it to the name, the identity, and the
times at which the GPU went above each margin; `models` is there only when the GPUs are not all of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from registry.domain.glance import Glance
from registry.domain.heat import Gpu, Times, compare
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, Kind, Reading
from registry.store.database import Transaction, from_micros, to_micros
from registry.store.lines import lines_of
from registry.store.nodes import NodeState


def judge(tx: Transaction, state: NodeState, covers: frozenset[str], policy: Policy) -> tuple[CheckResult, ...]:
    """Compare the GPUs of the list that was just taken, and keep what is hot for the next look."""
    listed = state.listed.get(Kind.GPU)
    if Kind.GPU not in covers or listed is None:
        return ()
    lines = lines_of(tx, state.node_id).get(Kind.GPU, [])
    cards = [(_name(line), " ".join(line[name] or "-" for name in ("slot", "uuid", "serial"))) for line in lines]
    models = [None if line["model"] is None else f"{line['vendor']} {line['model']}" for line in lines]
    since = {identity: _times(kept) for _, identity, *kept in listed.get("hot", {}).values()}
    gpus = [
        Gpu(identity, name, model, readings)
        for (name, identity), model, readings in zip(cards, models, state.readings[Kind.GPU], strict=True)
    ]
    verdict = compare(gpus, since, policy, tx.now)
    listed["hot"] = {
        str(at): [*card, *(time and to_micros(time) for time in verdict.since[card[1]])]
        for at, card in enumerate(cards)
        if card[1] in verdict.since
    }
    listed["models"] = models if len(set(models)) > 1 or None in models else []
    return verdict.results


def unchanged(
    state: NodeState, seen: Glance, covers: frozenset[str], policy: Policy, now: datetime
) -> tuple[CheckResult, ...] | None:
    """Compare the GPUs of a list that is known; None when that changes what is hot, which has to be kept then."""
    listed = state.listed.get(Kind.GPU)
    if Kind.GPU not in covers or listed is None:
        return ()
    hot: Mapping[str, list[Any]] = listed.get("hot", {})
    readings = [read for kind, read in zip(seen.kinds or (), seen.readings, strict=True) if kind == Kind.GPU]
    since = {at: _times(kept) for at, (_, _, *kept) in hot.items()}
    verdict = compare(_by_place(readings, hot, listed.get("models", [])), since, policy, now)
    return verdict.results if verdict.since == since else None


def _by_place(
    readings: Sequence[Mapping[str, Reading]], hot: Mapping[str, list[Any]], models: Sequence[str | None]
) -> list[Gpu]:
    """The GPUs of a known list. Only what is hot already needs a name: what becomes so is looked at in full."""
    return [
        Gpu(str(at), hot[str(at)][0] if str(at) in hot else None, models[at] if models else "", read)
        for at, read in enumerate(readings)
    ]


def _name(line: Mapping[str, Any]) -> str | None:
    name: str | None = line["slot"] or line["uuid"] or line["serial"]
    return name


def _times(kept: Sequence[int | None]) -> Times:
    warm, fierce = (None if micros is None else from_micros(micros) for micros in kept)
    return warm, fierce
