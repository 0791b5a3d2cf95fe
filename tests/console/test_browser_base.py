# SPDX-License-Identifier: Apache-2.0
"""Does a person get in and around with a real browser, with scripts and without?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.conftest import DESKTOP
from tests.console.world import World

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from registry.admin.demo_server import RunningServer

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("path", ["/console/search", "/console/search?q=gpu-a"])
def test_the_page_is_fit(page: Page, path: str) -> None:
    from tests.console.checking import check_page  # noqa: PLC0415 - only where there is a browser

    check_page(page, path)


def test_the_way_in_is_fit(chromium: Browser, live: RunningServer) -> None:
    from tests.console.checking import check_page  # noqa: PLC0415 - only where there is a browser

    context = chromium.new_context(base_url=live.url, viewport=DESKTOP)

    check_page(context.new_page(), "/console/login")

    context.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_person_signs_in_searches_and_signs_out(
    chromium: Browser, live: RunningServer, world: World, scripts: bool
) -> None:
    context = chromium.new_context(base_url=live.url, java_script_enabled=scripts, viewport=DESKTOP)
    page = context.new_page()

    page.goto("/console/search?q=gpu-a")
    page.get_by_label("Token").fill("nonsense")
    page.get_by_role("button", name="Sign in").click()
    assert "this is not a token" in page.get_by_role("alert").inner_text()
    page.get_by_label("Token").fill(world.tokens["auditor"])
    page.get_by_role("button", name="Sign in").click()

    assert page.get_by_role("main").get_by_role("link").all_inner_texts() == [f"gpu-a0{at}" for at in range(1, 7)]
    page.get_by_role("button", name="Log out").click()
    assert page.url.endswith("/console/login")
    page.goto("/console/")
    assert "/console/login" in page.url
    context.close()


@pytest.mark.parametrize(
    ("path", "prose", "column"),
    [
        ("/console/queue", "table small:not(.age)", "Owner"),
        ("/console/nodes", "table th[scope=row] a", "Zone"),
        ("/console/devices?state=quarantined", "td:nth-child(6)", "Model"),
    ],
)
def test_one_long_word_pushes_no_column_out_of_sight(page: Page, path: str, prose: str, column: str) -> None:
    page.goto(path)
    page.locator(prose).first.evaluate("one => { one.textContent = 'W'.repeat(253) }")

    box = page.get_by_role("columnheader", name=column).bounding_box()

    assert box is not None
    assert box["x"] + box["width"] <= 1280
