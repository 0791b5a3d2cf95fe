# SPDX-License-Identifier: Apache-2.0
"""Does the list of nodes show how each stands, narrowed by what stands in the address?"""

from __future__ import annotations

import re

import pytest
from flask import Flask

from api.context import standing
from registry.services import nodes
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import Fleet, gpu, serial


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """Three nodes: the second is on hold, the third is silent."""
    fleet = Fleet(standing(app).database, clock, standing(app).policy)
    report(fleet, 3, zone="b")
    clock.advance(60)
    for _ in range(2):
        clock.advance(61)
        for number in (1, 2):
            report(fleet, number, zone="a")
    fleet.hold({"device": serial(20)})
    return fleet


def report(fleet: Fleet, number: int, **changes: str) -> None:
    devices = [gpu(10 * number + at, at=at) for at in range(4)]
    fleet.report(f"node-{number}", devices, instance=f"i-{number}", **changes)


def listed(visitor: Visitor, query: str = "") -> list[str]:
    """The nodes in the list, in its order."""
    return re.findall(r'<th scope="row"><a href="/console/nodes/([^"]+)"', visitor.get(f"/console/nodes{query}").text)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["node-2", "node-1", "node-3"]),
        ("?state=stale", ["node-3"]),
        ("?state=held", ["node-2"]),
        ("?state=admitted", ["node-1"]),
        ("?zone=a", ["node-2", "node-1"]),
        ("?zone=a&state=held", ["node-2"]),
        ("?provider_id=i-1", ["node-1"]),
        ("?profile=g5.xlarge", []),
    ],
)
def test_the_address_narrows_the_list(fleet: Fleet, auditor: Visitor, query: str, found: list[str]) -> None:
    assert sorted(listed(auditor, query)) == sorted(found)


def test_each_line_says_state_reasons_and_passes(fleet: Fleet, auditor: Visitor) -> None:
    shown = auditor.page("/console/nodes")
    assert "node-2 ▲ held device_quarantined 2 of 2 0 s ago g5.12xlarge a" in shown
    assert "node-1 ✓ admitted" in shown
    assert "node-3 ▲ stale report_stale passes_insufficient" in shown


def test_an_empty_form_is_no_filter(fleet: Fleet, auditor: Visitor) -> None:
    answer = auditor.get("/console/nodes?state=&profile=&zone=a&provider_id=")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/nodes?zone=a")


@pytest.mark.parametrize("query", ["?state=happy", "?colour=red", "?cursor=x"])
def test_an_address_that_makes_no_sense_is_refused_in_words(fleet: Fleet, auditor: Visitor, query: str) -> None:
    assert auditor.get(f"/console/nodes{query}").status_code == 422


def test_the_list_is_walked_by_its_cursor(fleet: Fleet, auditor: Visitor) -> None:
    found, query = [], "?limit=1"
    while query:
        found += listed(auditor, query)
        onward = re.search(r'<a href="/console/nodes([^"]+)" rel="next"', auditor.get(f"/console/nodes{query}").text)
        query = onward[1].replace("&amp;", "&") if onward else ""
    assert sorted(found) == ["node-1", "node-2", "node-3"]


def test_a_page_that_found_none_yet_says_so_and_goes_on(
    fleet: Fleet, auditor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "LOOKED_AT_MAX", 1)
    monkeypatch.setattr("api.console.nodes.LOOKED_AT_MAX", 1)
    answer = auditor.get("/console/nodes?state=admitted")
    assert "None of the 1 nodes that were looked at is admitted." in words_of(answer)
    assert 'rel="next"' in answer.text


def test_a_fleet_without_nodes_says_how_one_begins(auditor: Visitor) -> None:
    assert "No node has reported yet." in auditor.page("/console/nodes")


def test_the_words_to_narrow_by_are_offered(fleet: Fleet, auditor: Visitor) -> None:
    text = auditor.get("/console/nodes").text
    assert '<option value="g5.12xlarge">' in text
    assert '<option value="b">' in text
