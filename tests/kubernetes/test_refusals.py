# SPDX-License-Identifier: Apache-2.0
"""What does the controller do with an API server that is slow, busy, or does not let it write?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from registry.domain.taints import TAINT_KEY
from tests.kubernetes.bench import INTERVAL, Bench, decision
from tests.kubernetes.emulator import Asked, Emulator
from tests.kubernetes.nodes import BORN
from tests.kubernetes.objects import Attempt, Denied, Document, Refused

RIGHTS = {("get", "nodes"), ("list", "nodes"), ("patch", "nodes"), ("patch", "nodes/status")}
LEASES = {("get", "leases"), ("create", "leases"), ("update", "leases")}


@pytest.fixture
def bench(api: Emulator) -> Bench:
    return Bench(api)


def count(api: Emulator, verb: str, resource: str) -> int:
    return sum((one.verb, one.resource) == (verb, resource) for one in api.asked)


def in_boot(boot_id: str) -> Callable[[Document], Document]:
    return lambda old: {**old, "status": {**old["status"], "nodeInfo": {"bootID": boot_id}}}


def told(bench: Bench) -> list[Document]:
    return [about for said, about in bench.said if said == "a node could not be marked"]


def test_without_the_right_to_write_status_taints_are_kept_right_and_it_is_said_once(bench: Bench) -> None:
    bench.api.allowed = (RIGHTS | LEASES) - {("patch", "nodes/status")}
    bench.cluster.register("node-a", BORN)

    for _ in range(60):
        bench.turn(INTERVAL)
    assert bench.cluster.effects("node-a") == []
    assert [(one["part"], one["status"]) for one in told(bench)] == [("condition", 403)]
    assert count(bench.api, "patch", "nodes/status") < 35  # of 60 rounds: at last one in half a minute

    bench.pratique.decisions["node-a"] = decision("node-a", "hold", "device_quarantined")
    bench.turn(INTERVAL)
    assert bench.cluster.effects("node-a") == ["NoSchedule"]
    bench.api.allowed = None
    bench.turn(40)
    assert bench.cluster.condition("node-a")["reason"] == "DeviceQuarantined"


def test_a_wave_of_silence_is_met_also_where_no_condition_can_be_written(bench: Bench) -> None:
    names = bench.admit(20)
    bench.api.allowed = (RIGHTS | LEASES) - {("patch", "nodes/status")}

    for name in names:
        bench.silence(name)
        bench.turn(INTERVAL)
    bench.turn(INTERVAL)

    assert len(bench.closed()) == 2


def test_a_taint_that_may_not_be_written_keeps_the_condition_from_nothing(bench: Bench) -> None:
    names = bench.admit(1)

    def deny(attempt: Attempt) -> None:
        if attempt.resource == "nodes" and not attempt.subresource:
            raise Denied("taints are the business of others")

    bench.api.objects.before_update.append(deny)
    bench.pratique.decisions[names[0]] = decision(names[0], "hold", "device_quarantined")
    for _ in range(4):
        bench.turn(INTERVAL)

    assert bench.closed() == []
    assert bench.cluster.condition(names[0])["reason"] == "DeviceQuarantined"
    assert [one["part"] for one in told(bench)] == ["taints"]


def test_a_server_that_wants_to_be_left_alone_is_left_alone_for_all_nodes(bench: Bench) -> None:
    for number in range(20):
        bench.cluster.register(f"node-{number}", BORN)
    refusal = Refused(429, "TooManyRequests", "too many requests, please try again later", retry_after=15)

    def refuse(asked: Asked) -> None:
        if asked.verb == "patch":
            raise refusal

    bench.api.on_request.append(refuse)
    bench.turn()
    bench.turn(INTERVAL)
    assert count(bench.api, "patch", "nodes") == 1
    assert count(bench.api, "patch", "nodes/status") == 0

    bench.api.on_request.clear()
    bench.turn(INTERVAL)
    assert bench.closed() == []


def test_nobody_is_opened_by_an_answer_that_grew_old_while_the_server_was_slow(bench: Bench) -> None:
    names = [f"node-{number}" for number in range(8)]
    for name in names:
        bench.cluster.register(name, BORN)

    def dawdle(asked: Asked) -> None:
        if asked.verb == "patch":
            bench.clock.advance(3)
            bench.controller.lease.step()
            # What nobody knows yet: the last one is held from now on.
            bench.pratique.decisions[names[-1]] = decision(names[-1], "hold", "device_quarantined")

    bench.api.on_request.append(dawdle)
    bench.turn()
    assert 0 < len(bench.closed()) < len(names)
    for _ in range(8):
        bench.turn(INTERVAL)

    assert bench.closed() == [names[-1]]
    opened = [one for one in bench.said if one[0] == "taints changed" and one[1]["node"] == names[-1]]
    assert opened == []


def test_what_has_to_be_closed_comes_before_all_that_may_be_opened(bench: Bench) -> None:
    others = [f"node-{number}" for number in range(8)]
    for name in (*others, "the-last"):
        bench.cluster.register(name, BORN)
    bench.pratique.decisions |= {name: decision(name, "hold", "passes_insufficient") for name in others}
    bench.turn()
    assert bench.closed() == others
    bench.pratique.decisions = {"the-last": decision("the-last", "hold", "device_quarantined")}
    written: list[str] = []
    bench.api.on_request.append(lambda asked: written.append(asked.name) if asked.verb == "patch" else None)

    bench.turn(INTERVAL)

    assert bench.closed() == ["the-last"]
    assert written[0] == "the-last"


def test_a_node_that_boots_under_the_patch_is_not_opened_by_what_its_last_boot_earned(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)
    booted: list[str] = []

    def boot(asked: Asked) -> None:
        if (asked.verb, asked.resource) == ("patch", "nodes") and not booted:
            booted.append("b-2")
            bench.api.objects.update("nodes", "node-a", in_boot("b-2"), subresource="status")
            bench.pratique.decisions["node-a"] = decision("node-a", "hold", "passes_insufficient")

    bench.api.on_request.append(boot)
    bench.turn()
    assert bench.cluster.effects("node-a") == ["NoSchedule"]
    bench.round()

    assert bench.cluster.condition("node-a")["reason"] == "PassesInsufficient"
    assert [one[1]["node"] for one in bench.said if one[0] == "taints changed"] == []


def test_an_answer_of_the_api_server_brings_no_node_back_that_is_gone(bench: Bench) -> None:
    """The watch tells of the end before the answer to a patch is read."""
    names = bench.admit(2)
    late = bench.nodes.all()[names[0]]
    bench.nodes.remove(names[0])

    bench.nodes.update(late)

    assert list(bench.nodes.all()) == [names[1]]


def test_an_answer_of_the_api_server_hides_nothing_that_the_watch_told_meanwhile(bench: Bench) -> None:
    """A node boots while the answer to our patch is on its way; what comes last was written first."""
    names = bench.admit(1)
    written = bench.nodes.all()[names[0]]
    bench.api.objects.update("nodes", names[0], in_boot("b-2"), subresource="status")
    bench.watcher.list()

    bench.nodes.update(written)
    bench.nodes.update(replace(written, version="of another kind"))

    assert bench.nodes.all()[names[0]].boot_id == "b-2"


def test_a_node_that_lost_its_label_under_the_patch_is_ours_no_longer(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)

    def unlabel(asked: Asked) -> None:
        if (asked.verb, asked.resource) == ("patch", "nodes"):
            change = {"metadata": {**bench.cluster.node("node-a")["metadata"], "labels": {}}}
            bench.api.objects.update("nodes", "node-a", lambda old: {**old, **change})

    bench.api.on_request.append(unlabel)
    bench.turn()

    assert [one["key"] for one in bench.cluster.taints("node-a")] == [TAINT_KEY]
    assert bench.nodes.all() == {}
