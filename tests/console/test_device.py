# SPDX-License-Identifier: Apache-2.0
"""Does the page of a device tell its whole life and why it is kept out, and are its forms carried out?"""

from __future__ import annotations

import io
import re
import zipfile

import pytest
from flask import Flask

from api.context import standing
from registry.services.devices import show_device
from registry.services.failures import withdraw_failure
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import ALICE, Fleet, efa, gpu, serial, uuid


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """The fleet that the pages show."""
    return Fleet(standing(app).database, clock, standing(app).policy)


def address(fleet: Fleet, number: int = 0) -> str:
    return f"/console/devices/{show_device(fleet.db, uuid(number), now=fleet.clock.now)['id']}"


def wander(fleet: Fleet) -> None:
    """GPU 0 fails on node-a, then in another slot of node-b."""
    fleet.admit()
    fleet.fail("xid_79", device=serial(0), node="node-a", slot="0000:10:00.0", occurred_at=fleet.clock.now)
    fleet.clock.advance(3600)
    fleet.report("node-b", [gpu(0, at=5)], instance="i-9", profile="g5.xlarge")
    fleet.fail("xid_79", device=serial(0), node="node-b", slot="0000:15:00.0", occurred_at=fleet.clock.now)


def test_a_bad_cards_whole_life_is_one_page(fleet: Fleet, auditor: Visitor) -> None:
    wander(fleet)

    shown = auditor.page(f"/console/devices/{serial(0)}")

    assert "✕ quarantined Held by rule:xid_79 since " in shown
    assert "The fault followed the card: gpu.fallen_off_bus was seen in slot 0000:10:00.0 of node-a" in shown
    assert "2 slots of 2 nodes" in shown
    assert "failure xid_79 (fatal)" in shown
    assert "came to slot 0000:15:00.0, still there" in shown
    assert "clean run counted" in shown
    assert "What can be done" not in shown


def test_its_picture_says_in_words_what_it_shows_and_has_no_style_of_its_own(fleet: Fleet, operator: Visitor) -> None:
    wander(fleet)

    page = operator.get(f"/console/devices/{serial(0)}").text

    (picture,) = re.findall(r'<svg class="tl".*?</svg></svg>', page, re.DOTALL)
    assert f'<title id="tl-title">Life of GPU {serial(0)}</title>' in picture
    assert "2 nodes, 2 failures seen, 3 clean runs, 1 hold." in picture
    assert "style" not in picture


@pytest.mark.parametrize("ref", [serial(0), uuid(0)])
def test_every_name_of_a_device_leads_to_its_page(fleet: Fleet, operator: Visitor, ref: str) -> None:
    fleet.admit()

    assert operator.page(f"/console/devices/{ref}") == operator.page(address(fleet))


def test_of_several_units_with_one_serial_one_is_chosen(fleet: Fleet, operator: Visitor) -> None:
    fleet.report(devices=[gpu(0), gpu(1, serial=serial(0))])

    chosen = operator.get(f"/console/devices/{serial(0)}")

    assert "fits 2 devices" in words_of(chosen)
    links = re.findall(r'href="(/console/devices/[0-9a-f-]{36})"', chosen.text)
    assert sorted(links) == sorted([address(fleet, 0), address(fleet, 1)])
    assert uuid(1) in operator.page(address(fleet, 0))  # the other one of its board


def test_what_is_not_known_is_said(operator: Visitor) -> None:
    answer = operator.get("/console/devices/1999")

    assert answer.status_code == 404
    assert "No device is known by '1999'" in words_of(answer)


def test_what_a_machine_sent_is_shown_and_never_run(fleet: Fleet, operator: Visitor) -> None:
    bad = "<script>alert(1)</script>"
    fleet.admit(devices=[gpu(0, model=bad), gpu(1), gpu(2), gpu(3)])
    fleet.hold({"device": serial(0)}, reason=bad, ticket="<b>")
    fleet.fail("xid_48", device=serial(0), node="node-a", occurred_at=fleet.clock.now, message=bad)

    page = operator.get(f"/console/devices/{serial(0)}").text

    assert "<script>alert" not in page
    assert "<b>" not in page
    assert page.count("&lt;script&gt;") >= 3


