# SPDX-License-Identifier: Apache-2.0
"""Does whoever pastes names get the same answers as the API gives, on a page and as a table to take away?"""

from __future__ import annotations

import csv
import io

import pytest
from flask import Flask

from api.context import standing
from registry.domain.csv_cells import safe_cell
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import Fleet, serial

PATH = "/console/explorer"


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """A node that is admitted but for one card on hold."""
    fleet = Fleet(standing(app).database, clock, standing(app).policy)
    fleet.admit()
    fleet.hold({"device": serial(1)}, reason="fell off twice")
    return fleet


def ask(visitor: Visitor, *lines: str, how: str = "page") -> str:
    answer = visitor.post(PATH, {"names": "\r\n".join(lines), "as": how})
    assert answer.status_code == 200, words_of(answer)
    return words_of(answer) if how == "page" else answer.text


def test_each_line_is_answered_with_why(fleet: Fleet, auditor: Visitor) -> None:
    shown = ask(auditor, "node-a", serial(1), serial(2), "1659999999999", "N/A")
    assert "5 answered ▲ hold 2 ✓ admit 1 ▲ unknown 2" in shown
    assert f"1 node-a ▲ hold Not admitted. device_quarantined GPU {serial(1)} in 0000:11:00.0 is in quarantine" in shown
    assert "by operator alice: fell off twice" in shown
    assert f"3 {serial(2)} ✓ no hold No hold meets it." in shown
    assert "4 1659999999999 ▲ unknown Unknown: no node and no device bears this name" in shown
    assert "5 N/A ▲ unknown This line names nothing: it is a placeholder." in shown


def test_a_card_leads_to_its_page_and_its_node(fleet: Fleet, auditor: Visitor) -> None:
    text = auditor.post(PATH, {"names": serial(2), "as": "page"}).text
    assert f'<code class="mark">{serial(2)}</code></a> on <a href="/console/nodes/node-a">' in text


def test_the_table_to_take_away_keeps_serials_to_the_character(fleet: Fleet, auditor: Visitor) -> None:
    answer = auditor.post(PATH, {"names": f"0322218049033\n{serial(1)}", "as": "csv"})
    assert answer.content_type == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="admissions.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [(one["given"], one["admitted"]) for one in rows] == [("0322218049033", "unknown"), (serial(1), "no")]
    assert "fell off twice" in rows[1]["why"]


@pytest.mark.parametrize("first", ["=", "+", "-", "@"])
def test_no_cell_of_the_table_is_a_formula(fleet: Fleet, auditor: Visitor, first: str) -> None:
    (row,) = csv.DictReader(io.StringIO(ask(auditor, f'{first}HYPERLINK("x")', how="csv"), newline=""))
    assert row["given"] == f'\'{first}HYPERLINK("x")'


@pytest.mark.parametrize("cell", ["\t=1", "\r=1", "\n=1"])
def test_blanks_do_not_hide_a_formula(cell: str) -> None:
    assert safe_cell(cell) == f"'{cell}"


@pytest.mark.parametrize(
    ("names", "words"),
    [("", "names is empty"), ("x\n" * 1001, "at most 1000"), ("serial,uuid", "nothing below it")],
    ids=["nothing", "too many", "only a head"],
)
def test_what_cannot_be_asked_is_said_beside_the_box(fleet: Fleet, auditor: Visitor, names: str, words: str) -> None:
    answer = auditor.post(PATH, {"names": names, "as": "page"})
    assert answer.status_code == 422
    assert words in words_of(answer)


def test_what_was_pasted_stays_in_the_box_and_is_never_markup(fleet: Fleet, auditor: Visitor) -> None:
    text = auditor.post(PATH, {"names": "</textarea><script>x", "as": "page"}).text
    assert "<script>x" not in text
    assert "&lt;/textarea&gt;&lt;script&gt;x</textarea>" in text


def test_asking_needs_the_mark_of_the_session(fleet: Fleet, auditor: Visitor) -> None:
    assert auditor.client.post(PATH, data={"names": "x", "as": "page"}).status_code == 403


def test_before_anything_is_asked_the_page_says_what_for(auditor: Visitor) -> None:
    assert "Nothing was asked yet." in auditor.page(PATH)
