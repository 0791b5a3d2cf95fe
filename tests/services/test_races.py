# SPDX-License-Identifier: Apache-2.0
"""When threads race through the services: does each hold bind, is there one winner, is a decision of one moment?"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.actors import SYSTEM, Actor, ActorKind
from registry.domain.errors import NotOpen
from registry.services import audit, history, life
from registry.services.admission import preview
from registry.services.devices import show_device
from registry.services.holding import end
from registry.services.nodes import show_node
from registry.services.pages import PageRequest
from registry.services.sweep import sweep
from registry.store import holds
from registry.store.database import Snapshot
from registry.store.holds import HoldRecord
from tests.fleet import Fleet, gpu, serial, uuid
from tests.racing import together

RACERS = 8
ROUNDS = 12
SECONDS = 1.0


def types(fleet: Fleet, node: str = "node-a") -> Counter[str]:
    page = history.node_history(fleet.db, node, {}, PageRequest(1000, None, newest_first=False))
    return Counter(event["type"] for event in page.items)


def operators(count: int) -> list[Actor]:
    return [Actor(ActorKind.OPERATOR, f"operator-{number}") for number in range(count)]


def chain_holds(fleet: Fleet) -> bool:
    return bool(audit.verify(fleet.db)["ok"])


@pytest.mark.parametrize(
    "names", [lambda n: ("serial", serial(n)), lambda n: ("uuid", uuid(n))], ids=["serial", "uuid"]
)
@pytest.mark.parametrize("scope", [None, "unit"])
def test_a_hold_on_an_unseen_identifier_binds_however_the_first_report_races_with_it(
    fleet: Fleet, names: Callable[[int], tuple[str, str]], scope: str | None
) -> None:
    for number in range(ROUNDS):
        type_, value = names(number)
        target = {"identifier": {"kind": "gpu", "type": type_, "value": value}}
        node = f"node-{number}"

        works: Sequence[Callable[[], Any]] = (
            lambda: fleet.hold(target, scope=scope),  # noqa: B023 - done before the next round
            lambda: fleet.report(node, [gpu(number)], instance=f"i-{number}"),  # noqa: B023
        )
        ((item,), _) = together(*(works if number % 2 else works[::-1]))[:: 1 if number % 2 else -1]

        shown = show_device(fleet.db, serial(number), now=fleet.clock.now)
        assert item["outcome"] == "opened"
        assert "device_quarantined" in fleet.codes(node)
        assert shown["state"] == "quarantined"
        (hold,) = [one for one in fleet.open_holds() if one["id"] == item["quarantine"]["id"]]
        assert hold["devices"] == [shown["id"]]
    assert chain_holds(fleet)


def test_a_gpu_held_while_it_moves_is_refused_where_it_arrives(fleet: Fleet) -> None:
    for number in range(ROUNDS):
        old, new = f"old-{number}", f"new-{number}"
        fleet.report(old, [gpu(number)], instance=f"i-old-{number}")

        together(
            lambda: fleet.hold({"device": serial(number)}),  # noqa: B023 - done before the next round
            lambda: fleet.report(new, [gpu(number)], instance=f"i-new-{number}"),  # noqa: B023
            lambda: fleet.report(old, [], covers=frozenset({"gpu"}), instance=f"i-old-{number}"),  # noqa: B023
        )

        assert "device_quarantined" in fleet.codes(new)
        assert "device_quarantined" not in fleet.codes(old)
    assert chain_holds(fleet)


def test_one_owner_opens_one_hold_under_whichever_name_the_gpu_is_held(fleet: Fleet) -> None:
    fleet.report()
    targets = (
        {"device": serial(0)},
        {"device": uuid(0)},
        {"identifier": {"kind": "gpu", "type": "serial", "value": serial(0)}},
        {"identifier": {"kind": "gpu", "type": "uuid", "value": uuid(0), "vendor": "nvidia"}},
    )

    items = together(*(lambda target=target: fleet.hold(target)[0] for target in targets * 2))

    assert Counter(item["outcome"] for item in items) == {"opened": 1, "already_open": 7}
    assert len({item["quarantine"]["id"] for item in items}) == 1
    assert types(fleet)["quarantine.opened"] == 1


def test_each_owner_has_a_hold_of_their_own_and_all_must_let_go(fleet: Fleet) -> None:
    fleet.admit()
    owners = operators(RACERS)
    held = together(*(lambda one=one: fleet.hold({"device": serial(0)}, by=one)[0] for one in owners))

    *most, last = [item["quarantine"]["id"] for item in held]
    together(*(lambda one=one: fleet.release(one) for one in most))
    with_one_left = fleet.codes()
    fleet.release(last)

    assert {item["outcome"] for item in held} == {"opened"}
    assert "device_quarantined" in with_one_left
    assert "device_quarantined" not in fleet.codes()
    assert types(fleet)["quarantine.released"] == RACERS


def test_of_many_who_release_one_hold_one_does(fleet: Fleet) -> None:
    fleet.report()
    (item,) = fleet.hold({"device": serial(0)})

    def release() -> str:
        try:
            return str(fleet.release(item["quarantine"]["id"])["state"])
        except NotOpen:
            return "not_open"

    assert Counter(together(*[release] * RACERS)) == {"released": 1, "not_open": RACERS - 1}
    assert types(fleet)["quarantine.released"] == 1


def test_one_failure_told_by_many_is_recorded_once_and_holds_once(fleet: Fleet) -> None:
    fleet.admit()

    def tell() -> str:
        return str(fleet.fail("xid_79", device=serial(0), failure_id="the-same")["outcome"])

    assert Counter(together(*[tell] * RACERS)) == {"recorded": 1, "already_recorded": RACERS - 1}
    told = types(fleet)
    assert (told["failure.recorded"], told["quarantine.opened"], told["passes.reset"]) == (1, 1, 1)


def test_one_fault_told_under_many_ids_at_once_is_counted_and_holds_once(fleet: Fleet) -> None:
    fleet.report()

    items = together(*[lambda: fleet.fail("xid_79", device=serial(0))] * RACERS)

    assert {item["outcome"] for item in items} == {"recorded"}
    assert types(fleet)["failure.recorded"] == RACERS
    assert sorted(item["failure"]["count"] for item in items) == list(range(1, RACERS + 1))
    assert [hold["owner"] for hold in fleet.open_holds()] == ["rule:xid_79"]


@pytest.mark.parametrize("is_known", [False, True], ids=["first", "unchanged"])
def test_one_report_that_comes_many_times_at_once_is_taken_once(fleet: Fleet, *, is_known: bool) -> None:
    if is_known:
        fleet.admit()
        fleet.clock.advance(31)

    answers = together(*[lambda: fleet.report(report_id="the-same", body_digest="b")] * RACERS)

    assert Counter(answer["replayed"] for answer in answers) == {False: 1, True: RACERS - 1}
    assert len({str(answer["pass"]) for answer in answers}) == 1
    assert types(fleet)["pass.counted"] == (2 if is_known else 1)


def test_nodes_that_report_at_once_for_the_first_time_are_all_taken(fleet: Fleet) -> None:
    def first(number: int) -> bool:
        told = fleet.report(f"node-{number}", [gpu(4 * number + at, at=at) for at in range(4)], instance=f"i-{number}")
        return bool(told["pass"]["counted"])

    assert together(*(lambda n=n: first(n) for n in range(RACERS))) == [True] * RACERS
    assert chain_holds(fleet)


def test_one_gpu_that_two_nodes_list_at_once_is_placed_on_one_and_admitted_on_none(fleet: Fleet) -> None:
    for name in ("node-a", "node-b"):
        together(*[lambda name=name: fleet.report(name, [gpu(0)], instance=name, profile="g5.xlarge")] * 2)

    for _ in range(ROUNDS):
        fleet.clock.advance(31)
        together(
            *(
                lambda name=name: fleet.report(name, [gpu(0)], instance=name, profile="g5.xlarge")
                for name in ("node-a", "node-b")
            )
        )

    assert [fleet.decide(name).admitted for name in ("node-a", "node-b")] == [False, False]
    assert "identity_conflict" in fleet.codes("node-a")
    assert "identity_conflict" in fleet.codes("node-b")
    assert chain_holds(fleet)


def test_no_report_and_no_reader_sees_a_node_admitted_while_a_hold_passes_from_gpu_to_gpu(fleet: Fleet) -> None:
    fleet.admit()
    (item,) = fleet.hold({"device": serial(0)})
    over = threading.Event()
    seen: Counter[bool] = Counter()

    def read() -> None:
        while not over.is_set():
            seen[fleet.decide().admitted] += 1

    def report() -> None:
        while not over.is_set():
            seen[fleet.report()["admission"]["admitted"]] += 1

    def pass_on(hold: str) -> None:
        until = time.monotonic() + SECONDS
        number = 0
        try:
            while time.monotonic() < until:
                number += 1
                (other,) = fleet.hold({"device": serial(number % 2)})
                fleet.release(hold)
                hold = other["quarantine"]["id"]
        finally:
            over.set()

    together(read, read, report, report, lambda: pass_on(item["quarantine"]["id"]))

    assert seen.keys() == {False}
    assert seen[False] > RACERS


@pytest.mark.parametrize(
    "ask",
    [
        lambda fleet: fleet.report()["admission"],
        lambda fleet: fleet.decide().to_json(),
        lambda fleet: preview(fleet.db, [{"node": "node-a"}], policy=fleet.policy, now=fleet.clock.now)[0],
        lambda fleet: show_node(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now)["admission"],
    ],
    ids=["an unchanged report", "a decision", "a preview", "a page"],
)
def test_what_is_told_is_of_one_moment(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Fleet], dict[str, Any]]
) -> None:
    """Told from two moments, it would miss a hold that passes from one GPU to another between two of its queries."""
    fleet.admit()
    fleet.report()
    held = [fleet.hold({"device": serial(0)})[0]["quarantine"]["id"]]
    reporter = threading.current_thread()
    get_holds = holds.get_holds

    def pass_on() -> None:
        (other,) = fleet.hold({"device": serial(len(held) % 2)})
        with fleet.db.write(fleet.clock.now) as tx:
            (old,) = get_holds(tx, held[-1:]).values()
            # Not a person's release: that would wait for the node's row, which the report has locked.
            end(tx, old, reason="its time is over", actor=SYSTEM)
        held.append(other["quarantine"]["id"])

    with ThreadPoolExecutor(1) as operators_desk:

        def between(snapshot: Snapshot, hold_ids: Iterable[str]) -> dict[str, HoldRecord]:
            if threading.current_thread() is reporter:
                # Whoever answers from one moment makes the operator wait: that is no mistake.
                wait([operators_desk.submit(pass_on)], timeout=0.3)
            return get_holds(snapshot, hold_ids)

        monkeypatch.setattr(holds, "get_holds", between)
        told = ask(fleet)

    assert not told["admitted"]
    assert "device_quarantined" in {reason["code"] for reason in told["reasons"]}
    assert len(held) > 1


def test_a_hold_that_ran_out_is_ended_once_by_all_who_sweep(fleet: Fleet) -> None:
    fleet.report()
    fleet.hold({"device": serial(0)}, release_policy="at_expiry", expires_at=fleet.clock.now + timedelta(seconds=60))
    fleet.clock.advance(61)

    together(*[lambda: sweep(fleet.db, now=fleet.clock.now)] * RACERS)

    assert types(fleet)["quarantine.released"] == 1


def test_one_outage_is_noted_once_by_all_workers_that_come_back(fleet: Fleet) -> None:
    life.beat(fleet.db, fleet.clock.now, fleet.policy)
    fleet.clock.advance(600)

    found = together(*[lambda: life.beat(fleet.db, fleet.clock.now, fleet.policy)] * RACERS)

    assert sum(outage is not None for outage in found) == 1
    page = PageRequest(1000, None, newest_first=False)
    resumed = history.list_events(fleet.db, {"type": "service.resumed"}, page)
    assert len(resumed.items) == 1
