# SPDX-License-Identifier: Apache-2.0
"""What does a round do with answers, with none, and with nodes that others change?"""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from registry.domain.node_naming import Naming
from registry.domain.taints import MANAGED_LABEL
from tests.kubernetes.bench import Bench, decision, unreachable
from tests.kubernetes.emulator import Asked, Emulator
from tests.kubernetes.nodes import BORN, FOREIGN
from tests.kubernetes.objects import Attempt, Denied, Document


@pytest.fixture
def bench(api: Emulator) -> Bench:
    return Bench(api)


def hold(bench: Bench, name: str, *codes: str) -> None:
    bench.pratique.decisions[name] = decision(name, "hold", *(codes or ("device_quarantined",)))


def writes(api: Emulator) -> list[str]:
    return [
        f"{one.verb} {one.resource}"
        for one in api.asked
        if one.verb not in {"get", "list"} and one.resource != "leases"
    ]


def test_while_pratique_is_away_no_taint_moves_and_the_condition_says_so_in_time(bench: Bench) -> None:
    bench.cluster.register("shut", BORN)
    hold(bench, "shut")
    bench.cluster.register("open")
    bench.turn()

    bench.pratique.fails = unreachable()
    bench.turn(30)
    assert bench.cluster.condition("open")["status"] == "True"
    bench.turn(40)

    for name, effects in (("shut", ["NoSchedule"]), ("open", [])):
        assert bench.cluster.effects(name) == effects
        told = bench.cluster.condition(name)
        assert (told["status"], told["reason"]) == ("Unknown", "NoDecision")
        assert "Connection refused" in told["message"]
    bench.pratique.fails = None
    bench.turn(40)
    assert bench.cluster.condition("open")["status"] == "True"


def test_a_node_born_while_pratique_is_away_stays_closed(bench: Bench) -> None:
    bench.pratique.fails = unreachable()
    bench.cluster.register("young", BORN)

    bench.turn()
    bench.turn(70)

    assert bench.cluster.effects("young") == ["NoSchedule"]
    assert bench.cluster.condition("young")["status"] == "Unknown"


@pytest.mark.parametrize(
    "answer",
    [
        {"admitted": True},
        {**decision("other", "admit")},
        {**decision("node-a", "admit"), "admitted": "yes"},
        {**decision("node-a", "admit"), "reasons": None},
    ],
    ids=["half", "of another node", "no yes or no", "no reasons"],
)
def test_what_is_no_decision_about_this_node_opens_nothing(bench: Bench, answer: dict[str, Any]) -> None:
    bench.cluster.register("node-a", BORN)
    bench.pratique.decisions["node-a"] = answer

    bench.turn()
    bench.turn(70)

    assert bench.cluster.effects("node-a") == ["NoSchedule"]
    assert bench.cluster.condition("node-a")["status"] == "Unknown"


@pytest.mark.parametrize(
    ("admitted", "disposition", "effects"),
    [(True, "hold", ["NoSchedule"]), (True, "elsewhere", ["NoSchedule"]), (False, "admit", ["NoSchedule"])],
)
def test_an_answer_that_contradicts_itself_closes_and_evicts_nobody(
    api: Emulator, admitted: bool, disposition: str, effects: list[str]
) -> None:
    bench = Bench(api, evicts=True)
    bench.cluster.register("node-a")
    bench.pratique.decisions["node-a"] = {**decision("node-a", disposition), "admitted": admitted}

    bench.turn()

    assert bench.cluster.effects("node-a") == effects


def test_a_settled_cluster_is_asked_about_and_not_written_to(bench: Bench) -> None:
    names = bench.admit(5)
    hold(bench, names[0])
    bench.turn(10)
    bench.api.asked.clear()

    for _ in range(12):
        bench.turn(10)

    assert bench.pratique.all_asked().count(names[1]) >= 12
    assert writes(bench.api) == []


def test_whoever_does_not_act_shows_no_nodes(bench: Bench) -> None:
    names = bench.admit(20)
    bench.silence(*names)
    bench.turn(10)
    assert "pratique_controller_silent_nodes_kept 20" in bench.controller.meters.text()

    bench.clock.advance(60)
    threading.Timer(0.2, bench.controller.bell.stop).start()
    bench.controller.run()

    shown = re.findall(
        r"^pratique_controller_(leader|nodes|silent_nodes_kept)\b", bench.controller.meters.text(), re.MULTILINE
    )
    assert shown == ["leader"]
    assert "pratique_controller_leader 0" in bench.controller.meters.text()


