# SPDX-License-Identifier: Apache-2.0
"""Does every list take every filter that it says it takes, in both orders, and find what it is asked for?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.openapi import FLAGS, NUMBERS
from api.pagination import PAGING
from api.schemas.shown import COMPONENTS
from api.v1 import (
    conflicts,
    devices,
    events,
    failures,
    job_failures,
    jobs,
    nodes,
    profiles,
    quarantines,
    repairs,
    tokens,
    webhooks,
)
from tests.api.conftest import Asker
from tests.api.test_contract import OPERATIONS
from tests.api.v1.fleet import SERIALS, admit, report, send
from tests.clock import Clock

FILTERS = {
    "nodes": nodes.FILTERS,
    "devices": devices.FILTERS,
    "failures": failures.FILTERS,
    "quarantines": quarantines.FILTERS,
    "conflicts": conflicts.FILTERS,
    "repairs": repairs.FILTERS,
    "jobs": jobs.FILTERS,
    "job-failures": job_failures.FILTERS,
    "tokens": tokens.FILTERS,
    "webhooks": webhooks.FILTERS,
    "events": events.FILTERS,
    "profiles": profiles.FILTERS,
}
VALUES = {
    "exit_code": "-11",
    "device": SERIALS[0],
    "since": "2026-01-01T00:00:00Z",
    "until": "2027-01-01T00:00:00Z",
    "actor": "node:node-a",
}
UNFILTERED = {
    "Event": {
        "at": "as since and until",
        "hash": "an entry is found by its sequence; a hash is checked, not looked for",
        "prev_hash": "the same",
    },
    "Job": {
        "goodput": "it is worked out from the job's messages, and another after each",
        "interruptions": "the same",
    },
}
"""Plain fields of items that are no filters of their lists, and why not."""

BESIDE = {
    "Event": {"since", "until", "actor", "device", "node", "quarantine"},
    "Quarantine": {"device", "node"},
    "Conflict": {"device"},
    "Job": {"node"},
    "JobFailure": {"device", "node"},
    "Repair": {"device"},
}
"""Filters that are no plain fields of their items: times, and what stands in what is nested."""


def is_time(name: str) -> bool:
    return name.endswith(("_at", "_until"))


WORDS = {
    "nodes": nodes.WORDS,
    "devices": devices.WORDS,
    "failures": failures.WORDS,
    "quarantines": quarantines.WORDS,
    "conflicts": conflicts.WORDS,
    "repairs": repairs.WORDS,
    "jobs": jobs.WORDS,
    "job-failures": job_failures.WORDS,
    "tokens": tokens.WORDS,
    "webhooks": webhooks.WORDS,
    "events": events.WORDS,
    "profiles": {},
}


def value_of(noun: str, name: str) -> str:
    if name in WORDS[noun]:
        return str(list(WORDS[noun][name])[-1])
    if name in FLAGS:
        return "true"
    return VALUES.get(name, "1999-01-01T00:00:00Z.." if is_time(name) else "7" if name in NUMBERS else "x")


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("noun", sorted(FILTERS))
def test_a_filter_is_taken(admin: Asker, node: Asker, clock: Clock, noun: str, order: str) -> None:
    admit(admin, node, clock)
    query = {name: value_of(noun, name) for name in FILTERS[noun]}

    alone = {
        name: admin.get(f"/v1/{noun}", query_string={name: value, "order": order}) for name, value in query.items()
    }
    together = admin.get(f"/v1/{noun}", query_string=query)

    assert {name: response.text for name, response in alone.items() if response.status_code != 200} == {}
    assert together.json == {"items": [], "next": None}


LIVED = ["conflicts", "devices", "failures", "job-failures", "nodes", "quarantines", "tokens", "webhooks"]
"""The lists of which that story leaves something."""


def live_through_much(admin: Asker, node: Asker, clock: Clock) -> None:
    """Leave something of every sort in the records."""
    admit(admin, node, clock)
    fault = {"failure_id": "f-1", "device": SERIALS[0], "code": "xid_79", "occurred_at": "2026-11-29T12:00:00Z"}
    assert admin.post("/v1/failures", json={**fault, "message": "gone"}).status_code == 201
    hold = {"targets": [{"device": SERIALS[1]}], "reason": "x", "cause": "power", "ticket": "OPS-7", "drain": True}
    later = {"review_at": "2026-12-01T00:00:00Z", "expires_at": "2026-12-02T00:00:00Z"}
    opened = admin.post("/v1/quarantines", json={**hold, **later}).json["items"][0]["quarantine"]["id"]
    assert admin.post(f"/v1/quarantines/{opened}/release", json={"reason": "y"}).status_code == 200
    assert admin.post("/v1/quarantines", json={**hold, "permanent": True}).status_code == 201
    swapped = report()["devices"]
    swapped[0]["serial"] = "1654000000099"
    send(node, devices=swapped, report_id="again")
    until = {"until": "2099-01-01T00:00:00Z", "reason": "x"}
    assert admin.post("/v1/nodes/node-a/maintenance", json=until).status_code == 200
    job = {"job_id": "j-1", "nodes": ["node-a"], "started_at": "2026-11-29T06:00:00Z", "user": "ana", "exit_code": 134}
    job |= {"failed_at": "2026-11-29T12:00:00Z", "signal": "SIGABRT"}
    address = {"url": "https://hooks.example/", "description": "on-call"}
    assert admin.post("/v1/webhooks", json=address).status_code == 201
    assert admin.post("/v1/job-failures", json=job).status_code == 201


@pytest.mark.parametrize("noun", LIVED)
def test_every_plain_field_of_an_item_is_a_filter_that_finds_it(
    admin: Asker, node: Asker, clock: Clock, noun: str
) -> None:
    live_through_much(admin, node, clock)
    every = admin.get(f"/v1/{noun}").json["items"]
    assert every

    for item in every:
        for name, value in item.items():
            if value is None or isinstance(value, dict | list):
                continue
            assert name in FILTERS[noun], f"{noun} cannot be filtered by {name}"
            text = json.dumps(value) if isinstance(value, bool) else str(value)
            found = admin.get(f"/v1/{noun}", query_string={name: text})
            assert found.json["items"] == [one for one in every if one[name] == value], name


@pytest.mark.parametrize("noun", LIVED)
def test_a_time_is_asked_for_as_a_range_whose_end_is_exclusive(
    admin: Asker, node: Asker, clock: Clock, noun: str
) -> None:
    live_through_much(admin, node, clock)

    def ids(name: str, text: str) -> list[Any]:
        return [one.get("id", one.get("name")) for one in admin.get(f"/v1/{noun}?{name}={text}").json["items"]]

    for name in filter(is_time, FILTERS[noun]):
        times = sorted({one[name] for one in admin.get(f"/v1/{noun}").json["items"] if one[name]})
        for at in times:
            assert set(ids(name, f"{at}..")) | set(ids(name, f"..{at}")) == set(ids(name, "1999-01-01T00:00:00Z.."))
            assert set(ids(name, at)) <= set(ids(name, f"{at}.."))
            assert not set(ids(name, at)) & set(ids(name, f"..{at}"))


@pytest.mark.parametrize(
    ("noun", "name", "text"),
    [
        ("quarantines", "opened_at", "yesterday"),
        ("quarantines", "opened_at", ".."),
        ("tokens", "created_at", "2026-11-29..x"),
        ("quarantines", "permanent", "yes"),
        ("failures", "count", "-1"),
        ("failures", "count", "9" * 19),
    ],
)
def test_a_filter_that_cannot_be_read_is_named(admin: Asker, noun: str, name: str, text: str) -> None:
    refused = admin.get(f"/v1/{noun}", query_string={name: text})

    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json["errors"]] == [f"/{name}"]


@pytest.mark.parametrize("noun", sorted(FILTERS))
def test_what_no_field_can_be_is_refused_though_nothing_is_on_record(admin: Asker, noun: str) -> None:
    junk = {name: "null" for name in FILTERS[noun] if name in FLAGS or is_time(name)}
    junk |= dict.fromkeys(FILTERS[noun] & NUMBERS, "0.02")
    junk |= dict.fromkeys(FILTERS[noun] & {"node"}, "¿")
    # Nothing fits the first, so that no item is left to be asked for the second.
    nobody = {"name": "nobody"} if "name" in FILTERS[noun] else {}

    answers = {name: admin.get(f"/v1/{noun}", query_string={**nobody, name: text}) for name, text in junk.items()}

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(junk, 422)
    assert {name: [error["pointer"] for error in answer.json["errors"]] for name, answer in answers.items()} == {
        name: [f"/{name}"] for name in junk
    }


@pytest.mark.parametrize(("noun", "name"), [(noun, name) for noun, words in WORDS.items() for name in words])
def test_a_misspelt_word_is_refused_and_the_right_ones_are_named(admin: Asker, noun: str, name: str) -> None:
    refused = admin.get(f"/v1/{noun}", query_string={name: "opne"})

    assert refused.status_code == 422
    assert refused.json["code"] == "invalid_field"
    assert [error["pointer"] for error in refused.json["errors"]] == [f"/{name}"]
    assert all(str(word) in refused.json["errors"][0]["detail"] for word in WORDS[noun][name])


def test_every_field_of_few_words_is_one_whose_values_are_named() -> None:
    shown = {"nodes": "Node", "devices": "Device", "failures": "Failure", "quarantines": "Quarantine"}
    shown |= {"conflicts": "Conflict", "tokens": "Token", "events": "Event", "job-failures": "JobFailure"}
    shown |= {"webhooks": "Subscription"}
    for noun, schema in shown.items():
        few = {name for name, field in COMPONENTS[schema]["properties"].items() if "enum" in field}
        assert few & set(FILTERS[noun]) <= set(WORDS[noun]), noun


LISTS = [
    (path, stated)
    for path, method, stated in OPERATIONS
    if method == "GET" and "cursor" in {one["name"] for one in stated["parameters"]}
]


@pytest.mark.parametrize(("path", "stated"), LISTS, ids=[path for path, _ in LISTS])
def test_the_document_has_a_filter_for_every_plain_field_of_an_item(path: str, stated: dict[str, Any]) -> None:
    page = stated["responses"]["200"]["content"]["application/json"]["schema"]
    noun = page["properties"]["items"]["items"]["$ref"].rpartition("/")[2]
    plain = {name for name, field in COMPONENTS[noun]["properties"].items() if is_plain(field)}
    taken = {one["name"] for one in stated["parameters"] if one["in"] == "query"} - PAGING - {"proof"}
    of_one = {"device", "node", "quarantine"} if path.endswith("/history") else set()

    assert plain - taken == set(UNFILTERED.get(noun, ()))
    assert taken - plain == BESIDE.get(noun, set()) - of_one


def is_plain(field: dict[str, Any]) -> bool:
    """Whether a field of the document is one value; what is free to be anything, or nested, is not."""
    types = field.get("type", "object")
    return not {"object", "array"} & {*([types] if isinstance(types, str) else types)}


@pytest.mark.parametrize("text", ["a", "a" * 63 + "é", "é" * 64 + "a", "two\nlines " * 40])
def test_a_reason_is_found_by_all_its_words_and_by_no_fewer(admin: Asker, text: str) -> None:
    target = {"identifier": {"kind": "gpu", "type": "serial", "value": "1"}}
    text = text.strip()
    assert admin.post("/v1/quarantines", json={"targets": [target], "reason": text}).status_code == 201

    assert len(admin.get("/v1/quarantines", query_string={"reason": text}).json["items"]) == 1
    for other in (text + "x", text[:-1] or "x", text.upper()):
        assert admin.get("/v1/quarantines", query_string={"reason": other}).json["items"] == []
