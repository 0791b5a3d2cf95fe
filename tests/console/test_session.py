# SPDX-License-Identifier: Apache-2.0
"""Who gets in, for how long, and what does the browser keep? A sealed name of a token, never the token."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from api.context import standing
from registry.config import Settings
from registry.domain.roles import Role
from registry.services import tokens
from tests.api.conftest import SYSTEM
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of

HOUR = 3600


def test_a_page_asks_a_stranger_to_sign_in_and_leads_back(stranger: Visitor, token: Callable[..., str]) -> None:
    asked = stranger.get("/console/search?q=abc&page=")

    assert asked.status_code == 303
    login = asked.headers["Location"]
    assert login == "/console/login?next=/console/search%3Fq%3Dabc"
    assert 'value="/console/search?q=abc"' in stranger.get(login).text

    entered = stranger.client.post(
        "/console/login", data={"token": token(Role.AUDITOR), "next": "/console/search?q=abc"}
    )

    assert (entered.status_code, entered.headers["Location"]) == (303, "/console/search?q=abc")
    assert "Nothing here is called “abc”" in stranger.page("/console/search?q=abc")


@pytest.mark.parametrize(
    "onward",
    [
        *("https://example.com/", "//example.com/console/", "/console", "/v1/nodes", "/console/\\example.com"),
        *("/console/login", "/console/logout", "/console/a\r\nSet-Cookie: a=b", "javascript:alert(1)"),
        *("/console/../v1/nodes", "/console/%2e%2e/v1/nodes", "/console/.%2E/docs"),
    ],
)
def test_it_leads_to_no_other_place(stranger: Visitor, token: Callable[..., str], onward: str) -> None:
    entered = stranger.client.post("/console/login", data={"token": token(Role.OPERATOR), "next": onward})

    assert entered.headers["Location"] == "/console/"


def test_the_cookie_is_kept_from_scripts_other_sites_and_other_pages(
    stranger: Visitor, token: Callable[..., str]
) -> None:
    secret = token(Role.OPERATOR)

    entered = stranger.client.post("/console/login", data={"token": secret})

    cookie = entered.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/console", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert secret.rpartition("_")[2] not in cookie


@pytest.mark.parametrize(
    "how", [{"base_url": "https://localhost"}, {"headers": {"X-Forwarded-Proto": "https"}}], ids=["tls", "behind tls"]
)
def test_under_tls_the_cookie_never_goes_in_the_clear(
    stranger: Visitor, token: Callable[..., str], how: dict[str, object]
) -> None:
    entered = stranger.client.post("/console/login", data={"token": token(Role.OPERATOR)}, **how)

    assert "Secure" in entered.headers["Set-Cookie"].split("; ")


@pytest.mark.parametrize("role", [Role.NODE, Role.WEBHOOK, Role.JOIN])
def test_a_machines_token_opens_no_session(stranger: Visitor, token: Callable[..., str], role: Role) -> None:
    secret = token(role, node="node-a" if role is Role.NODE else None)

    refused = stranger.client.post("/console/login", data={"token": secret})

    assert refused.status_code == 403
    assert f"a token of role {role} is for a machine" in words_of(refused)
    assert "Set-Cookie" not in refused.headers


@pytest.mark.parametrize("secret", ["", "prq_operator_short", "prq_operator_" + "a" * 49])
def test_what_is_no_token_is_refused_with_what_to_do(stranger: Visitor, secret: str) -> None:
    refused = stranger.client.post("/console/login", data={"token": secret})

    assert refused.status_code == 401
    assert "token" in words_of(refused)
    assert "Set-Cookie" not in refused.headers
    assert "WWW-Authenticate" not in refused.headers, "a browser would ask for a name and a password"


def test_a_form_of_another_site_signs_nobody_in(stranger: Visitor, token: Callable[..., str]) -> None:
    refused = stranger.client.post(
        "/console/login", data={"token": token(Role.OPERATOR)}, headers={"Sec-Fetch-Site": "cross-site"}
    )

    assert refused.status_code == 403


def test_a_revoked_token_ends_its_sessions_at_once(app: Flask, clock: Clock) -> None:
    database = standing(app).database
    view, secret = tokens.create_token(
        database, role=Role.OPERATOR, name="bob", pepper=standing(app).pepper, actor=SYSTEM, now=clock()
    )
    visitor = Visitor(app, secret)
    assert visitor.get("/console/").status_code == 200

    tokens.revoke_token(database, view.id, SYSTEM, clock())

    assert visitor.get("/console/").headers["Location"] == "/console/login?next=/console/"
    assert visitor.post("/console/logout").headers["Location"] == "/console/login?next=/console/"


def test_a_session_ends_after_a_shift(operator: Visitor, clock: Clock) -> None:
    clock.advance(12 * HOUR - 1)
    assert operator.get("/console/").status_code == 200

    clock.advance(1)

    assert operator.get("/console/").status_code == 303


def test_a_cookie_that_was_changed_or_is_anothers_opens_nothing(operator: Visitor, stranger: Visitor) -> None:
    cookie = operator.client.get_cookie("pratique_console", path="/console")
    assert cookie is not None
    value = cookie.value
    stranger.client.set_cookie("pratique_console", value, path="/console")
    assert stranger.get("/console/").status_code == 200

    # Not the last letter: some of its bits stand for nothing.
    changed = value[:-5] + ("A" if value[-5] != "A" else "B") + value[-4:]
    for wrong in (changed, "W10." + value.partition(".")[2], "", "a.b"):
        stranger.client.set_cookie("pratique_console", wrong, path="/console")
        assert stranger.get("/console/").status_code == 303, wrong


def test_whoever_signs_out_is_a_stranger_again(operator: Visitor) -> None:
    left = operator.post("/console/logout")

    assert (left.status_code, left.headers["Location"]) == (303, "/console/login")
    assert operator.get("/console/").status_code == 303


@pytest.mark.parametrize("csrf", ["", "0" * 64, "é"])
def test_a_form_without_the_mark_of_the_session_does_nothing(operator: Visitor, csrf: str) -> None:
    refused = operator.client.post("/console/logout", data={"csrf": csrf})

    assert refused.status_code == 403
    assert "load the page again" in words_of(refused)
    assert operator.get("/console/").status_code == 200


def test_the_mark_of_one_session_is_worth_nothing_in_another(operator: Visitor, auditor: Visitor) -> None:
    assert operator.post("/console/logout", {"csrf": auditor.csrf}).status_code == 403


class TestOftenAsked:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return Settings(
            database_url=settings.database_url,
            data_dir=settings.data_dir,
            secret_key=settings.secret_key,
            signing_key=settings.signing_key,
            rate_limit_per_second=2,
        )

    def test_signing_in_and_looking_are_slowed_down_as_the_api_is(self, stranger: Visitor) -> None:
        tried = [stranger.client.post("/console/login", data={"token": "guess"}) for _ in range(3)]

        assert [one.status_code for one in tried] == [401, 401, 429]
        assert tried[2].headers["Retry-After"] == "1"
        assert "come again in 1 s" in words_of(tried[2])