def test_a_taint_that_somebody_takes_off_a_held_node_is_back_before_the_node_is_due(bench: Bench) -> None:
    bench.cluster.register("node-a", FOREIGN)
    hold(bench, "node-a")
    bench.turn()

    bench.cluster.change_spec("node-a", taints=[FOREIGN])
    bench.turn(1)

    assert bench.cluster.taints("node-a") == [FOREIGN, BORN]


def test_anothers_cordon_and_uncordon_change_nothing(bench: Bench) -> None:
    """C100: whoever uncordons a node with a device on hold changes neither the hold nor our taint."""
    bench.cluster.register("node-a", unschedulable=True)
    hold(bench, "node-a")
    bench.turn()
    assert bench.cluster.node("node-a")["spec"]["unschedulable"] is True

    bench.cluster.change_spec("node-a", unschedulable=False)
    bench.turn(10)

    assert bench.cluster.effects("node-a") == ["NoSchedule"]
    assert bench.cluster.node("node-a")["spec"]["unschedulable"] is False


def test_nothing_of_a_round_outlives_it_that_a_recount_would_not_give(bench: Bench) -> None:
    """C101: after every step the marks are those that a controller without memory would set."""
    bench.cluster.register("node-a", BORN, FOREIGN)
    for disposition, codes in (
        ("admit", ()),
        ("hold", ("device_quarantined",)),
        ("admit", ()),
        ("drain", ("node_quarantined",)),
    ):
        bench.pratique.decisions["node-a"] = decision("node-a", disposition, *codes)
        bench.turn(10)
        before = bench.cluster.node("node-a")

        bench = bench.later()
        bench.turn(1)

        assert bench.cluster.node("node-a") == before


def test_a_controller_that_starts_re_fires_nothing(bench: Bench) -> None:
    """C103: a node that was held, released and admitted while nobody watched is just open."""
    names = bench.admit(3)
    heir = bench.later()
    bench.api.asked.clear()

    heir.turn(60)

    assert heir.closed() == []
    assert writes(bench.api) == []
    assert heir.pratique.all_asked()[-3:] == names


def test_worse_news_comes_through_and_better_news_of_one_cause_does_not_hide_it(api: Emulator) -> None:
    """C102: a drain after a hold evicts; that the first cause is gone does not lower it."""
    bench = Bench(api, evicts=True)
    bench.cluster.register("node-a")
    hold(bench, "node-a", "check_failing")
    bench.turn()
    assert bench.cluster.effects("node-a") == ["NoSchedule"]

    bench.pratique.decisions["node-a"] = decision("node-a", "drain", "device_quarantined", "check_failing")
    bench.turn(10)
    bench.pratique.decisions["node-a"] = decision("node-a", "drain", "device_quarantined")
    bench.turn(10)

    assert bench.cluster.effects("node-a") == ["NoExecute", "NoSchedule"]


def test_a_node_that_changed_under_the_patch_is_read_again(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)
    meddled: list[int] = []

    def meddle(asked: Asked) -> None:
        """Somebody adds a taint, and the kubelet writes its status, between our reading and our patch."""
        if asked.verb == "patch" and asked.resource == "nodes" and len(meddled) < 3:
            meddled.append(1)
            bench.cluster.beat("node-a")
            bench.cluster.change_spec("node-a", taints=[BORN, FOREIGN])

    bench.api.on_request.append(meddle)
    bench.turn()

    assert bench.cluster.taints("node-a") == [FOREIGN]
    assert "pratique_controller_conflicts_total 3" in bench.controller.meters.text()


def test_a_node_that_others_never_let_alone_waits_for_the_next_round(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)
    hook = bench.api.on_request.append
    hook(lambda asked: bench.cluster.beat("node-a") if (asked.verb, asked.resource) == ("patch", "nodes") else None)

    for _ in range(8):  # it is no refusal: each round begins anew
        bench.turn(10)
    assert bench.cluster.effects("node-a") == ["NoSchedule"]
    assert [about["status"] for said, about in bench.said if said == "a node could not be marked"] == [409]

    bench.api.on_request.clear()
    bench.turn(10)
    assert bench.cluster.effects("node-a") == []


def test_a_change_that_the_webhook_denies_is_told_and_tried_again(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)

    def deny(attempt: Attempt) -> None:
        if attempt.resource == "nodes" and not attempt.subresource:
            raise Denied("node-a is not admitted")

    bench.api.objects.before_update.append(deny)
    bench.turn()
    assert bench.cluster.effects("node-a") == ["NoSchedule"]
    assert any("not admitted" in str(about.get("detail")) for _, about in bench.said)

    bench.api.objects.before_update.clear()
    bench.turn(10)
    assert bench.cluster.effects("node-a") == []


