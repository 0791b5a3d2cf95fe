# SPDX-License-Identifier: Apache-2.0
"""Can a person on duty see at a glance what to do, on any screen, and get there?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.world import STALE, WANDERER
from tests.fleet import serial

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_the_page_is_fit(page: Page) -> None:
    from tests.console.checking import check_page  # noqa: PLC0415 - only where there is a browser

    check_page(page, "/console/")


def test_the_card_that_came_back_is_one_click_away(plain_page: Page) -> None:
    plain_page.goto("/console/")
    offenders = plain_page.get_by_role("region", name="Repeat offenders refused this week")

    assert offenders.get_by_role("link").all_inner_texts() == [
        f"GPU {serial(WANDERER)}",
        *("gpu-a01", "gpu-b02", "gpu-c02"),
    ]
    offenders.get_by_role("link", name=serial(WANDERER)).click()

    assert serial(WANDERER) in plain_page.get_by_role("heading", level=1).inner_text()


def test_who_is_silent_is_named(plain_page: Page) -> None:
    plain_page.goto("/console/")

    plain_page.get_by_role("link", name=STALE).click()

    assert plain_page.url.endswith(f"/console/nodes/{STALE}")


def test_the_first_line_keeps_itself_fresh(page: Page) -> None:
    page.clock.install()
    page.goto("/console/")
    made = page.locator("#lead").element_handle()

    page.clock.run_for(31_000)
    page.wait_for_function("made => !made.isConnected", arg=made)

    assert "GPUs may take work" in page.locator("#lead").inner_text()
    assert page.locator("h1").count() == 1


def test_the_search_box_finds_a_serial_from_any_page(page: Page) -> None:
    page.goto("/console/search")
    page.get_by_role("searchbox").fill(serial(WANDERER))
    page.keyboard.press("Enter")

    page.wait_for_url("**/console/devices/*")