def test_a_hot_card_stands_out_in_words(fleet: Fleet, operator: Visitor) -> None:
    cards = [gpu(at, readings={"temperature_celsius": 84 if at == 0 else 60, "power_watts": 300}) for at in range(4)]
    fleet.report(devices=cards)

    assert "▲ hotter than its neighbours" in operator.page(f"/console/devices/{serial(0)}")
    assert "▲ hotter than its neighbours" not in operator.page(f"/console/devices/{serial(1)}")
    assert "+24 °C ▲ outlier" in operator.page(f"/console/devices/{serial(1)}")


def test_a_device_that_is_known_by_its_place_says_so(fleet: Fleet, operator: Visitor) -> None:
    fleet.report(devices=[efa(1)], covers=frozenset({"efa"}))
    with fleet.db.read() as snapshot:
        ((device_id,),) = snapshot.all("SELECT id FROM device WHERE kind = 'efa'")

    assert "has no identifier of its own hardware" in operator.page(f"/console/devices/{device_id}")


class TestActs:
    def test_a_device_is_held_and_released(self, fleet: Fleet, operator: Visitor) -> None:
        fleet.admit()
        at = address(fleet)
        given = {"reason": "smells burnt", "ticket": "OPS-1", "cause": "hardware", "retyped": serial(0)}

        held = operator.act(f"{at}/hold", {**given, "scope": "board", "review_at": "2099-01-01T00:00"})

        assert f"GPU {serial(0)} is on hold." in held
        assert "Held by operator:alice since " in held
        assert "Ticket OPS-1. Cause hardware." in held
        assert fleet.codes() == ["device_quarantined"]
        (hold,) = fleet.open_holds()
        released = operator.act(f"{at}/holds/{hold['id']}/release", {"reason": "replaced", "retyped": serial(0)})
        assert "is released" in released
        assert fleet.open_holds() == []

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"reason": " "}, "reason is empty"),
            ({"retyped": serial(1)}, f"what was typed again is not {serial(0)}"),
            ({"retyped": ""}, "what was typed again is empty"),
            ({"review_at": "2001-01-01T00:00"}, "review at is over already"),
            ({"review_at": "soon"}, "must be a date and a time"),
            ({"scope": "rack"}, "scope must be board or unit"),
        ],
    )
    def test_a_hold_that_lacks_something_is_not_made_and_nothing_is_typed_twice(
        self, fleet: Fleet, operator: Visitor, change: dict[str, str], told: str
    ) -> None:
        fleet.admit()
        given = {"form": "hold-", "reason": "smells burnt", "ticket": "OPS-7", "retyped": serial(0), **change}

        answer = operator.post(f"{address(fleet)}/hold", given)

        assert answer.status_code == 422
        assert told in words_of(answer)
        assert 'value="OPS-7"' in answer.text
        assert fleet.open_holds() == []

    def test_a_hold_that_stands_already_is_said(self, fleet: Fleet, operator: Visitor) -> None:
        fleet.admit()
        given = {"reason": "x", "retyped": serial(0)}
        operator.act(f"{address(fleet)}/hold", given)

        assert "You hold this device already." in operator.act(f"{address(fleet)}/hold", given)

    def test_a_release_wants_the_serial_again_and_happens_once(self, fleet: Fleet, operator: Visitor) -> None:
        fleet.admit()
        fleet.hold({"device": serial(0)})
        (hold,) = fleet.open_holds()
        at = f"{address(fleet)}/holds/{hold['id']}/release"

        assert operator.post(at, {"reason": "ok", "retyped": "no"}).status_code == 422
        assert len(fleet.open_holds()) == 1
        operator.act(at, {"reason": "ok", "retyped": serial(0)})
        again = operator.post(at, {"reason": "ok", "retyped": serial(0)})
        assert again.status_code == 409
        assert "is no longer open" in words_of(again)

    def test_a_failure_is_added_once_however_often_the_form_is_sent(self, fleet: Fleet, operator: Visitor) -> None:
        fleet.admit()
        at = f"{address(fleet)}/failures"
        given = {"failure_id": "f-1", "code": "xid_79", "message": "seen on the bench", "retyped": serial(0)}
        given["occurred_at"] = "2026-01-01T00:00"

        first, second = operator.act(at, given), operator.act(at, given)

        assert "xid_79 is on record; its effect is permanent." in first
        assert "xid_79 is on record" in second
        assert "seen on the bench" in second
        assert len(fleet.open_holds()) == 1
        refused = operator.post(at, {**given, "failure_id": "f-2", "code": "XID 79"})
        assert (refused.status_code, "is no fault code" in words_of(refused)) == (422, True)

    def test_a_note_is_kept(self, fleet: Fleet, operator: Visitor) -> None:
        fleet.admit()

        shown = operator.act(f"{address(fleet)}/notes", {"text": "reseated\r\ntwice"})

        assert "Your note is in the history." in shown
        assert "reseated twice operator:alice" in shown
        assert operator.post(f"{address(fleet)}/notes", {"text": " "}).status_code == 422

    @pytest.mark.parametrize("act", ["hold", "failures", "notes", "holds/x/release"])
    def test_an_auditor_does_none_of_it(self, fleet: Fleet, auditor: Visitor, act: str) -> None:
        fleet.admit()

        assert auditor.post(f"{address(fleet)}/{act}", {"text": "x"}).status_code == 403


