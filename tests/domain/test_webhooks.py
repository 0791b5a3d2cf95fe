# SPDX-License-Identifier: Apache-2.0
"""Who is told of what, how long is waited, and how does an event read outside?"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.actors import Actor, ActorKind, Subject, SubjectKind
from registry.domain.events import GENESIS, Draft, Event, EventType, seal
from registry.domain.messages import cloud_event, link, sentence, slack_text
from registry.domain.web_address import shorten_address
from registry.domain.webhooks import (
    SCHEDULE_SECONDS,
    TRIES,
    Filter,
    message_id,
    pause_after,
    retry_after,
    signing_input,
    unknown_types,
    wait_after,
)

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
DEVICE = Subject(SubjectKind.DEVICE, "d-1")
HOLD = Subject(SubjectKind.QUARANTINE, "q-1")
HELD = {"serial": "1654900010003", "node": "node-a", "reason": "fell off the bus", "cause": "power"}
HELD |= {"devices": [{"kind": "gpu", "serial": "1654900010003"}, {"kind": "gpu", "serial": "1"}]}  # type: ignore[dict-item]


def happened(
    type_: EventType = EventType.QUARANTINE_OPENED, *subjects: Subject, sequence: int = 7, **data: Any
) -> Event:
    draft = Draft(type_, Actor(ActorKind.RULE, "xid_79"), subjects, data)
    return seal(draft, sequence=sequence, at=NOW, ordinals=[1] * len(draft.subjects), prev_hash=GENESIS)


@pytest.mark.parametrize(
    ("filter_", "is_told"),
    [
        (Filter(), True),
        (Filter(types=("quarantine.opened",)), True),
        (Filter(types=("node.booted", "quarantine.*")), True),
        (Filter(types=("quarantine.released",)), False),
        (Filter(types=("quarantine.op",)), False),
        (Filter(causes=("power",)), True),
        (Filter(causes=("hardware",)), False),
        (Filter(profiles=("p5.48xlarge",)), True),
        (Filter(profiles=("p4d.24xlarge",)), False),
        (Filter(types=("quarantine.*",), causes=("power",), profiles=("p5.48xlarge", "x")), True),
        (Filter(types=("quarantine.*",), causes=("power",), profiles=("x",)), False),
    ],
)
def test_an_event_is_told_when_it_is_within_all_that_is_named(filter_: Filter, is_told: bool) -> None:
    assert filter_.takes(happened(**HELD), "p5.48xlarge") is is_told


def test_what_has_no_cause_and_no_node_fits_none_that_is_named() -> None:
    assert not Filter(causes=("power",)).takes(happened(), None)
    assert not Filter(profiles=("x",)).takes(happened(), None)


def test_a_type_that_nobody_knows_is_named() -> None:
    assert unknown_types(["node.booted", "node.*", "node.sneezed", "nose.*", "*"]) == ["node.sneezed", "nose.*", "*"]


def test_there_are_ten_tries_within_three_days_and_some_hours() -> None:
    waits = [wait_after(tries, 0) for tries in range(1, TRIES)]

    assert sum((one for one in waits if one), timedelta()) == timedelta(hours=75, minutes=35, seconds=5)
    assert [wait.total_seconds() for wait in waits if wait] == list(SCHEDULE_SECONDS)
    assert wait_after(TRIES, 0) is None


@given(tries=st.integers(1, TRIES - 1), failures=st.integers(1, 10_000), chance=st.floats(0, 1))
def test_chance_makes_a_wait_longer_and_by_a_tenth_at_most(tries: int, failures: int, chance: float) -> None:
    wait, least = wait_after(tries, chance), SCHEDULE_SECONDS[tries - 1]
    assert wait is not None
    assert least <= wait.total_seconds() <= least * 1.1 + 1e-6
    assert 5 <= pause_after(failures, chance).total_seconds() <= 330


@pytest.mark.parametrize(
    ("status", "text", "seconds"),
    [
        (429, "120", 120),
        (503, "Sun, 29 Nov 2026 12:05:00 GMT", 300),
        (503, "Sunday, 29-Nov-26 12:05:00 GMT", 300),
        (503, "Sun, 29 Nov 2026 11:00:00 GMT", 0),
        (429, "9" * 40, 86_400),
        (503, "Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        (503, "Fri, 31 Dec 9999 23:59:59 -2359", None),
        (503, "Mon, 99999999999999999999 Jan 2020 00:00:00 GMT", None),
        (503, "01 Jan 2026 00:00:00 -99999999999999999", None),
        (429, "-1", None),
        (429, "1.5", None),
        (429, "soon", None),
        (429, "", None),
        (429, None, None),
        (500, "120", None),
        (200, "120", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_a_day_at_most(status: int, text: str | None, seconds: int | None) -> None:
    until = retry_after(status, text, NOW)

    assert (None if until is None else (until - NOW).total_seconds()) == seconds


@given(text=st.text(max_size=40))
def test_no_retry_after_raises(text: str) -> None:
    until = retry_after(429, text, NOW)

    assert until is None or NOW <= until <= NOW + timedelta(days=1)


def test_what_is_signed_is_id_time_and_body_with_full_stops_between() -> None:
    assert signing_input("evt_7_ab", 1674087231, b'{"a": 1}') == b'evt_7_ab.1674087231.{"a": 1}'


def test_an_events_message_id_has_no_full_stop_and_is_another_for_another_event() -> None:
    one, other = happened(serial="1"), happened(serial="2")

    assert "." not in message_id(one)
    assert message_id(one) != message_id(other)
    assert message_id(one) == message_id(happened(serial="1"))


def test_a_cloud_event_has_what_one_needs_to_act() -> None:
    event = happened(EventType.QUARANTINE_OPENED, HOLD, DEVICE, Subject(SubjectKind.NODE, "node-a"), **HELD)
    document = cloud_event(event, "https://pratique.example")
    data = document.pop("data")

    assert document == {
        "specversion": "1.0",
        "id": message_id(event),
        "source": "https://pratique.example",
        "type": "quarantine.opened",
        "subject": "device/d-1",
        "time": "2026-11-29T12:00:00.000000Z",
        "datacontenttype": "application/json",
        "sequence": "0000000000000000007",
    }
    assert (data["serial"], data["node"], data["reason"]) == ("1654900010003", "node-a", "fell off the bus")
    assert data["link"] == "https://pratique.example/console/devices/d-1"
    assert data["actor"] == {"kind": "rule", "name": "xid_79"}
    json.dumps(document)


def test_without_an_address_of_its_own_a_service_has_a_source_and_no_link() -> None:
    document = cloud_event(happened(), None)

    assert (document["source"], document["data"]["link"]) == ("/pratique", None)
    assert "subject" not in document


@given(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_sequences_stand_in_the_order_of_their_texts(one: int, other: int) -> None:
    texts = [cloud_event(happened(sequence=number), None)["sequence"] for number in (one, other)]

    assert (texts[0] < texts[1]) is (one < other)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            happened(**HELD),
            "Quarantine opened: GPU 1654900010003 and 1 more on node-a: fell off the bus (by rule:xid_79)",
        ),
        (
            happened(EventType.FAILURE_RECORDED, code="xid_79", kind="gpu", serial="1", node="n", slot="0000:10:00.0"),
            "Failure recorded: xid_79 GPU 1 on n in 0000:10:00.0 (by rule:xid_79)",
        ),
        (happened(EventType.NODE_BOOTED, node="n"), "Node booted: on n (by rule:xid_79)"),
        (happened(EventType.REPAIRS_STOPPED, reason="a\nstorm"), "Repairs stopped: a storm (by rule:xid_79)"),
    ],
)
def test_an_event_is_one_sentence(event: Event, text: str) -> None:
    assert sentence(event) == text


def test_a_sentence_is_bounded_and_slack_reads_no_markup_in_it() -> None:
    event = happened(
        EventType.NODE_BOOTED, Subject(SubjectKind.NODE, "n"), node="n", reason="<!channel> & " + "x" * 5000
    )
    text = slack_text(event, "https://p.example")

    assert len(text) < 800
    assert "&lt;!channel&gt; &amp; xx" in text
    assert text.endswith(" <https://p.example/console/nodes/n|Open>")
    assert slack_text(happened(), None) == "Quarantine opened (by rule:xid_79)"


@pytest.mark.parametrize(
    ("subjects", "page"),
    [
        ((HOLD,), "/console/queue"),
        ((Subject(SubjectKind.CONFLICT, "c"),), "/console/conflicts"),
        ((Subject(SubjectKind.REPAIR, "r"), Subject(SubjectKind.NODE, "n")), "/console/nodes/n"),
        ((), "/console/"),
    ],
)
def test_a_link_leads_to_the_page_about_it(subjects: tuple[Subject, ...], page: str) -> None:
    assert link(happened(EventType.NODE_BOOTED, *subjects), "https://p.example") == f"https://p.example{page}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h.example/a/b?c=d", "https://h.example/…"),
        ("https://h.example:8443?c=d", "https://h.example:8443/…"),
        ("http://[2001:db8::1]/", "http://[2001:db8::1]/"),
        ("https://h.example", "https://h.example/"),
    ],
)
def test_of_an_address_no_path_is_shown(url: str, shown: str) -> None:
    assert shorten_address(url) == shown
