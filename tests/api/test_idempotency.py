# SPDX-License-Identifier: Apache-2.0
"""Is a change that is asked for twice under one key made once?"""

from __future__ import annotations

from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.api.conftest import Asker
from tests.clock import Clock

PROFILE = {"gpu": {"count": 8}}
EVENTS = "/v1/events?type=profile.set"


def put(asker: Asker, key: str = "k-1", name: str = "big", **body: Any) -> TestResponse:
    return asker.put(f"/v1/profiles/{name}", json={**PROFILE, **body}, headers={"Idempotency-Key": key})


def test_the_first_answer_is_replayed(operator: Asker) -> None:
    first = put(operator)
    again = put(operator)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.data == again.data
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"


def test_without_a_key_the_change_is_made_again(operator: Asker) -> None:
    assert operator.put("/v1/profiles/big", json=PROFILE).status_code == 201
    assert operator.put("/v1/profiles/big", json=PROFILE).status_code == 200


@pytest.mark.parametrize("changes", [{"efa": {"count": 1}}, {"gpu": {"count": 7}}])
def test_the_key_with_another_body_is_refused(operator: Asker, changes: dict[str, Any]) -> None:
    put(operator)

    assert put(operator, **changes).json["code"] == "idempotency_key_reused"


def test_the_key_on_another_address_is_refused(operator: Asker) -> None:
    put(operator)

    assert put(operator, name="small").json["code"] == "idempotency_key_reused"


def test_a_key_belongs_to_its_token(operator: Asker, admin: Asker) -> None:
    assert put(operator).status_code == 201
    assert put(admin).status_code == 200


def test_what_failed_may_be_tried_again_with_the_same_key(operator: Asker) -> None:
    refused = operator.put("/v1/profiles/big", json={}, headers={"Idempotency-Key": "k-1"})

    assert refused.status_code == 422
    assert put(operator).status_code == 201


def test_a_key_is_forgotten_after_a_day(operator: Asker, clock: Clock) -> None:
    put(operator)

    clock.advance(24 * 3600 + 1)

    assert put(operator, efa={"count": 1}).status_code == 200


@pytest.mark.parametrize("key", ["", "k" * 257])
def test_a_key_has_1_to_256_printable_characters(operator: Asker, key: str) -> None:
    assert put(operator, key=key).json["code"] == "invalid_field"
