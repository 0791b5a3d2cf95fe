# SPDX-License-Identifier: Apache-2.0
"""Can an address be subscribed over HTTP, is its secret shown once, and does the server tell it of events?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from standardwebhooks.webhooks import Webhook

from api.app import create_app
from api.background import Background
from api.context import standing, utc_now
from registry.config import Settings
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS
from tests.receiver import Message, Receiver

ADDRESS = "https://hooks.example/in/secret-path?key=hush"


def subscribe(admin: Asker, **body: Any) -> dict[str, Any]:
    answer = admin.post("/v1/webhooks", json={"url": ADDRESS, **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json
    return made


def test_a_secret_is_in_the_first_answer_and_in_no_other(admin: Asker, operator: Asker) -> None:
    key = {"Idempotency-Key": "once"}
    first = admin.post("/v1/webhooks", json={"url": ADDRESS}, headers=key)
    again = admin.post("/v1/webhooks", json={"url": ADDRESS}, headers=key)
    secret = first.json["secret"]

    assert secret.startswith("whsec_")
    assert (again.json["secret"], again.json["id"]) == (None, first.json["id"])
    path = f"/v1/webhooks/{first.json['id']}"
    for answer in (operator.get("/v1/webhooks"), operator.get(path), operator.get("/v1/events?limit=1000")):
        assert answer.status_code == 200
        assert secret not in answer.text
        assert "hush" not in answer.text
    shown = operator.get(path).json
    assert (shown["url"], shown["format"], shown["algorithm"]) == (
        "https://hooks.example/…",
        "cloudevents",
        "hmac-sha256",
    )


@pytest.mark.parametrize("name", ["types", "causes", "profiles"])
def test_a_list_of_words_has_no_hole(admin: Asker, name: str) -> None:
    refused = admin.post("/v1/webhooks", json={"url": ADDRESS, name: ["*", None]})

    assert (refused.status_code, refused.json["code"]) == (422, "invalid_field")
    assert refused.json["errors"] == [{"pointer": f"/{name}/1", "detail": "must not be null"}]


def test_rotation_shows_the_new_secret_once_and_both_keys(admin: Asker) -> None:
    made = subscribe(admin, algorithm="ed25519")
    path = f"/v1/webhooks/{made['id']}"
    rotated = admin.post(f"{path}/rotate", json={"keep_seconds": 60}).json

    assert (made["secret"], rotated["secret"]) == (None, None)
    keys = admin.get(path).json["keys"]
    assert [key["public_key"][:5] for key in keys] == ["whpk_", "whpk_"]
    assert keys[1]["public_key"] == made["keys"][0]["public_key"]
    assert (keys[0]["drop_at"], keys[1]["drop_at"] is None) == (None, False)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"url": "ftp://hooks.example/"}, "/url"),
        ({"url": "https://user:secret@hooks.example/"}, "/url"),
        ({"url": "https://hooks.example/#x"}, "/url"),
        ({"url": "/in"}, "/url"),
        ({}, "/url"),
        ({"url": ADDRESS, "types": ["node.sneezed"]}, "/types"),
        ({"url": ADDRESS, "types": []}, "/types"),
        ({"url": ADDRESS, "format": "xml"}, "/format"),
        ({"url": ADDRESS, "algorithm": "md5"}, "/algorithm"),
        ({"url": ADDRESS, "secret": "whsec_mine"}, "/secret"),
    ],
)
def test_what_cannot_be_subscribed_is_named_and_no_address_is_repeated(
    admin: Asker, body: dict[str, Any], pointer: str
) -> None:
    refused = admin.post("/v1/webhooks", json=body)

    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json["errors"]] == [pointer]
    assert "secret@" not in refused.text


def test_there_is_an_end_to_subscriptions(admin: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.services.webhooks.SUBSCRIPTIONS_MAX", 2)
    for _ in range(2):
        subscribe(admin)

    assert admin.post("/v1/webhooks", json={"url": ADDRESS}).status_code == 422


def test_one_is_changed_and_removed_with_an_event_of_each_act(admin: Asker) -> None:
    one = subscribe(admin)["id"]
    path = f"/v1/webhooks/{one}"

    off = admin.ask("PATCH", path, json={"enabled": False, "description": "night"})
    moved = admin.ask("PATCH", path, json={"url": "https://other.example/x", "enabled": True})
    assert (off.json["enabled"], off.json["description"]) == (False, "night")
    assert off.json["disabled_because"].startswith("switched off by operator:")
    assert (moved.json["url"], moved.json["enabled"]) == ("https://other.example/…", True)
    assert admin.delete(path).status_code == 204
    for method, where in (("GET", path), ("DELETE", path), ("GET", f"{path}/deliveries"), ("POST", f"{path}/test")):
        assert admin.ask(method, where).status_code == 404
    types = [event["type"] for event in admin.get("/v1/events?limit=1000").json["items"]]
    assert [type_ for type_ in types if type_.startswith("subscription.")] == [
        "subscription.created",
        "subscription.changed",
        "subscription.changed",
        "subscription.removed",
    ]


@pytest.mark.parametrize("body", [{}, {"enabled": None}, {"skip": False}])
def test_a_change_that_changes_nothing_is_refused_and_writes_no_event(admin: Asker, body: dict[str, Any]) -> None:
    path = f"/v1/webhooks/{subscribe(admin)['id']}"
    before = len(admin.get("/v1/events?limit=1000").json["items"])

    answered = admin.ask("PATCH", path, json=body)

    assert (answered.status_code, answered.json["code"]) == (422, "invalid_field")
    assert len(admin.get("/v1/events?limit=1000").json["items"]) == before


def test_one_that_is_off_takes_no_ping_and_nothing_dead_is_nothing_to_replay(admin: Asker) -> None:
    path = f"/v1/webhooks/{subscribe(admin)['id']}"
    ping = admin.post(f"{path}/test")
    assert (ping.status_code, ping.json["state"]) == (202, "pending")
    assert admin.get(f"{path}/deliveries?state=pending").json["items"] == [ping.json]
    admin.ask("PATCH", path, json={"enabled": False})

    assert admin.post(f"{path}/test").json["code"] == "not_open"
    assert admin.post(f"{path}/replay", json={}).json["code"] == "not_open"


# --- by the server itself ---------------------------------------------------------------------------------------------


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, allow_private_sinks=("127.0.0.0/8",), public_url="https://pratique.example")


@pytest.fixture
def app(settings: Settings) -> Iterator[Flask]:
    """With the clock of this machine: messages bear the time."""
    made = create_app(settings, clock=utc_now)
    made.testing = True
    yield made
    standing(made).database.close_all()


@pytest.fixture
def bring(app: Flask) -> Callable[[Callable[[], bool]], None]:
    """Let the server's background bring messages until something is so."""
    background = Background(standing(app))
    background.beat()

    def until(is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + 15
        while not is_so():
            assert time.monotonic() < end, "nothing came"
            background.bring_messages()
            time.sleep(0.02)

    return until


Bring = Callable[[Callable[[], bool]], None]


def hold(admin: Asker, serial: str = SERIALS[0]) -> None:
    target = {"identifier": {"kind": "gpu", "type": "serial", "value": serial}}
    answer = admin.post("/v1/quarantines", json={"targets": [target], "reason": "fell off the bus"})
    assert answer.status_code == 201, answer.text


def test_a_hold_is_told_signed_and_counted(admin: Asker, anonymous: Asker, receiver: Receiver, bring: Bring) -> None:
    made = subscribe(admin, url=receiver.url, types=["quarantine.*"])
    hold(admin)
    bring(lambda: admin.get(f"/v1/webhooks/{made['id']}").json["delivered"] == 1)

    (message,) = receiver.taken
    document = Webhook(made["secret"]).verify(message.body, dict(message.headers))
    newest = admin.get("/v1/events?order=desc&limit=1").json["items"][0]
    assert message.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert (document["type"], int(document["sequence"])) == ("quarantine.opened", newest["sequence"])
    assert document["data"]["reason"] == "fell off the bus"
    assert document["data"]["link"] == "https://pratique.example/console/queue"
    scraped = anonymous.get("/metrics").text
    assert 'pratique_webhook_deliveries_total{outcome="delivered"} 1.0' in scraped
    assert 'pratique_webhook_subscriptions{state="enabled"} 1.0' in scraped
    assert "pratique_webhook_pending_deliveries 0.0" in scraped


def test_a_slack_channel_gets_one_sentence(admin: Asker, receiver: Receiver, bring: Bring) -> None:
    """What an incoming webhook of Slack takes is an object with a text, and nothing else."""

    def slack(message: Message) -> tuple[int, dict[str, str]]:
        is_good = message.document.keys() == {"text"} and message.headers["content-type"] == "application/json"
        return (200 if is_good else 400), {}

    receiver.judge = slack
    made = subscribe(admin, url=receiver.url, format="slack", types=["quarantine.opened"])
    admin.post(f"/v1/webhooks/{made['id']}/test")
    hold(admin)
    bring(lambda: len(receiver.taken) == 2)

    texts = [message.document["text"] for message in receiver.taken]
    assert texts[0] == "Pratique can reach this address."
    assert texts[1].startswith("Quarantine opened: fell off the bus (by operator:admin-1)")
    assert texts[1].endswith(" <https://pratique.example/console/queue|Open>")


def test_a_redirect_to_where_a_machine_keeps_its_credentials_is_not_followed(
    admin: Asker, receiver: Receiver, bring: Bring
) -> None:
    other = Receiver()
    receiver.judge = lambda _: (307, {"Location": other.url.replace("127.0.0.1", "169.254.169.254")})
    made = subscribe(admin, url=receiver.url)
    hold(admin)
    path = f"/v1/webhooks/{made['id']}"
    bring(lambda: admin.get(path).json["error"] is not None)

    shown = admin.get(path).json
    assert (shown["error"], shown["delivered"]) == ("answered 307", 0)
    receiver.judge = lambda _: (307, {"Location": other.url})
    admin.post(f"{path}/test")
    bring(lambda: admin.get(f"{path}/deliveries?state=dead").json["items"] != [])
    other.close()
    assert other.asked == []


@pytest.mark.parametrize(
    "url",
    [
        *("http://169.254.169.254/latest/meta-data", "http://10.0.0.1/", "http://[::ffff:169.254.169.254]/"),
        *("http://[fd00:ec2::254]/", "http://0.0.0.0/"),
    ],
)
def test_an_address_that_is_not_public_is_refused_before_anything_leaves(admin: Asker, bring: Bring, url: str) -> None:
    path = f"/v1/webhooks/{subscribe(admin, url=url)['id']}"
    admin.post(f"{path}/test")
    bring(lambda: admin.get(f"{path}/deliveries?state=dead").json["items"] != [])

    (row,) = admin.get(f"{path}/deliveries").json["items"]
    assert "is not public" in row["error"]
    assert row["status"] is None


def test_a_receiver_that_hangs_holds_up_nobody_else(app: Flask, admin: Asker, receiver: Receiver, bring: Bring) -> None:
    slow, let_go = Receiver(), threading.Event()
    slow.judge = lambda _: (200 if let_go.wait(30) else 500, {})
    subscribe(admin, url=slow.url)
    quick = subscribe(admin, url=receiver.url)
    hold(admin)
    begun = time.monotonic()
    bring(lambda: len(receiver.taken) >= 1 and len(slow.asked) == 1)
    hold(admin, SERIALS[1])
    bring(lambda: admin.get(f"/v1/webhooks/{quick['id']}").json["delivered"] >= 2)

    assert time.monotonic() - begun < 8
    assert slow.taken == []
    let_go.set()
    slow.close()
