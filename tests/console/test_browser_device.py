# SPDX-License-Identifier: Apache-2.0
"""Can a person find a bad card's whole life, hold it and let it go, in a real browser, with and without scripts?"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.checking import check_page
from tests.console.world import SHORT_LIVED, WANDERER
from tests.fleet import serial

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

HEALTHY = serial(806)


@pytest.mark.parametrize(
    "path",
    [
        f"/console/devices/{serial(WANDERER)}",
        f"/console/devices/{serial(SHORT_LIVED)}",
        f"/console/devices/{HEALTHY}",
        "/console/devices",
        "/console/devices?state=quarantined",
        "/console/devices?model=none",
    ],
)
def test_the_pages_are_fit_for_everybody(page: Page, path: str) -> None:
    check_page(page, path)


@pytest.mark.parametrize("kind", ["page", "plain_page"])
def test_a_bad_cards_whole_life_is_found_by_its_serial(kind: str, request: pytest.FixtureRequest) -> None:
    page: Page = request.getfixturevalue(kind)
    page.goto("/console/")
    page.get_by_role("searchbox").fill(serial(WANDERER))
    page.get_by_role("searchbox").press("Enter")
    page.wait_for_url("**/console/devices/*")

    picture = page.get_by_role("img", name="Life of GPU")
    assert picture.locator(".tl-failure").count() >= 3
    text = page.inner_text("main")
    for node in ("gpu-a01", "gpu-b02", "gpu-c02"):
        assert node in text
    assert "The fault followed the card" in text
    page.get_by_text("The same as a table").click()
    assert page.get_by_role("cell", name="failure xid_79 (fatal)").first.is_visible()


@pytest.mark.parametrize("kind", ["page", "plain_page"])
def test_a_card_is_held_and_let_go(kind: str, request: pytest.FixtureRequest) -> None:
    page: Page = request.getfixturevalue(kind)
    page.goto(f"/console/devices/{HEALTHY}")
    page.get_by_role("link", name="Hold, release, add a failure, note").click()
    page.get_by_text("Hold this device").click()
    form = page.locator("form[action$='/hold']")
    form.get_by_label("Reason").fill("smells burnt")
    form.get_by_label("Ticket").fill("OPS-9")
    form.get_by_label("again").fill("not this one")
    form.get_by_role("button", name="Hold").click()
    assert "That was not done" in page.inner_text("main")
    form = page.locator("form[action$='/hold']")
    assert form.get_by_label("Ticket").input_value() == "OPS-9"
    form.get_by_label("again").fill(HEALTHY)
    form.get_by_role("button", name="Hold").click()
    assert f"GPU {HEALTHY} is on hold." in page.inner_text("main")
    assert "Held by operator:alice" in page.inner_text(".why")

    page.get_by_text("Release this hold").first.click()
    form = page.locator("form[action$='/release']").first
    form.get_by_label("Reason").fill("it was the cable")
    form.get_by_label("again").fill(HEALTHY)
    form.get_by_role("button", name="Release").click()

    assert "is released" in page.inner_text("main")
    assert "no hold stands on it" in page.inner_text(".why") or "no failure is on record" in page.inner_text(".why")


def test_the_evidence_is_saved(page: Page, tmp_path: Path) -> None:
    page.goto(f"/console/devices/{serial(WANDERER)}")
    with page.expect_download() as started:
        page.get_by_role("link", name="Evidence bundle").click()

    started.value.save_as(tmp_path / "rma.zip")

    assert "history.ndjson" in zipfile.ZipFile(tmp_path / "rma.zip").namelist()


def test_one_address_narrows_the_list(page: Page) -> None:
    page.goto("/console/devices")
    page.get_by_label("State").select_option("quarantined")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/console/devices?state=quarantined")

    assert serial(WANDERER) in page.inner_text("main")
    assert HEALTHY not in page.inner_text("main")
