# SPDX-License-Identifier: Apache-2.0
"""Does a person with a real browser find out what is wrong with a node, act on it, and ask about a list of names?"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.world import RESTING, SHORT, STALE, WANDERER
from tests.fleet import serial

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

WELL = "gpu-a04"


@pytest.fixture(params=["page", "plain_page"], ids=["with scripts", "without scripts"])
def any_page(request: pytest.FixtureRequest) -> Page:
    """A page of an operator who is signed in, once with scripts and once without."""
    page: Page = request.getfixturevalue(request.param)
    return page


@pytest.mark.parametrize(
    "path",
    [
        *("/console/nodes", "/console/nodes?state=stale", f"/console/nodes/{WELL}", f"/console/nodes/{SHORT}"),
        *("/console/nodes/gpu-a01", f"/console/nodes/{RESTING}", f"/console/nodes/{STALE}"),
        *("/console/nodes/gpu-c02", "/console/nodes/gpu-a01/history", "/console/explorer"),
    ],
)
def test_the_page_is_fit(page: Page, path: str) -> None:
    from tests.console.checking import check_page  # noqa: PLC0415 - only where there is a browser

    check_page(page, path)


def test_answers_and_open_forms_are_fit_too(page: Page) -> None:
    from tests.console.checking import assert_fit  # noqa: PLC0415 - only where there is a browser

    page.goto("/console/explorer")
    page.get_by_label("Node names, serials, UUIDs").fill(f"{WELL}\n{serial(WANDERER)}\n1659999999999\nN/A")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert_fit(page)

    page.goto(f"/console/nodes/{RESTING}")
    for fold in page.locator("details > summary").all():
        fold.click()
    assert_fit(page)


def test_a_person_finds_why_a_node_is_out_and_what_is_missing_where(any_page: Page) -> None:
    any_page.goto("/console/nodes")
    any_page.get_by_label("State").select_option("held")
    any_page.get_by_role("button", name="Narrow").click()
    any_page.get_by_role("link", name=SHORT).click()

    main = any_page.get_by_role("main")
    assert "No: hold" in main.inner_text()
    assert "was here and is no longer listed; 7 of 8 GPUs are listed." in main.inner_text()
    cells = any_page.get_by_role("region", name="GPUs").get_by_role("listitem")
    assert cells.count() == 8
    assert [one.split("\n")[0] for one in cells.all_inner_texts() if "missing" in one] == ["0000:18:00.0"]
    assert any_page.get_by_role("region", name="EFA adapters").get_by_role("listitem").count() == 32


def test_a_person_sees_that_a_card_which_was_here_failed_here_and_follows_it(any_page: Page) -> None:
    any_page.goto("/console/nodes/gpu-a01")

    row = any_page.get_by_role("region", name="Previous tenants of each slot").get_by_role("row", name=serial(WANDERER))
    assert "xid_79" in row.inner_text()
    assert "quarantined on gpu-c02" in " ".join(row.inner_text().split())
    row.get_by_role("link", name="gpu-c02").click()

    assert any_page.get_by_role("heading", level=1).inner_text() == "Node gpu-c02"
    assert f"GPU {serial(WANDERER)} in" in any_page.get_by_role("main").inner_text()


def test_a_person_keeps_a_node_out_for_a_while_and_lets_it_back(any_page: Page) -> None:
    any_page.goto(f"/console/nodes/{WELL}")
    assert "Yes: admitted" in any_page.get_by_role("main").inner_text()

    any_page.get_by_text("Maintenance: keep it out of work for a while").click()
    any_page.locator("#maintenance-reason").fill("A new cable")
    any_page.get_by_role("button", name="Start the maintenance").click()
    assert f"{WELL} is in maintenance until" in any_page.get_by_role("status").inner_text()
    assert "A new cable" in any_page.get_by_role("main").inner_text()

    any_page.get_by_text("Prolong or end the maintenance").click()
    any_page.get_by_label("Why it ends").fill("It is in")
    any_page.get_by_role("button", name="End the maintenance").click()
    assert "Yes: admitted" in any_page.get_by_role("main").inner_text()

    any_page.get_by_role("link", name="History").click()
    rows = any_page.get_by_role("row").all_inner_texts()
    assert "maintenance.ended" in rows[1]
    assert "maintenance.started" in rows[2]


def test_nobody_retires_a_node_by_a_slip(any_page: Page) -> None:
    any_page.goto(f"/console/nodes/{WELL}")
    any_page.get_by_text("Retire this node").first.click()
    any_page.locator("#retire-reason").fill("Given back")
    any_page.locator("#retire-retyped").fill("gpu-a03")
    any_page.get_by_role("button", name="Retire this node").click()

    assert f"is not {WELL}" in any_page.get_by_role("alert").inner_text()
    assert any_page.locator("#retire-reason").input_value() == "Given back"
    assert any_page.locator("#hold-reason").input_value() == ""
    any_page.goto(f"/console/nodes/{WELL}")
    assert "Yes: admitted" in any_page.get_by_role("main").inner_text()


def test_a_person_asks_about_a_list_and_takes_the_answers_away(any_page: Page, tmp_path: Path) -> None:
    any_page.goto("/console/explorer")
    any_page.get_by_label("Node names, serials, UUIDs").fill(f"{WELL}\n{serial(WANDERER)}\n1659999999999")
    any_page.get_by_role("button", name="Ask", exact=True).click()

    rows = [" ".join(one.split()) for one in any_page.get_by_role("row").all_inner_texts()[1:]]
    assert [row.split(" ")[3] for row in rows] == ["admit", "hold", "unknown"]
    assert "repeat_offender" in rows[1]

    with any_page.expect_download() as waiting:
        any_page.get_by_role("button", name="Ask, and save as CSV").click()
    waiting.value.save_as(tmp_path / "answers.csv")
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        assert [one["admitted"] for one in csv.DictReader(file)] == ["yes", "no", "unknown"]
