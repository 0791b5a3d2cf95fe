# SPDX-License-Identifier: Apache-2.0
"""Does an answer stay small whatever came in, and does what a driver said stay in the log?"""

from __future__ import annotations

import json
import logging
from io import BytesIO

import pytest

from api.text import SHOWN_LENGTH
from registry.domain.errors import StoreUnavailable
from registry.services import nodes
from tests.api.conftest import Asker
from tests.api.v1.fleet import report

LONG = "x" * 1_000_000
TURNED = ["\u202e", "\u202a", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c"]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({LONG: 1}),
        json.dumps({f"{number}": 1 for number in range(50_000)}),
        json.dumps({"targets": [{"device": "x", LONG: 1}], "reason": "r"}),
        json.dumps({"targets": [{"gone": 1}] * 1000, "reason": "r"}),
        f'{{"{LONG}": 1, "{LONG}": 2}}',
        json.dumps({"targets": [{"device": LONG}], "reason": LONG, "scope": LONG, "match": LONG, "expires_at": LONG}),
    ],
    ids=["a long name", "many names", "a long name inside", "many targets", "a long name twice", "long values"],
)
def test_a_large_message_has_a_small_answer(operator: Asker, body: str) -> None:
    refused = operator.post("/v1/quarantines", data=body, content_type="application/json")

    assert refused.status_code in {400, 422}
    assert len(refused.json["errors"]) <= 100
    assert len(refused.data) < 60_000
    assert "x" * (SHOWN_LENGTH + 1) not in refused.text


def test_a_long_name_in_a_report_is_cut_too(node: Asker) -> None:
    refused = node.post("/v1/nodes/node-a/reports", json={**report(), LONG: 1})

    assert refused.status_code == 422
    assert len(refused.data) < 5_000


def test_a_long_content_type_is_cut(operator: Asker) -> None:
    refused = operator.post("/v1/quarantines", data="{}", content_type=LONG[:3000])

    assert refused.status_code == 400
    assert len(refused.data) < 1_000


def test_a_name_twice_among_many_is_found_at_once(operator: Asker) -> None:
    names = ",".join(f'"n{number}":1' for number in range(200_000))

    refused = operator.post("/v1/quarantines", data=f'{{{names},"last":1,"last":2}}', content_type="application/json")

    assert refused.status_code == 400
    assert "'last' stands twice" in refused.json["detail"]


@pytest.mark.parametrize("sign", TURNED)
def test_what_turns_the_direction_of_text_is_refused_everywhere(operator: Asker, node: Asker, sign: str) -> None:
    hold = {"targets": [{"device": "x"}], "reason": f"a{sign}b"}
    fault = {"failure_id": "f", "device": "x", "code": "xid_31", "occurred_at": "2026-11-29T12:00:00Z"}

    answers = [
        operator.post("/v1/quarantines", json=hold),
        operator.post("/v1/quarantines", json={**hold, "reason": "r", "evidence": {"a": [f"a{sign}"]}}),
        operator.post("/v1/failures", json={**fault, "message": f"a{sign}"}),
        node.post("/v1/nodes/node-a/reports", json={**report(), "zone": f"z{sign}"}),
        operator.get("/v1/nodes", query_string={"zone": f"z{sign}"}),
    ]

    assert [one.status_code for one in answers] == [422] * 5
    assert operator.get(f"/v1/devices/a{sign}").status_code == 404


@pytest.mark.parametrize("name", ["zone", "devices"])
def test_a_field_that_is_no_utf8_is_refused_and_not_mended(node: Asker, name: str) -> None:
    told = {key: str(report()[key]) for key in ("report_id", "boot_id", "provider_id", "profile")}

    refused = node.post("/v1/nodes/node-a/reports", data=multipart({**told, name: b"[\xff\xfe"}))

    assert refused.status_code == 422
    assert [(error["pointer"], error["detail"]) for error in refused.json["errors"]] == [(f"/{name}", "is not UTF-8")]


def test_a_field_in_utf8_comes_in_to_the_letter(node: Asker, operator: Asker) -> None:
    told = {key: str(report()[key]) for key in ("report_id", "boot_id", "provider_id", "profile")}

    taken = node.post("/v1/nodes/node-a/reports", data=multipart({**told, "zone": "zürich-\ufffd".encode()}))

    assert taken.status_code == 200, taken.text
    assert operator.get("/v1/nodes/node-a").json["zone"] == "zürich-\ufffd"


def multipart(fields: dict[str, str | bytes]) -> dict[str, object]:
    return {name: value if isinstance(value, str) else (BytesIO(value), None) for name, value in fields.items()}


@pytest.mark.parametrize("path", ["/v1/nodes/a%00b", "/v1/devices/a%00b", "/v1/nodes/a%00b/history"])
def test_a_zero_byte_in_an_address_is_named(operator: Asker, path: str) -> None:
    refused = operator.get(path)

    assert refused.status_code == 404
    assert "control characters" in refused.json["detail"]


def test_what_the_driver_said_is_for_the_log_alone(
    operator: Asker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        error = StoreUnavailable("the database cannot answer")
        error.add_note("OperationalError: host db-7.internal is down")
        raise error

    monkeypatch.setattr(nodes, "list_nodes", fail)
    with caplog.at_level(logging.WARNING):
        answer = operator.get("/v1/nodes")

    assert answer.status_code == 503
    assert "db-7" not in answer.text
    assert "db-7.internal is down" in caplog.text
