# SPDX-License-Identifier: Apache-2.0
"""Does the page of a node say why it may not take work, what sits where, and what can be done?"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from flask import Flask

from api.context import standing
from registry.domain.reports import CheckResult, CheckStatus
from registry.services.nodes import show_node
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import Fleet, gpu, passing, serial

PAGE = "/console/nodes/node-a"


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """The fleet that the pages show."""
    return Fleet(standing(app).database, clock, standing(app).policy)


def test_an_admitted_node_says_so_with_every_slot(fleet: Fleet, operator: Visitor) -> None:
    fleet.admit()

    shown = operator.page(PAGE)

    assert "✓ Yes: admitted Nothing speaks against it." in shown
    assert "2 of 2 No further pass is needed" in shown
    assert "GPUs 4 of 4 listed." in shown
    for number in range(4):
        assert f"0000:{0x10 + number:02x}:00.0 ✓ in service …{serial(number)[-6:]}" in shown


def test_every_reason_is_told_in_words_with_what_to_do_next(fleet: Fleet, operator: Visitor) -> None:
    fleet.report()
    fleet.clock.advance(5)
    fleet.hold({"device": serial(1)}, reason="fell off twice")
    fleet.report(devices=map(gpu, range(3)))

    shown = operator.page(PAGE)

    decision = show_node(fleet.db, "node-a", policy=fleet.policy, now=fleet.clock.now)["admission"]
    assert len(decision["reasons"]) == 4
    assert "▲ No: hold 4 reasons speak against it. What runs on it may run on." in shown
    for reason in decision["reasons"]:
        wrong, _, next_step = reason["message"].partition(" Next: ")
        told = f"{reason['code']} {wrong} Next: {next_step}".replace("`", " ")
        assert " ".join(told.split()) in shown


def test_the_pass_counter_says_when_the_next_run_may_begin(fleet: Fleet, auditor: Visitor) -> None:
    fleet.report()
    fleet.clock.advance(10)
    assert (
        "✓ pass 1 ▲ pass 2 lacking 1 of 2 The next run that can count may begin 2026-11-29 12:00:30 UTC (in 20 s)"
        in auditor.page(PAGE)
    )
    fleet.clock.advance(20)
    assert "1 of 2 A run that begins now can count." in auditor.page(PAGE)


def test_conditions_say_how_much_tolerance_is_left(fleet: Fleet, auditor: Visitor) -> None:
    fleet.admit()
    fleet.clock.advance(31)
    fleet.report(devices=map(gpu, range(3)))
    fleet.clock.advance(60)

    told = re.search(
        r"gpu\.count ▲ problem 2026-11-29 12:01:01 UTC \(60 s ago\) (.+?) 3 of 4 listed", auditor.page(PAGE)
    )

    assert told is not None
    assert re.fullmatch(r"\d+ min: a failure .+ if it goes on", told[1])


def test_a_machine_that_took_over_a_name_begins_anew_beside_the_past_of_it(fleet: Fleet, auditor: Visitor) -> None:
    """C97, C105: the new one is not blocked by what the old one had, and starts without passes."""
    fleet.admit()
    fleet.hold({"device": serial(0)})
    fleet.clock.advance(31)
    fleet.report(devices=[gpu(20 + at, at=at) for at in range(4)], instance="i-2", boot="boot-2")

    shown = auditor.page(PAGE)

    assert "device_quarantined" not in shown
    assert "1 of 2" in shown
    assert f"0000:10:00.0 GPU {serial(0)} 61 s ago 0 s ago replaced no fault on record here ✕ quarantined" in shown
    assert "i-2 now" in shown
    assert "i-1" in shown


def test_what_people_and_tools_wrote_is_text_and_never_markup(fleet: Fleet, operator: Visitor) -> None:
    bad = "<script>alert(1)</script>"
    fleet.report(checks=(*passing("gpu.ecc"), CheckResult("gpu.xid", CheckStatus.FAIL, bad, bad, bad)), instance=bad)
    fleet.hold({"node": "node-a"}, reason=bad, ticket=bad)
    for path in (PAGE, f"{PAGE}/history"):
        assert bad not in operator.get(path).text
        assert "&lt;script&gt;" in operator.get(path).text


def test_an_auditor_sees_it_all_and_no_forms_but_the_way_out(fleet: Fleet, auditor: Visitor) -> None:
    fleet.report()
    fleet.hold({"node": "node-a"})
    text = auditor.get(PAGE).text
    assert re.findall(r'<form[^>]* action="([^"]+)" method="post"', text) == ["/console/logout"]
    assert auditor.post(f"{PAGE}/retire", {"reason": "x", "retyped": "node-a"}).status_code == 403


def test_a_node_that_nobody_knows_is_a_page_that_says_so(operator: Visitor) -> None:
    for path in ("/console/nodes/node-z", "/console/nodes/node-z/history"):
        answer = operator.get(path)
        assert answer.status_code == 404
        assert "No node named node-z has reported" in words_of(answer)


# --- the ways out -----------------------------------------------------------------------------------------------------


def test_maintenance_is_started_prolonged_and_ended(fleet: Fleet, operator: Visitor) -> None:
    fleet.admit()

    shown = operator.act(f"{PAGE}/maintenance", {"hours": "4", "reason": "new\r\nfirmware"})
    assert "node-a is in maintenance until 2026-11-29 16:00:30 UTC." in shown
    assert fleet.codes() == ["maintenance"]

    shown = operator.act(f"{PAGE}/maintenance", {"hours": "4", "until": "2026-11-30T06:00", "reason": "more"})
    assert "until 2026-11-30 06:00:00 UTC" in shown

    assert "has ended" in operator.act(f"{PAGE}/maintenance/end", {"reason": "done"})
    assert fleet.codes() == []


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"hours": "4"}, "reason is empty"),
        ({"hours": "5", "reason": "x"}, "hours must be 1 or 4 or 24 or 168"),
        ({"hours": "4", "until": "2026-11-29T11:00", "reason": "x"}, "until is over already"),
        ({"hours": "4", "until": "tomorrow", "reason": "x"}, "until must be a date and a time in UTC"),
    ],
)
def test_a_form_that_is_wrong_says_what_and_keeps_what_was_typed(
    fleet: Fleet, operator: Visitor, form: dict[str, str], words: str
) -> None:
    fleet.admit()

    answer = operator.post(f"{PAGE}/maintenance", {"form": "maintenance-", **form})

    assert answer.status_code == 422
    assert words in words_of(answer)
    assert fleet.codes() == []
    if "reason" in form:
        assert len(re.findall(r"<textarea[^>]*>x</textarea>", answer.text)) == 1
    assert len(re.findall(r"<details open>", answer.text)) == 1


def test_a_waiver_lets_fewer_be_enough_until_it_ends(fleet: Fleet, operator: Visitor) -> None:
    """C107: refused, admitted under the waiver, refused again when it ends; all in the history."""
    fleet.report()
    fleet.clock.advance(31)
    three = [gpu(at) for at in range(3)]
    fleet.admit(devices=three)
    assert fleet.codes() == ["device_missing", "check_failing", "passes_insufficient"]

    shown = operator.act(f"{PAGE}/waiver", {"kind": "gpu", "count": "3", "hours": "24", "reason": "spare is coming"})
    assert "3 GPU devices are enough on node-a until 2026-11-30" in shown
    assert "A waiver is in force: 3 GPU devices are enough until" in shown
    assert "GPUs 3 of 3 listed." in shown
    fleet.clock.advance(31)
    fleet.admit(devices=three)
    assert fleet.codes() == []

    assert "has ended" in operator.act(f"{PAGE}/waiver/end", {"kind": "gpu", "reason": "it has not come"})
    assert "device_missing" in fleet.codes()
    past = operator.page(f"{PAGE}/history")
    assert past.rindex("waiver.ended") < past.rindex("waiver.granted")


@pytest.mark.parametrize("count", ["-1", "1.5", "many", "99999"])
def test_a_waiver_takes_a_whole_number(fleet: Fleet, operator: Visitor, count: str) -> None:
    fleet.report()
    answer = operator.post(f"{PAGE}/waiver", {"kind": "gpu", "count": count, "hours": "4", "reason": "x"})
    assert "count must be a whole number from 0 to 1024" in words_of(answer)


def test_a_node_is_retired_by_whoever_types_its_name_again(fleet: Fleet, operator: Visitor) -> None:
    fleet.admit()

    answer = operator.post(f"{PAGE}/retire", {"reason": "given back", "retyped": "node-b"})
    assert (answer.status_code, fleet.codes()) == (422, [])
    assert "is not node-a: type it as it stands on the page" in words_of(answer)

    assert "node-a is retired" in operator.act(f"{PAGE}/retire", {"reason": "given back", "retyped": "node-a"})
    assert fleet.codes() == ["node_unknown"]
    assert "Retire this node" not in operator.page(PAGE)


def test_a_machine_is_held_and_released(fleet: Fleet, operator: Visitor) -> None:
    fleet.admit()
    why = {"reason": "smells of smoke", "cause": "hardware", "ticket": "OPS-1", "drain": "true"}
    form = {**why, "review_at": "2026-12-01T08:00", "retyped": "node-a"}

    shown = operator.act(f"{PAGE}/hold", form)
    assert "node-a is on hold." in shown
    assert "✕ No: drain" in shown
    (held,) = fleet.open_holds()
    assert (held["ticket"], held["cause"], held["owner"]) == ("OPS-1", "hardware", "operator:alice")
    assert "You hold this machine already." in operator.act(f"{PAGE}/hold", form | {"drain": ""} | {"reason": "again"})

    where = f"{PAGE}/holds/{held['id']}/release"
    assert operator.post(where, {"reason": "aired", "retyped": "node"}).status_code == 422
    assert "is released. New passes are needed." in operator.act(where, {"reason": "aired", "retyped": "node-a"})
    assert fleet.open_holds() == []
    assert fleet.codes() == ["passes_insufficient"]
    assert operator.post(where, {"reason": "aired", "retyped": "node-a"}).status_code == 409


def test_a_hold_on_a_device_is_released_by_its_serial(fleet: Fleet, operator: Visitor) -> None:
    fleet.admit()
    (item,) = fleet.hold({"device": serial(2)})
    where = f"{PAGE}/holds/{item['quarantine']['id']}/release"

    assert operator.post(where, {"reason": "aired", "retyped": "node-a"}).status_code == 422
    assert serial(2) in operator.act(where, {"reason": "aired", "retyped": serial(2)})
    assert fleet.open_holds() == []


def test_a_permanent_hold_is_left_to_an_administrator(fleet: Fleet, operator: Visitor, admin: Visitor) -> None:
    fleet.admit()
    (item,) = fleet.hold({"device": serial(2)}, permanent=True)
    where, form = f"{PAGE}/holds/{item['quarantine']['id']}/release", {"reason": "back", "retyped": serial(2)}

    assert operator.post(where, form).status_code == 403
    assert "is released" in admin.act(where, form)


# --- history ----------------------------------------------------------------------------------------------------------


def test_the_history_is_walked_page_by_page_the_newest_first(fleet: Fleet, auditor: Visitor) -> None:
    fleet.admit()
    numbers: list[int] = []
    path = f"{PAGE}/history?limit=4"
    while path:
        text = auditor.get(path).text
        numbers += [int(one) for one in re.findall(r'<th scope="row" class="number">(\d+)<', text)]
        found = re.search(r'<a href="([^"]+)" rel="next"', text)
        path = found[1].replace("&amp;", "&") if found else ""
    assert len(numbers) > 8
    assert numbers == sorted(numbers, reverse=True)


def test_the_history_is_narrowed_to_one_sort_of_event(fleet: Fleet, auditor: Visitor) -> None:
    fleet.admit()
    shown = auditor.page(f"{PAGE}/history?type=pass.counted")
    assert "have 2, need 2" in shown
    assert "12:00:30 UTC" in shown
    assert shown.count("node.registered") == 1, "it stands in the list to choose from and nowhere else"
    assert auditor.get(f"{PAGE}/history?type=pass.mustered").status_code == 422


def test_a_future_review_is_shown_and_an_overdue_one_said(fleet: Fleet, auditor: Visitor) -> None:
    fleet.report()
    fleet.hold({"node": "node-a"}, review_at=fleet.clock.now + timedelta(hours=1))
    assert "Review 2026-11-29 13:00:00 UTC" in auditor.page(PAGE)
    fleet.clock.advance(4000)
    assert "Its review is overdue." in auditor.page(PAGE)
