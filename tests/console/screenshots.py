# SPDX-License-Identifier: Apache-2.0
"""What do the pages look like? Pictures of a fleet with a month behind it, made by `make screenshots`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import BrowserContext, sync_playwright

from tests.console.conftest import DESKTOP, FLAGS, PHONE
from tests.console.world import NODES, WANDERER, build_world
from tests.fleet import serial
from tests.project import ROOT

FOLDER = ROOT / "docs" / "screenshots"

PAGES = {
    "fleet": "/console/",
    "device": f"/console/search?q={serial(WANDERER)}",
    "node": f"/console/nodes/{NODES[9]}",
    "queue": "/console/queue",
    "conflicts": "/console/conflicts",
    "repairs": "/console/repairs",
    "audit": "/console/audit",
    "explorer": "/console/explorer",
}
"""The pages by the names of their pictures."""

KEPT = ("fleet", "device", "node", "queue")
"""Those that are taken where none is named, and kept with the sources."""

HEIGHT_MAX = 2400
"""Pictures of long pages are cut here: nobody scrolls through a README for more."""


def main(wanted: Sequence[str], folder: Path = FOLDER) -> None:
    """Take the pictures of these pages; without any, of those that are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    room = Path(tempfile.mkdtemp(prefix="pratique-screenshots-"))
    world = build_world(room)
    server = world.serve()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*FLAGS])
            # On a phone it is three in the morning.
            for width, viewport, scheme in (("desktop", DESKTOP, "light"), ("phone", PHONE, "dark")):
                context = browser.new_context(base_url=server.url, viewport=viewport, color_scheme=scheme)
                _sign_in(context, world.tokens["operator"])
                _take(context, wanted or KEPT, width, folder)
                context.close()
            browser.close()
    finally:
        server.stop()
        shutil.rmtree(room, ignore_errors=True)


def _sign_in(context: BrowserContext, token: str) -> None:
    page = context.new_page()
    page.goto("/console/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.close()


def _take(context: BrowserContext, names: Sequence[str], width: str, folder: Path) -> None:
    for name in names:
        page = context.new_page()
        page.goto(PAGES[name])
        size = page.viewport_size or DESKTOP
        height = min(page.evaluate("document.documentElement.scrollHeight"), HEIGHT_MAX)
        file = folder / f"{name}-{width}.png"
        page.screenshot(path=file, full_page=True, clip={"x": 0, "y": 0, "width": size["width"], "height": height})
        sys.stdout.write(f"{file}\n")
        page.close()


if __name__ == "__main__":
    main(sys.argv[1:])
