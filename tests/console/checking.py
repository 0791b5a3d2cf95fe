# SPDX-License-Identifier: Apache-2.0
"""Is a page fit for people? Nothing keeps anybody from using it, it asks nobody but us, and it fits a phone."""

from __future__ import annotations

from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

PHONE_WIDTH = 360


def check_page(page: Page, path: str) -> None:
    """Open a page in light and dark, wide and narrow, and assert that it is fit. Needs scripts turned on."""
    faults: list[str] = []
    page.on("console", lambda said: faults.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    answer = page.goto(path)
    assert answer is not None
    assert answer.status == 200, f"{path}: {answer.status}"
    home = urlsplit(page.url)
    faults += _unfit(page)
    faults += [f"asked {url}" for url in asked if urlsplit(url)[:2] != home[:2] and not url.startswith("data:")]
    assert not faults, f"{path}:\n" + "\n".join(faults)


def assert_fit(page: Page) -> None:
    """Assert the same of a page as it stands now: what a form led to, and what was unfolded."""
    faults = _unfit(page)
    assert not faults, f"{page.url}:\n" + "\n".join(faults)


def _unfit(page: Page) -> list[str]:
    faults: list[str] = []
    for scheme in ("light", "dark"):
        # A colour on its way to another one is judged as neither.
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = Axe().run(page)
        faults += [f"axe, {scheme}: {one}" for one in _violations(found.response)]
    wide = page.viewport_size
    page.set_viewport_size({"width": PHONE_WIDTH, "height": 740})
    width = page.evaluate("document.documentElement.scrollWidth")
    if width > PHONE_WIDTH:
        faults.append(f"at {PHONE_WIDTH} px the page is {width} px wide: {_widest(page)}")
    found = Axe().run(page)
    faults += [f"axe, narrow: {one}" for one in _violations(found.response)]
    if wide is not None:
        page.set_viewport_size(wide)
    return faults


def _violations(response: dict[str, object]) -> list[str]:
    violations = response["violations"]
    assert isinstance(violations, list)
    return [
        f"{one['id']}: {one['help']}: " + "; ".join(node["html"][:200] for node in one["nodes"][:3])
        for one in violations
    ]


def _widest(page: Page) -> str:
    """Name what sticks out."""
    found: str = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, svg"))
            .slice(0, 3).map(one => one.outerHTML.slice(0, 120)).join(" | ")"""
    )
    return found
