# SPDX-License-Identifier: Apache-2.0
"""How often is Pratique asked, and how is it met when it does not answer?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from registry.client import NotAuthorised, ProblemAnswer
from registry.controller.asking import Asker
from registry.domain.times import rfc3339
from tests.clock import NOON
from tests.kubernetes.bench import Bench, ScriptedPratique, decision
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN


@pytest.fixture
def bench(api: Emulator) -> Bench:
    return Bench(api)


def test_a_node_is_asked_about_again_when_it_can_help_and_no_sooner(bench: Bench) -> None:
    at = rfc3339(NOON + timedelta(seconds=25))
    bench.cluster.register("node-a", BORN)
    bench.pratique.decisions["node-a"] = decision("node-a", "hold", "passes_insufficient", retry_at=at)
    bench.turn()
    bench.pratique.all_asked()

    bench.turn(24)
    assert bench.pratique.all_asked() == []
    bench.turn(4)
    assert bench.pratique.all_asked() == ["node-a"]


def test_a_node_that_waits_for_a_report_is_asked_about_as_often_as_any(bench: Bench) -> None:
    """Asking could help now, says the service, for as long as no report comes: of a dead rack that is for ever."""
    bench.cluster.register("node-a", BORN)
    reasons = ("report_stale", "passes_insufficient")
    bench.pratique.decisions["node-a"] = decision("node-a", "hold", *reasons, retry_at=rfc3339(NOON))
    bench.turn()
    bench.pratique.all_asked()

    for _ in range(60):
        bench.turn(1)

    assert 6 <= len(bench.pratique.all_asked()) <= 7


def test_nodes_that_came_one_by_one_are_asked_about_together(bench: Bench) -> None:
    for number in range(10):
        bench.cluster.register(f"node-{number}", BORN)
        bench.turn(0.7)
    bench.turn(10)
    bench.pratique.all_asked()

    for _ in range(120):
        bench.turn(0.5)

    assert len(bench.pratique.asked) <= 8
    asked = bench.pratique.all_asked()
    assert all(6 <= asked.count(f"node-{number}") <= 8 for number in range(10))


def test_a_pratique_that_wants_to_be_left_alone_is_left_alone(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)
    bench.pratique.fails = ProblemAnswer(503, {"code": "store_unavailable"})
    bench.pratique.fails.retry_after = 20.0
    bench.turn()
    bench.pratique.fails = None

    bench.turn(15)
    bench.cluster.register("node-b", BORN)
    bench.turn(1)
    assert bench.pratique.all_asked() == []
    bench.turn(5)
    assert sorted(bench.pratique.all_asked()) == ["node-a", "node-b"]


def test_a_time_far_away_does_not_keep_worse_news_out(bench: Bench) -> None:
    at = rfc3339(NOON + timedelta(hours=1))
    bench.cluster.register("node-a", BORN)
    bench.pratique.decisions["node-a"] = decision("node-a", "hold", "passes_insufficient", retry_at=at)
    bench.turn()
    bench.pratique.all_asked()

    bench.turn(34)

    assert bench.pratique.all_asked() == ["node-a"]


def test_a_token_that_was_replaced_is_read_again() -> None:
    class Strict(ScriptedPratique):
        def post(self, *path: str, body: Any) -> dict[str, Any]:
            if self.token != "new":
                raise NotAuthorised(401, {"code": "unauthenticated"})
            return super().post(*path, body=body)

    pratique = Strict()

    heard = list(Asker(pratique, lambda: "new").ask({"node-a": None}))  # type: ignore[arg-type]

    assert heard[0]["node-a"].answer.disposition == "admit"
    pratique.token = "old"
    with pytest.raises(NotAuthorised):
        list(Asker(pratique, lambda: "old").ask({"node-a": None}))  # type: ignore[arg-type]
