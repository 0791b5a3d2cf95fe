# SPDX-License-Identifier: Apache-2.0
"""Can a person work through what is kept out: see it, narrow it, and act on one or many of its lines?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from flask import Flask

from api.console import queue
from api.context import standing
from registry.services.quarantine import list_quarantines
from registry.services.queue_view import Filters, list_queue
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import EVERYTHING, Fleet, serial, uuid
from tests.services.test_queue import withhold_one


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """The records of the application, as nodes and operators meet them: one node, two of whose GPUs are held."""
    known = Fleet(standing(app).database, clock)
    known.admit()
    known.hold({"device": uuid(1)}, reason="fell <off> the bus", cause="hardware", ticket="OPS-7")
    known.hold({"device": uuid(2)}, reason="too hot", cause="driver", review_at=clock.now + timedelta(minutes=1))
    clock.advance(7200)
    return known


def ids(fleet: Fleet, *numbers: int) -> list[str]:
    items = list_queue(fleet.db, Filters(), EVERYTHING, policy=fleet.policy, now=fleet.clock.now).items
    return [one.id for one in items if one.named in {serial(number) for number in numbers}]


def held(fleet: Fleet) -> int:
    return len(fleet.open_holds())


def test_an_empty_queue_explains_itself(operator: Visitor) -> None:
    assert "Nothing is in quarantine, and the breaker withholds nothing." in operator.page("/console/queue")


def test_each_line_says_what_is_held_by_whom_and_what_comes_next(operator: Visitor, fleet: Fleet) -> None:
    shown = operator.page("/console/queue")
    assert "2 held · 0 withheld by the breaker · 1 overdue for review" in shown
    for words in (serial(1), "in node-a", "fell <off> the bus", "operator:alice", "OPS-7", "Record the failure"):
        assert words in shown
    assert "1 of 5 missing: failure record, kernel log or Xid, DCGM diagnostic, second slot or node" in shown
    assert "overdue" in shown
    assert "Review overdue since" in shown
    assert shown.index(serial(1)) < shown.index(serial(2))


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ("cause=hardware", {1}),
        ("owner=operator:alice&cause=driver", {2}),
        ("node=node-a", {1, 2}),
        ("ticket=OPS-7", {1}),
        ("overdue=true", {2}),
        ("model=nothing", set()),
        ("what=withheld", set()),
        ("cause=hardware&owner=&node=", {1}),
    ],
)
def test_filters_stand_in_the_address(operator: Visitor, fleet: Fleet, asked: str, numbers: set[int]) -> None:
    shown = operator.page(f"/console/queue?{asked}")
    assert {number for number in (1, 2) if serial(number) in shown} == numbers
    if not numbers:
        assert "Nothing that is kept out fits these filters." in shown


def test_a_filter_that_there_is_not_is_a_page_that_says_so(operator: Visitor, fleet: Fleet) -> None:
    assert operator.get("/console/queue?what=lost").status_code == 422
    assert operator.get("/console/queue?colour=red").status_code == 422


def test_pages_are_walked_by_a_cursor(operator: Visitor, fleet: Fleet) -> None:
    first = operator.get("/console/queue?limit=1")
    assert serial(1) in first.text
    assert serial(2) not in first.text
    onward = first.text.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    second = operator.page(onward)
    assert serial(2) in second
    assert "Next page" not in second


def test_no_more_lines_are_shown_than_can_be_ticked_at_once(
    operator: Visitor, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "LINES", 1)
    for asked in ("", "?limit=100"):
        shown = operator.get(f"/console/queue{asked}").text
        assert shown.count("<tr data-item>") == 1
        assert "Next page" in shown


def test_one_line_is_released_by_its_serial_and_a_reason(operator: Visitor, fleet: Fleet) -> None:
    (mine,) = ids(fleet, 1)
    asked = operator.page(f"/console/queue/selected?id={mine}&do=release")
    assert f"Type the name {serial(1)} again" in asked
    form = {"id": mine, "do": "release", "reason": "reseated", "retyped": serial(1)}
    assert f"{serial(1)} was released." in operator.act("/console/queue/release", form)
    assert held(fleet) == 1
    (released,) = list_quarantines(fleet.db, {"state": "released"}, EVERYTHING, now=fleet.clock.now).items
    assert (released["released_by"], released["release_reason"]) == ("operator:alice", "reseated")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"retyped": "1"}, "typed again is not 2"),
        ({"reason": ""}, "reason is empty"),
        ({"id": []}, "tick at least one line"),
    ],
)
def test_what_is_not_meant_or_not_explained_is_not_done(
    operator: Visitor, fleet: Fleet, wrong: dict[str, str], said: str
) -> None:
    form = {"id": ids(fleet, 1, 2), "do": "release", "reason": "kept <as> typed", "retyped": "2", **wrong}
    answer = operator.post("/console/queue/release", form)
    assert answer.status_code == 422
    assert said in words_of(answer)
    assert held(fleet) == 2
    if "retyped" in wrong:
        assert "kept &lt;as&gt; typed" in answer.text


def test_several_are_released_by_their_number_and_each_is_answered(
    operator: Visitor, admin: Visitor, fleet: Fleet
) -> None:
    fleet.hold({"device": uuid(3)}, reason="burnt", permanent=True)
    chosen = ids(fleet, 1, 2, 3)
    form = {"id": chosen, "do": "release", "reason": "all tested", "retyped": "3"}
    shown = words_of(operator.post("/console/queue/release", form))
    assert "2 of 3 released" in shown
    assert f"{serial(3)} ✕ refused" in shown
    assert "only the role admin may release it" in shown
    assert held(fleet) == 1
    last = {**form, "id": ids(fleet, 3), "retyped": serial(3)}
    assert "was released" in admin.act("/console/queue/release", last)


def test_what_was_released_meanwhile_is_said(operator: Visitor, fleet: Fleet) -> None:
    chosen = ids(fleet, 1)
    fleet.release(chosen[0])
    answer = operator.get(f"/console/queue/selected?id={chosen[0]}&do=release")
    assert answer.status_code == 404
    assert "somebody released it meanwhile" in words_of(answer)


def test_what_is_gone_before_it_is_decided_is_left_out_and_said(
    operator: Visitor, admin: Visitor, fleet: Fleet
) -> None:
    first, second = ids(fleet, 1, 2)
    admin.act("/console/queue/release", {"id": first, "retyped": serial(1), "reason": "faster"})

    answer = operator.post("/console/queue/release", {"id": [first, second], "retyped": "2", "reason": "both"})

    assert answer.status_code == 422
    assert "1 left out Of what was ticked, so much is held no more: somebody released it" in words_of(answer)
    assert held(fleet) == 1


def test_an_act_with_nothing_ticked_leads_back_to_the_queue(operator: Visitor, fleet: Fleet) -> None:
    answer = operator.get("/console/queue/selected?do=release", headers={"Referer": "http://localhost/console/queue"})

    assert answer.status_code == 422
    assert "Nothing was ticked: tick at least one line of the queue." in words_of(answer)
    assert 'href="/console/queue">Back' in answer.text


def test_what_only_a_hold_waits_for_is_found_and_its_history_shown(operator: Visitor, fleet: Fleet) -> None:
    fleet.hold({"identifier": {"kind": "gpu", "type": "serial", "value": serial(77)}}, reason="on the list")

    found = operator.get(f"/console/search?q={serial(77)}")

    assert found.status_code == 303
    assert found.headers["Location"].startswith("/console/audit?quarantine=")
    assert "on the list" in operator.page(found.headers["Location"])


def test_several_get_a_new_date_and_ticket_at_once(operator: Visitor, fleet: Fleet) -> None:
    chosen = ids(fleet, 1, 2)
    assert "Set for 2 lines" in operator.page(f"/console/queue/selected?id={chosen[0]}&id={chosen[1]}&do=review")
    day = (fleet.clock.now + timedelta(days=7)).strftime("%Y-%m-%dT%H:%M")
    form = {"id": chosen, "do": "review", "reason": "asked the maker", "review_at": day, "ticket": "RMA-1"}
    assert "2 of 2 reviewed" in words_of(operator.post("/console/queue/review", form))
    assert {one["ticket"] for one in fleet.open_holds()} == {"RMA-1"}
    assert "0 overdue for review" in operator.page("/console/queue?ticket=RMA-1")


def test_a_review_that_sets_nothing_is_refused_line_by_line(operator: Visitor, fleet: Fleet) -> None:
    shown = words_of(operator.post("/console/queue/review", {"id": ids(fleet, 1), "reason": "looked"}))
    assert "0 of 1 reviewed" in shown
    assert "A review sets a new date, a ticket, or both." in shown


def test_an_auditor_sees_the_queue_and_no_way_to_change_it(auditor: Visitor, fleet: Fleet) -> None:
    shown = auditor.get("/console/queue")
    assert serial(1) in shown.text
    assert 'type="checkbox"' not in shown.text
    assert "Release…" not in shown.text
    assert auditor.get(f"/console/queue/selected?id={ids(fleet, 1)[0]}").status_code == 403
    assert auditor.post("/console/queue/release", {"id": ids(fleet, 1)}).status_code == 403


def test_a_form_of_another_site_changes_nothing(operator: Visitor, fleet: Fleet) -> None:
    form = {"id": ids(fleet, 1), "reason": "x", "retyped": serial(1)}
    assert operator.client.post("/console/queue/release", data=form).status_code == 403
    assert held(fleet) == 2


def test_what_is_held_without_a_device_has_its_name(operator: Visitor, fleet: Fleet) -> None:
    fleet.hold({"node": "node-a"}, {"identifier": {"kind": "gpu", "type": "serial", "value": serial(77)}})
    shown = operator.page("/console/queue?owner=operator:alice")
    assert "Node node-a" in shown
    assert serial(77) in shown
    assert "no device has shown this identifier yet" in shown


def test_what_the_breaker_withheld_is_held_by_a_persons_word(operator: Visitor, app: Flask, clock: Clock) -> None:
    fleet = Fleet(standing(app).database, clock)
    withhold_one(fleet)
    (mine,) = ids(fleet, 1)
    shown = operator.page("/console/queue?what=withheld")
    assert "▲ withheld" in shown
    assert "Decide: hold it, or let it go." in shown
    assert "Hold what is withheld…" in shown
    assert "The breaker limits rules, and never people" in operator.page(f"/console/queue/selected?id={mine}&do=hold")
    assert operator.post("/console/queue/hold", {"id": mine, "do": "hold"}).status_code == 422
    told = operator.act("/console/queue/hold", {"id": mine, "do": "hold", "reason": "sure of it", "ticket": "OPS-9"})
    assert f"{serial(1)} was held." in told
    assert "0 withheld by the breaker" in told
    assert "Hold what is withheld…" not in told
    assert "OPS-9" in operator.page("/console/queue?owner=operator:alice")


def test_only_what_can_be_done_is_asked_about(operator: Visitor, fleet: Fleet) -> None:
    assert operator.get(f"/console/queue/selected?id={ids(fleet, 1)[0]}&do=burn").status_code == 422
