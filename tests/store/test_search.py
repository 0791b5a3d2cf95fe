# SPDX-License-Identifier: Apache-2.0
"""Is a list found through an index, by whatever it is filtered?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from registry.store import history, search
from registry.store.database import Database, Snapshot
from registry.store.filters import Column, Sort
from registry.store.search import Slice
from tests.clock import NOON
from tests.store.drafts import ALICE, write_events

PART = Slice(limit=100, after=None, newest_first=True)
HANDFUL = {"target_kind", "scope", "match", "release_policy", "review_due"}
"""Words of holds that are few, and what depends on the time: holds are few enough to look through."""
SELDOM = {"count", "attached", "reported_at", "confidence", "revision", "token"}
"""Nobody looks for these alone; and the last is written by every report, which an index more would slow down."""

LISTS: dict[str, tuple[Callable[..., Any], Mapping[str, Column], str]] = {
    "device": (lambda s, f, now: search.list_devices(s, f, PART, now), search.DEVICE_FIELDS, "d"),
    "failure": (lambda s, f, _: search.list_failures(s, f, PART), search.FAILURE_FIELDS, "f"),
    "quarantine": (lambda s, f, now: search.list_holds(s, f, PART, now), search.HOLD_FIELDS, "q"),
    "conflict": (lambda s, f, _: search.list_conflicts(s, f, PART), search.CONFLICT_FIELDS, "c"),
    "node": (lambda s, f, _: search.list_nodes(s, f, PART), search.NODE_FIELDS, "n"),
    "job_failure": (lambda s, f, _: search.list_job_failures(s, f, PART), search.JOB_FAILURE_FIELDS, "j"),
    "repair": (lambda s, f, _: search.list_repairs(s, f, PART), search.REPAIR_FIELDS, "r"),
}
STRETCH = {"since": NOON, "until": NOON + timedelta(hours=1)}
ALICE_DID = {"actor": ALICE}
OF_TYPE = {"types": ["node.registered"]}
OF_NODE = {"subjects": [("node", "node-1")]}
HISTORY: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("sqlite_autoindex_event_1", {}),
    "one": ("sqlite_autoindex_event_1", {"sequence": 2}),
    "stretch": ("event_at", STRETCH),
    "type": ("event_type", OF_TYPE),
    "type in a stretch": ("event_type_at", {**OF_TYPE, **STRETCH}),
    "actor": ("event_actor", ALICE_DID),
    "actor in a stretch": ("event_actor", {**ALICE_DID, **STRETCH}),
    "subject": ("sqlite_autoindex_event_subject_1", OF_NODE),
    "subject in a stretch": ("sqlite_autoindex_event_subject_1", {**OF_NODE, **STRETCH}),
}
"""What of the history may be asked for, and the index that it is walked along."""
POSTGRESQL = {"sqlite_autoindex_event_1": "event_pkey", "sqlite_autoindex_event_subject_1": "event_subject_pkey"}

CASES = [
    (noun, name)
    for noun, (_, fields, _) in LISTS.items()
    for name in fields
    if name not in HANDFUL | SELDOM and (noun, name) != ("conflict", "device")
]


@pytest.fixture
def plan(db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Tell how the engine would go about what a query asks; PostgreSQL, if it could neither scan a table nor sort.

    It reads a table of three rows whole unless that is forbidden; what matters is that an index can do without.
    """

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
            sql, params = asked[-1]
            explaining = "EXPLAIN QUERY PLAN" if db.engine == "sqlite" else "EXPLAIN"
            for name in ("seqscan", "bitmapscan", "sort") if db.engine == "postgresql" else ():
                snapshot.execute(f"SET LOCAL enable_{name} = off")
            return [row[-1] for row in snapshot.all(f"{explaining} {sql}", params)]

    return explain


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("noun", "name"), CASES)
def test_a_filter_goes_through_an_index(plan: Callable[..., list[str]], now: datetime, noun: str, name: str) -> None:
    ask, fields, table = LISTS[noun]
    text = {Sort.TIME: "2026-11-29T12:00:00Z..", Sort.FLAG: "true", Sort.NUMBER: "7", Sort.SIGNED: "7"}.get(
        fields[name].sort, "x"
    )

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
@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("name", HISTORY)
def test_a_history_is_walked_along_an_index_in_its_own_order(
    plan: Callable[..., list[str]], name: str, *, newest_first: bool
) -> None:
    index, asked = HISTORY[name]

    steps = plan(lambda snapshot: history.page_events(snapshot, **asked, newest_first=newest_first))

    assert index in steps[0], steps
    assert "SEARCH" in steps[0] or name == "all", steps
    assert not [step for step in steps if "TEMP B-TREE" in step], steps


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", HISTORY)
def test_a_history_is_walked_along_it_on_postgresql_too(plan: Callable[..., list[str]], name: str) -> None:
    index, asked = HISTORY[name]

    steps = "\n".join(plan(lambda snapshot: history.page_events(snapshot, **asked)))

    assert POSTGRESQL.get(index, index) in steps, steps
    assert "Index Cond" in steps or name == "all", steps
    assert "Sort" not in steps, steps


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_page_of_a_stretch_of_time_begins_where_the_one_before_it_ended(
    plan: Callable[..., list[str]], db: Database, now: datetime, *, newest_first: bool
) -> None:
    write_events(db, now, 3)
    key = {"before": 2} if newest_first else {"after": 2}

    steps = plan(lambda snapshot: history.page_events(snapshot, **STRETCH, **key, newest_first=newest_first))

    assert f"(at,sequence){'<' if newest_first else '>'}(?,?)" in steps[0], steps