def test_the_machine_that_takes_over_a_name_is_judged_by_an_answer_of_its_own(bench: Bench) -> None:
    """C97: the Node is registered anew between our question and our patch; the old answer is not for it."""
    bench.cluster.register("node-a", BORN)
    born_again: list[Document] = []

    def replace(asked: Asked) -> None:
        if asked.verb == "patch" and not born_again:
            bench.api.objects.delete("nodes", "node-a")
            born_again.append(bench.cluster.register("node-a", BORN))

    bench.api.on_request.append(replace)
    bench.turn()
    assert bench.cluster.node("node-a") == born_again[0]

    hold(bench, "node-a", "node_unknown")
    bench.turn(1)
    assert bench.cluster.effects("node-a") == ["NoSchedule"]
    assert bench.cluster.condition("node-a")["reason"] == "NodeUnknown"


def test_the_condition_of_a_node_is_not_written_on_the_one_that_follows_it(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)
    born_again: list[Document] = []

    def replace(asked: Asked) -> None:
        if (asked.verb, asked.resource) == ("patch", "nodes/status") and not born_again:
            bench.api.objects.delete("nodes", "node-a")
            born_again.append(bench.cluster.register("node-a", BORN))

    bench.api.on_request.append(replace)
    bench.turn()

    assert bench.cluster.node("node-a") == born_again[0]


def test_a_node_that_is_gone_is_forgotten_and_nothing_is_said_to_pratique(bench: Bench) -> None:
    names = bench.admit(2)
    bench.api.objects.delete("nodes", names[0])
    bench.pratique.all_asked()

    bench.turn(10)

    assert bench.pratique.all_asked() == [names[1]]


def test_a_node_whose_label_goes_is_left_as_it_is(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)
    hold(bench, "node-a")
    bench.turn()

    def unlabel(old: Document) -> Document:
        labels = {name: value for name, value in old["metadata"]["labels"].items() if name != MANAGED_LABEL}
        return {**old, "metadata": {**old["metadata"], "labels": labels}}

    bench.api.objects.update("nodes", "node-a", unlabel)
    left = bench.cluster.node("node-a")
    del bench.pratique.decisions["node-a"]
    bench.turn(10)

    assert bench.cluster.node("node-a") == left


@pytest.mark.parametrize(
    ("way", "spec", "labels", "name"),
    [
        ("name", {}, {}, "node-a"),
        ("providerID", {"providerID": "aws:///us-east-1a/i-0abc"}, {}, "i-0abc"),
        ("label:example.com/host", {}, {"example.com/host": "rack-7"}, "rack-7"),
        ("providerID", {}, {}, None),
        ("label:example.com/host", {}, {}, None),
        ("label:example.com/host", {}, {"example.com/host": ""}, None),
    ],
)
def test_the_name_at_pratique_is_found_where_it_was_told(
    api: Emulator, way: str, spec: dict[str, str], labels: dict[str, str], name: str | None
) -> None:
    bench = Bench(api, Naming(way))
    bench.cluster.register("node-a", BORN, labels={MANAGED_LABEL: "true", **labels}, **spec)

    bench.turn()

    assert bench.pratique.all_asked() == ([name] if name else [])
    assert bench.cluster.condition("node-a")["reason"] == ("Admitted" if name else "NoName")
    assert bench.cluster.effects("node-a") == ([] if name else ["NoSchedule"])


def test_two_nodes_of_one_name_are_opened_by_no_answer(api: Emulator) -> None:
    bench = Bench(api, Naming("label:host"))
    for node in ("node-a", "node-b"):
        bench.cluster.register(node, BORN, labels={MANAGED_LABEL: "true", "host": "same"})

    bench.turn()

    assert bench.pratique.all_asked() == []
    assert bench.closed() == ["node-a", "node-b"]
    assert "same" in bench.cluster.condition("node-a")["message"]


def test_whoever_lost_the_lease_writes_nothing(bench: Bench) -> None:
    bench.cluster.register("node-a", BORN)
    bench.controller.lease.step()
    bench.watcher.list()
    bench.clock.advance(11)
    assert not bench.controller.lease.is_held()
    bench.api.asked.clear()

    bench.round()

    assert writes(bench.api) == []
    assert bench.cluster.effects("node-a") == ["NoSchedule"]
