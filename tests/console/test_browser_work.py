# SPDX-License-Identifier: Apache-2.0
"""Do people get queue, conflicts, repairs and audits done in a real browser, with scripts and without?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from registry.domain.reports import CheckResult, CheckStatus
from registry.services.condition_changes import escalate
from registry.services.repair_planning import tend
from registry.store.database import Database, open_database
from tests.clock import Clock
from tests.console.world import World
from tests.fleet import CLEAN_GPU, Fleet, gpu, passing, serial

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

QUEUE = "/console/queue"
TICKET = "BROWSER-1"
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])


@pytest.fixture(scope="module")
def records(world: World) -> Iterator[Database]:
    """The records that the server shows."""
    db = open_database(world.stage.settings.database_url)
    yield db
    db.close_all()


@pytest.fixture(scope="module")
def fleet(records: Database, world: World) -> Fleet:
    """Those records as nodes meet them, at this time."""
    return Fleet(records, Clock(datetime.now(UTC).replace(microsecond=0)), world.stage.settings.policy)


@pytest.fixture
def anybody(signed_in: Callable[..., BrowserContext], scripts: bool) -> Iterator[Page]:
    """A page of an operator, with scripts or without."""
    context = signed_in(java_script_enabled=scripts)
    yield context.new_page()
    context.close()


@pytest.fixture
def three_held(fleet: Fleet) -> Iterator[list[str]]:
    """Three identifiers that nobody has shown, under one ticket, held by a person."""
    numbers = [9000 + at for at in range(3)]
    waiting = [{"identifier": {"kind": "gpu", "type": "serial", "value": serial(number)}} for number in numbers]
    fleet.hold(*waiting, ticket=TICKET, reason="on the provider's list")
    yield [serial(number) for number in numbers]
    for hold in fleet.open_holds():
        if hold["ticket"] == TICKET:
            fleet.release(hold["id"])


@pytest.mark.parametrize(
    "path",
    [
        *(QUEUE, f"{QUEUE}?ticket=nothing", "/console/conflicts", "/console/conflicts?state=all"),
        *(
            "/console/repairs",
            "/console/audit",
            "/console/audit?type=quarantine.opened",
            "/console/audit/verify?after=9",
        ),
    ],
)
def test_the_page_is_fit(page: Page, path: str) -> None:
    from tests.console.checking import check_page  # noqa: PLC0415 - only where there is a browser

    check_page(page, path)


def test_what_follows_from_a_list_is_fit_too(page: Page, three_held: list[str]) -> None:
    from tests.console.checking import check_page  # noqa: PLC0415 - only where there is a browser

    page.goto(f"{QUEUE}?ticket={TICKET}")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Release…").click()
    check_page(page, page.url)
    for other in ("review", "hold"):
        page.goto(f"{QUEUE}?ticket={TICKET}")
        page.get_by_role("checkbox").first.check()
        page.get_by_role("button", name="Release…").click()
        check_page(page, page.url.replace("do=release", f"do={other}"))
    page.goto("/console/conflicts")
    page.get_by_role("link", name="Resolve…").first.click()
    check_page(page, page.url)


@SCRIPTS
def test_several_lines_get_a_ticket_and_are_released_together(anybody: Page, three_held: list[str]) -> None:
    anybody.goto(QUEUE)
    anybody.get_by_label("Ticket", exact=True).fill(TICKET)
    anybody.get_by_role("button", name="Narrow").click()
    assert anybody.get_by_role("row").count() == 4
    for box in anybody.get_by_role("checkbox").all()[:2]:
        box.check()
    anybody.get_by_role("button", name="Set review date or ticket…").click()
    week = datetime.now(UTC) + timedelta(days=7)
    anybody.get_by_label("Look again at (UTC)").fill(week.strftime("%Y-%m-%dT%H:%M"))
    anybody.get_by_label("Reason").fill("asked the provider")
    anybody.get_by_role("button", name="Set for 2 lines").click()
    assert anybody.get_by_role("heading", level=1).inner_text() == "2 of 2 reviewed"

    anybody.goto(f"{QUEUE}?ticket={TICKET}")
    for box in anybody.get_by_role("checkbox").all():
        box.check()
    anybody.get_by_role("button", name="Release…").click()
    anybody.get_by_label("Reason").fill("the list was of another site")
    anybody.get_by_label("Type the number of lines 3 again").fill("2")
    anybody.get_by_role("button", name="Release 3 lines").click()
    assert "what was typed again is not 3" in anybody.get_by_role("alert").inner_text()
    assert anybody.get_by_label("Reason").input_value() == "the list was of another site"
    anybody.get_by_label("Type the number of lines 3 again").fill("3")
    anybody.get_by_role("button", name="Release 3 lines").click()
    assert anybody.get_by_role("heading", level=1).inner_text() == "3 of 3 released"
    assert all(anybody.get_by_text(one).is_visible() for one in three_held)


def test_the_queue_is_worked_by_keys_that_can_be_turned_off(page: Page, three_held: list[str]) -> None:
    page.goto(f"{QUEUE}?ticket={TICKET}")
    for key in ("j", "x", "j", "j", "k", "x"):
        page.keyboard.press(key)
    boxes = page.get_by_role("checkbox").all()
    assert [box.is_checked() for box in boxes] == [True, True, False]

    page.get_by_text("Keys", exact=True).click()
    page.get_by_role("button", name="Keys are on").click()
    page.reload()
    page.keyboard.press("j")
    page.keyboard.press("x")
    assert [box.is_checked() for box in page.get_by_role("checkbox").all()] == [False, False, False]
    page.evaluate("localStorage.clear()")


def test_enter_opens_the_device_of_a_line_and_writing_is_left_alone(page: Page) -> None:
    page.goto(f"{QUEUE}?cause=hardware")
    page.get_by_label("Ticket", exact=True).press_sequentially("jx")
    assert page.get_by_label("Ticket", exact=True).input_value() == "jx"
    page.get_by_role("checkbox").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/devices/**")


@SCRIPTS
def test_a_contradiction_is_read_and_resolved(anybody: Page, fleet: Fleet, scripts: bool) -> None:
    name, number = ("torn-1", 9100) if scripts else ("torn-2", 9200)
    for shown in (serial(number), serial(number + 9)):
        fleet.report(name, [gpu(number, at=1, serial=shown)], instance=f"i-{name}", profile="g5.xlarge")
    anybody.goto(f"/console/conflicts?node={name}")
    row = anybody.get_by_role("row", name=re.compile("^serial"))
    assert row.get_by_role("cell").all_inner_texts() == [serial(number + 9), serial(number), "✕ differ"]
    anybody.get_by_role("link", name="Resolve…").click()
    anybody.get_by_label("the recorded device").check()
    anybody.get_by_label("Reason").fill("the label was read on site")
    anybody.get_by_label(f"Type the serial {serial(number + 9)} again").fill(serial(number + 9))
    anybody.get_by_role("button", name="Resolve the conflict").click()
    assert f"The conflict on {name} was resolved as same device." in anybody.get_by_role("status").inner_text()
    anybody.goto(f"/console/conflicts?node={name}")
    assert anybody.get_by_text("No conflict is like this.").is_visible()


@SCRIPTS
def test_a_repair_is_claimed_and_done_and_all_are_stopped(anybody: Page, fleet: Fleet, scripts: bool) -> None:
    name = "ill-1" if scripts else "ill-2"
    number = 9300 if scripts else 9400
    bad = (*passing(*CLEAN_GPU), CheckResult("dcgm.diag", CheckStatus.FAIL, serial(number)))
    for minutes in range(30, -1, -2):
        fleet.clock.now = datetime.now(UTC) - timedelta(minutes=minutes)
        fleet.report(name, [gpu(number, at=1)], instance=f"i-{name}", profile="g5.xlarge", checks=bad)
    with fleet.db.write(fleet.clock.now) as tx:
        # What an earlier test had begun is settled, as far as the budget goes: its node is back.
        tx.execute("UPDATE repair SET settled_at = 1 WHERE settled_at IS NULL AND ended_at IS NOT NULL")
    escalate(fleet.db, policy=fleet.policy, now=fleet.clock.now)
    tend(fleet.db, policy=fleet.policy, now=fleet.clock.now)
    anybody.goto(f"/console/repairs?node={name}&state=ready")
    anybody.get_by_role("rowheader").get_by_role("link").last.click()
    if anybody.get_by_label(f"Type the serial {serial(number)} again").count():
        anybody.get_by_label(f"Type the serial {serial(number)} again").fill(serial(number))
    anybody.get_by_role("button", name="Claim it").click()
    assert "is yours until" in anybody.get_by_role("status").inner_text()
    anybody.get_by_label("How did it go?").select_option("done")
    anybody.get_by_role("button", name="Say so").click()
    assert "is done." in anybody.get_by_role("status").inner_text()

    anybody.get_by_label("Reason").fill("a storm")
    anybody.get_by_role("button", name="Stop all repairs").click()
    assert "by operator:alice: a storm" in anybody.get_by_role("main").inner_text()
    anybody.get_by_label("Why they may go on").fill("it is over")
    anybody.get_by_role("button", name="Let repairs go on").click()
    assert anybody.get_by_role("button", name="Stop all repairs").is_visible()


@SCRIPTS
def test_an_auditor_finds_an_act_verifies_the_history_and_takes_it_away(
    signed_in: Callable[..., BrowserContext], scripts: bool
) -> None:
    context = signed_in("auditor", java_script_enabled=scripts)
    page = context.new_page()
    page.goto("/console/audit")
    page.get_by_label("Actor").fill("operator:alice")
    page.get_by_label("Type").select_option("quarantine.opened")
    page.get_by_role("button", name="Search", exact=True).last.click()
    page.get_by_text("As it was hashed").last.click()
    assert '"type":"quarantine.opened"' in page.locator("pre.body").last.inner_text()

    page.get_by_role("link", name="Show all").click()
    page.get_by_role("button", name="Verify everything").click()
    page.get_by_role("heading", name="It holds").wait_for()
    page.get_by_role("link", name="Back to the history").click()
    with page.expect_download() as begun:
        page.get_by_role("link", name="The whole history as NDJSON").click()
    assert begun.value.path().read_text(encoding="utf-8").startswith('{"actor"')
    context.close()