def test_the_bundle_is_handed_to_whoever_may_read(fleet: Fleet, auditor: Visitor, stranger: Visitor) -> None:
    wander(fleet)

    answer = auditor.get(f"/console/devices/{serial(0)}/bundle.zip")

    assert answer.content_type == "application/zip"
    assert "README.txt" in zipfile.ZipFile(io.BytesIO(answer.data)).namelist()
    assert stranger.get(f"/console/devices/{serial(0)}/bundle.zip").status_code == 303
    assert auditor.get("/console/devices/nobody/bundle.zip").status_code == 404


class TestList:
    def test_devices_are_found_by_what_the_address_says(self, fleet: Fleet, auditor: Visitor) -> None:
        fleet.admit()
        fleet.report("node-b", [gpu(9, model="NVIDIA L4")], instance="i-9", profile="g5.xlarge")
        fleet.hold({"device": serial(1)}, reason="burnt", cause="hardware.thermal")

        def found(query: str) -> list[str]:
            return sorted(
                re.findall(r'<code class="mark">(\d{13})</code>', auditor.get(f"/console/devices{query}").text)
            )

        assert found("") == [serial(number) for number in (0, 1, 2, 3, 9)]
        assert found("?state=quarantined") == [serial(1)]
        assert found("?cause=hardware.thermal") == [serial(1)]
        assert found("?cause=hardware") == []
        assert found("?model=NVIDIA+L4") == [serial(9)]
        assert found("?node=node-b&state=in_service") == [serial(9)]
        assert found(f"?serial={serial(2)}") == [serial(2)]
        assert found("?node=&state=&model=NVIDIA+L4&cause=") == []  # sent on to the address without what is empty
        assert "burnt (operator:alice)" in auditor.page("/console/devices?state=quarantined")

    def test_a_released_hold_is_no_cause_any_more(self, fleet: Fleet, auditor: Visitor) -> None:
        fleet.admit()
        hold = fleet.hold({"device": serial(1)}, cause="heat", scope="unit")[0]["quarantine"]["id"]
        assert serial(1) in auditor.page("/console/devices?cause=heat")

        fleet.release(hold)

        assert "No device fits." in auditor.page("/console/devices?cause=heat")

    def test_pages_follow_one_another_without_gaps(self, fleet: Fleet, auditor: Visitor) -> None:
        fleet.admit()
        seen, at = [], "/console/devices?limit=3"
        while at:
            text = auditor.get(at).text
            seen += re.findall(r'<code class="mark">(\d{13})</code>', text)
            next_ = re.search(r'href="([^"]+)" rel="next"', text)
            at = next_[1].replace("&amp;", "&") if next_ else ""

        assert sorted(seen) == [serial(number) for number in range(4)]

    def test_a_word_that_no_device_can_have_is_refused(self, auditor: Visitor) -> None:
        answer = auditor.get("/console/devices?state=broken")

        assert (answer.status_code, "Parameter state must be" in words_of(answer)) == (422, True)

    def test_an_empty_list_explains_itself(self, auditor: Visitor) -> None:
        assert "No device is on record yet." in auditor.page("/console/devices")


def test_a_failure_that_was_withdrawn_is_a_ring_and_no_cross(fleet: Fleet, auditor: Visitor) -> None:
    fleet.admit()
    item = fleet.fail("xid_48", device=serial(0), node="node-a", occurred_at=fleet.clock.now)
    withdraw_failure(fleet.db, item["failure"]["id"], reason="a test", actor=ALICE, now=fleet.clock.now)

    page = auditor.get(f"/console/devices/{serial(0)}").text

    assert 'class="tl-quiet"' in page
    assert 'class="tl-failure"' not in page
    assert "without effect: muted or withdrawn" in page
