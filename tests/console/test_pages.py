# SPDX-License-Identifier: Apache-2.0
"""What holds for every page? Who may see it, what it may load, how it says what went wrong."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from flask import Flask, request
from flask.typing import ResponseReturnValue

from api.auth import ROLES
from api.console import devices, forms
from api.console.pages import POLICY, Done, action, page, render
from api.context import standing
from registry.domain.actors import SYSTEM
from registry.domain.errors import NotOpen, StoreUnavailable
from registry.domain.roles import Role
from registry.domain.safe_mode import Head
from registry.services import safe_mode
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import Fleet, gpu
from tests.project import ROOT

STATIC = ROOT / "api" / "console" / "static"
OPEN_TO_ALL = {"GET /console/login", "POST /console/login", "GET /console/static/<path:filename>"}


def guarded(app: Flask) -> Iterator[tuple[str, frozenset[Role] | None]]:
    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            if rule.rule.startswith("/console"):
                yield f"{method} {rule.rule}", vars(app.view_functions[rule.endpoint]).get(ROLES)


def test_every_page_but_the_way_in_is_for_people_who_signed_in(app: Flask) -> None:
    roles = dict(guarded(app))

    assert {route for route, allowed in roles.items() if allowed is None} == OPEN_TO_ALL
    assert not [route for route, allowed in roles.items() if allowed and allowed & {Role.NODE, Role.WEBHOOK, Role.JOIN}]


def test_an_auditor_may_change_nothing(app: Flask) -> None:
    changes = {
        route for route, allowed in guarded(app) if route.startswith("POST") and allowed and Role.AUDITOR in allowed
    }

    assert changes <= {"POST /console/logout", "POST /console/explorer", "POST /console/audit/verify"}


def test_every_answer_says_what_a_page_may_load_and_is_not_kept(operator: Visitor, stranger: Visitor) -> None:
    for answer in (
        *(operator.get("/console/"), operator.get("/console/search"), operator.get("/console/nothing")),
        *(operator.client.post("/console/logout"), stranger.get("/console/"), stranger.get("/console/login")),
    ):
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Request-Id"]


def test_our_files_are_asked_for_again_only_when_they_changed(stranger: Visitor) -> None:
    first = stranger.get("/console/static/console.css")
    again = stranger.get("/console/static/console.css", headers={"If-None-Match": first.headers["ETag"]})
    first.close()
    again.close()

    assert (first.status_code, again.status_code) == (200, 304)
    assert first.headers["Cache-Control"] == "no-cache"
    assert first.headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/console/nothing", "GET", 404), ("/console/logout", "GET", 405), ("/console/search?q=a%00b", "GET", 422)],
)
def test_what_goes_wrong_is_a_page_for_people(operator: Visitor, path: str, method: str, status: int) -> None:
    answer = operator.client.open(path, method=method)

    assert answer.status_code == status
    assert answer.content_type == "text/html; charset=utf-8"
    assert "alice" in words_of(answer), "whoever is signed in is told so, and finds the way back"
    assert answer.headers["X-Request-Id"] in answer.text


def test_an_error_is_called_by_what_it_means_and_leads_back(operator: Visitor) -> None:
    before = "http://localhost/console/queue?owner=operator:alice"

    told = operator.get("/console/devices?state=wrong", headers={"Referer": before})

    assert "This cannot be done as it was asked" in words_of(told)
    assert "Unprocessable" not in told.text
    assert 'href="/console/queue?owner=operator:alice">Back to the page before' in told.text


@pytest.mark.parametrize("before", ["https://example.com/console/queue", "http://localhost/v1/nodes", ""])
def test_an_error_leads_back_to_our_own_pages_only(operator: Visitor, before: str) -> None:
    assert "Back to the page before" not in operator.get("/console/nothing", headers={"Referer": before}).text


def test_safe_mode_stands_on_every_page_until_it_is_taken_note_of(app: Flask, operator: Visitor, clock: Clock) -> None:
    db = standing(app).database
    assert "safe mode" not in operator.page("/console/")
    safe_mode.assess(db, [Head(10_000, "f" * 64)], now=clock.now)

    for path in ("/console/", "/console/queue", "/console/audit"):
        assert "No node is admitted until an administrator takes note" in operator.page(path)
    assert "10000" in operator.page("/console/")

    safe_mode.acknowledge(db, reason="the copy of noon", actor=SYSTEM, now=clock.now)
    assert "safe mode" not in operator.page("/console/")


def test_outside_the_console_errors_stay_what_programs_read(operator: Visitor) -> None:
    assert operator.get("/consoles").content_type == "application/problem+json"
    assert "Content-Security-Policy" not in operator.get("/v1/nodes").headers


def test_a_page_is_as_long_as_its_address_says(operator: Visitor, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    Fleet(standing(app).database, Clock(), standing(app).policy).report(devices=[gpu(at, at=at) for at in range(3)])
    monkeypatch.setattr(devices, "LINES", 1)

    assert operator.get("/console/devices").text.count('<th scope="row"') == 1
    assert operator.get("/console/devices?limit=100").text.count('<th scope="row"') == 3


def test_the_bare_address_leads_people_to_the_pages(stranger: Visitor) -> None:
    answer = stranger.get("/")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/")


def test_a_parameter_left_empty_is_taken_out_of_the_address(operator: Visitor) -> None:
    answer = operator.get("/console/search?q=&x=1&y=")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/search?x=1")


def test_a_part_of_a_page_that_is_fetched_anew_leads_the_whole_page_to_the_login(stranger: Visitor) -> None:
    answer = stranger.get("/console/", headers={"HX-Request": "true"})

    assert (answer.status_code, answer.headers["HX-Redirect"]) == (200, "/console/login?next=/console/")


def test_text_from_outside_stays_text(operator: Visitor) -> None:
    shown = operator.get('/console/search?q=<script>alert("1")</script>').text

    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;" in shown


class TestForms:
    @pytest.fixture
    def app(self, app: Flask) -> Flask:
        @app.get("/console/try/<name>")
        @page(Role.OPERATOR, Role.AUDITOR)
        def shown(name: str) -> ResponseReturnValue:
            return render("login.html", onward=f"{name} {forms.given('reason')} {forms.complaint('reason') or '-'}")

        @app.post("/console/try/<name>")
        @action(Role.OPERATOR, on=shown)
        def done(name: str) -> Done:
            forms.retyped(name)
            reason = forms.prose()
            if reason == "closed":
                raise NotOpen("it is over already")
            if reason == "away":
                raise StoreUnavailable("the database is away")
            return Done(f"{name} was done <because> {reason}", "/console/try/a")

        return app

    def test_what_was_done_is_said_once_on_the_next_page(self, operator: Visitor) -> None:
        told = operator.act("/console/try/a", {"retyped": "a", "reason": "why not"})

        assert "a was done <because> why not" in told
        assert "was done" not in operator.page("/console/try/a")

    def test_a_field_that_is_wrong_is_said_on_its_page_and_nothing_is_typed_again(self, operator: Visitor) -> None:
        answer = operator.post("/console/try/a", {"retyped": "b", "reason": "as <before>"})

        assert answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
        assert "what was typed again is not a: type it as it stands on the page" in words_of(answer)
        assert 'value="a as &lt;before&gt; -"' in answer.text

    @pytest.mark.parametrize("reason", ["", "  ", "\x00", "x" * 4097])
    def test_a_field_says_what_is_wrong_with_it(self, operator: Visitor, reason: str) -> None:
        answer = operator.post("/console/try/a", {"retyped": "a", "reason": reason})

        assert answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
        assert "That was not done: reason" in words_of(answer)

    def test_what_cannot_be_done_keeps_its_status(self, operator: Visitor) -> None:
        answer = operator.post("/console/try/a", {"retyped": "a", "reason": "closed"})

        assert answer.status_code == HTTPStatus.CONFLICT
        assert "That was not done: it is over already" in words_of(answer)

    def test_a_database_that_is_away_has_a_page_that_asks_it_nothing(self, operator: Visitor) -> None:
        answer = operator.post("/console/try/a", {"retyped": "a", "reason": "away"})

        assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        assert answer.headers["Retry-After"] == "5"
        assert "The database is away." in words_of(answer)

    def test_a_role_that_may_not_is_told_who_may(self, auditor: Visitor) -> None:
        answer = auditor.post("/console/try/a", {"retyped": "a", "reason": "x"})

        assert answer.status_code == HTTPStatus.FORBIDDEN
        assert (
            "you are signed in as auditor and may not do this; it takes operator or admin" in words_of(answer).lower()
        )

    def test_an_admin_may_do_all(self, admin: Visitor) -> None:
        assert "was done" in admin.act("/console/try/a", {"retyped": "a", "reason": "x"})

    def test_a_form_of_a_session_that_is_over_leads_to_the_login(self, stranger: Visitor) -> None:
        answer = stranger.client.post("/console/try/a", data={"retyped": "a", "reason": "x"})

        assert answer.headers["Location"] == "/console/login?next=/console/"


class TestFields:
    @pytest.mark.parametrize(
        ("given", "read"),
        [
            ("2026-11-30T08:00", "2026-11-30T08:00:00+00:00"),
            ("2026-11-30", "2026-11-30T00:00:00+00:00"),
            ("2026-11-30T08:00+02:00", "2026-11-30T06:00:00+00:00"),
            ("", None),
        ],
    )
    def test_a_time_without_a_zone_is_utc(self, app: Flask, given: str, read: str | None) -> None:
        with app.test_request_context("/", method="POST", data={"until": given}):
            found = forms.moment("until")

        assert (found.isoformat() if found else None) == read

    def test_boxes_are_read_once_each_in_their_order(self, app: Flask) -> None:
        with app.test_request_context("/", method="POST", data={"hold": ["b", "a", "b"], "all": ""}):
            assert forms.ticked("hold") == ("b", "a")
            assert forms.flag("all")
            assert not forms.flag("none")

    def test_lines_end_as_they_do_everywhere_else(self, app: Flask) -> None:
        with app.test_request_context("/", method="POST", data={"reason": " one\r\ntwo\r\n"}):
            assert forms.prose() == "one\ntwo"
            assert request.form["reason"] != "one\ntwo"


def test_what_is_not_ours_is_there_to_the_byte_with_its_licence() -> None:
    listed = tomllib.loads((STATIC / "vendored.toml").read_text(encoding="utf-8"))["file"]
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (STATIC / "vendor").iterdir()}

    assert {one["name"]: one["sha256"] for one in listed} | {
        one["licence_file"]: one["licence_sha256"] for one in listed
    } == there
    assert all(one["licence"] and one["version"] and one["from"] for one in listed)


def test_no_template_holds_what_the_policy_forbids() -> None:
    templates = [path.read_text(encoding="utf-8") for path in (STATIC.parent / "templates").glob("*.html")]

    for forbidden in (" style=", "<style", "javascript:", " onclick=", "hx-on", "|safe", "http://", "https://"):
        assert not [text[:80] for text in templates if forbidden in text], forbidden
    assert not [path for path in Path(STATIC).glob("*.css") if "@import" in path.read_text(encoding="utf-8")]


def test_pages_show_who_is_signed_in(visit: Callable[..., Visitor]) -> None:
    shown = visit(Role.AUDITOR, name="vera").page("/console/")

    assert "vera (auditor)" in shown
