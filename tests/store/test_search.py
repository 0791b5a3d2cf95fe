# SPDX-License-Identifier: Apache-2.0
"""Is a list found through an index, by whatever it is filtered?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.store import history, search
from registry.store.database import Database, Snapshot
from registry.store.filters import Column, Sort
from registry.store.search import Slice

PART = Slice(limit=100, after=None, newest_first=True)
HANDFUL = {"target_kind", "scope", "match", "release_policy", "review_due"}
"""Words of holds that are few, and what depends on the time: holds are few enough to look through."""
SELDOM = {"count", "attached", "reported_at"}
"""Nobody looks for these alone; and the last is written by every report, which an index more would slow down."""

LISTS: dict[str, tuple[Callable[..., Any], Mapping[str, Column], str]] = {
    "device": (lambda s, f, now: search.list_devices(s, f, PART, now), search.DEVICE_FIELDS, "d"),
    "failure": (lambda s, f, _: search.list_failures(s, f, PART), search.FAILURE_FIELDS, "f"),
    "quarantine": (lambda s, f, now: search.list_holds(s, f, PART, now), search.HOLD_FIELDS, "q"),
    "conflict": (lambda s, f, _: search.list_conflicts(s, f, PART), search.CONFLICT_FIELDS, "c"),
    "node": (lambda s, f, _: search.list_nodes(s, f, PART), search.NODE_FIELDS, "n"),
}
CASES = [
    (noun, name)
    for noun, (_, fields, _) in LISTS.items()
    for name in fields
    if name not in HANDFUL | SELDOM and (noun, name) != ("conflict", "device")
]


@pytest.fixture
def plan(db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Tell how the engine would go about what a query asks."""

    def explain(ask: Callable[[Snapshot], Any]) -> list[str]:
        asked: list[tuple[str, Any]] = []
        real = Snapshot.all

        def noted(self: Snapshot, sql: str, params: Any = ()) -> Any:
            asked.append((sql, params))
            return real(self, sql, params)

        monkeypatch.setattr(Snapshot, "all", noted)
        with db.read() as snapshot:
            ask(snapshot)
            monkeypatch.setattr(Snapshot, "all", real)
            sql, params = asked[0]
            return [row[-1] for row in snapshot.all(f"EXPLAIN QUERY PLAN {sql}", params)]

    return explain


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("noun", "name"), CASES)
def test_a_filter_goes_through_an_index(plan: Callable[..., list[str]], now: datetime, noun: str, name: str) -> None:
    ask, fields, table = LISTS[noun]
    text = {Sort.TIME: "2026-11-29T12:00:00Z..", Sort.FLAG: "true", Sort.NUMBER: "7"}.get(fields[name].sort, "x")

    steps = plan(lambda snapshot: ask(snapshot, {name: text}, now))

    assert not [step for step in steps if step.startswith("SCAN") and "USING" not in step], steps
    assert steps[0].startswith(("SEARCH", f"SCAN {table} USING INDEX {noun}_{name}")), steps


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("state", ["quarantined", "conflict", "missing"])
def test_the_few_devices_of_a_state_are_found_without_looking_at_the_others(
    plan: Callable[..., list[str]], now: datetime, state: str
) -> None:
    steps = plan(lambda snapshot: search.list_devices(snapshot, {"state": state}, PART, now))

    assert "SCAN d" not in " ".join(steps), steps


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_an_actor_did_is_found_through_an_index(plan: Callable[..., list[str]]) -> None:
    actor = Actor(ActorKind.OPERATOR, "alice")

    steps = plan(lambda snapshot: history.page_events(snapshot, actor=actor))

    assert "event_actor" in steps[0], steps
