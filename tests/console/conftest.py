# SPDX-License-Identifier: Apache-2.0
"""How are the pages looked at? By Flask's client on either engine, and by a real browser on a fleet with a past."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from flask import Flask

from registry.domain.roles import Role
from tests.api.conftest import app, settings, token
from tests.console.visitor import Visitor
from tests.console.world import World, build_world

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from registry.admin.demo_server import RunningServer

__all__ = ["app", "settings", "token"]

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
)
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that drive a browser share one, and one server."""
    for item in items:
        if "/console/" in item.path.as_posix() and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.xdist_group("console-browser"))


@pytest.fixture
def visit(app: Flask, token: Callable[..., str]) -> Callable[..., Visitor]:
    """Make somebody of a role who is signed in."""

    def make(role: Role, *, name: str | None = None) -> Visitor:
        return Visitor(app, token(role, name=name))

    return make


@pytest.fixture
def stranger(app: Flask) -> Visitor:
    """Somebody who is not signed in."""
    return Visitor(app)


@pytest.fixture
def operator(visit: Callable[..., Visitor]) -> Visitor:
    return visit(Role.OPERATOR, name="alice")


@pytest.fixture
def auditor(visit: Callable[..., Visitor]) -> Visitor:
    return visit(Role.AUDITOR, name="vera")


@pytest.fixture
def admin(visit: Callable[..., Visitor]) -> Visitor:
    return visit(Role.ADMIN, name="root")


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A fleet with a month of history, in a database of its own."""
    return build_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="package")
def live(world: World) -> Iterator[RunningServer]:
    """A server that shows that fleet."""
    server = world.serve()
    yield server
    server.stop()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The Chromium that is installed on this machine, without a window."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - other tests need no browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*FLAGS])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def signed_in(chromium: Browser, live: RunningServer, world: World) -> Callable[..., BrowserContext]:
    """Open a browser of somebody signed in: `signed_in("auditor", java_script_enabled=False)`."""
    kept: dict[str, object] = {}

    def open_(role: str = "operator", **options: object) -> BrowserContext:
        if role not in kept:
            first = chromium.new_context(base_url=live.url)
            page = first.new_page()
            page.goto("/console/login")
            page.get_by_label("Token").fill(world.tokens[role])
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/console/")
            kept[role] = first.storage_state()
            first.close()
        chosen = {"viewport": DESKTOP, "base_url": live.url, "storage_state": kept[role], **options}
        context: BrowserContext = chromium.new_context(**chosen)
        context.set_default_timeout(15_000)
        return context

    return open_


@pytest.fixture
def page(signed_in: Callable[..., BrowserContext]) -> Iterator[Page]:
    """A page of an operator who is signed in, with scripts."""
    context = signed_in()
    yield context.new_page()
    context.close()


@pytest.fixture
def plain_page(signed_in: Callable[..., BrowserContext]) -> Iterator[Page]:
    """The same with scripts turned off."""
    context = signed_in(java_script_enabled=False)
    yield context.new_page()
    context.close()
