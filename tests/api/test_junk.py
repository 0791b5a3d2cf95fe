# SPDX-License-Identifier: Apache-2.0
"""Is junk in any place of any message refused by name, on both databases, and never an error of our own?"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.conftest import Asker
from tests.api.v1.fleet import PROFILE, report

MESSAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "report": (
        "/v1/nodes/node-a/reports",
        {
            **report(),
            "run_id": "r",
            "seq": 1,
            "zone": "z",
            "sent_at": "2026-11-29T12:00:00Z",
            "host": {"dmi": {"serial": "S", "uuid": "U"}},
        },
    ),
    "failure": (
        "/v1/failures",
        {
            "failure_id": "f",
            "node": "node-a",
            "slot": "10:00.0",
            "device": "x",
            "code": "xid_31",
            "occurred_at": "2026-11-29T12:00:00Z",
            "message": "m",
            "evidence": {"a": [1]},
        },
    ),
    "quarantine": (
        "/v1/quarantines?dry_run=true",
        {
            "targets": [
                {"device": "x"},
                {"node": "n"},
                {"identifier": {"kind": "gpu", "type": "serial", "value": "v"}},
            ],
            "reason": "r",
            "expires_at": "2027-01-01T00:00:00Z",
            "release_policy": "at_expiry",
            "evidence": {},
        },
    ),
    "preview": (
        "/v1/admissions",
        {"candidates": [{"node": "n", "identifiers": [{"kind": "gpu", "type": "uuid", "value": "GPU-1"}]}]},
    ),
    "waiver": (
        "/v1/nodes/node-a/waivers",
        {"kind": "gpu", "count": 1, "until": "2027-01-01T00:00:00Z", "reason": "r"},
    ),
}

WORDS = (
    *(
        "",
        " ",
        "N/A",
        "a\x00b",
        "\ud800",
        "x" * 5000,
        "MIG-GPU-1/2/3",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59Z",
    ),
    *("-1", "1e400", "\u202e", "ß", "%s", "' OR 1=1 --", "0000:00:00.0", "GPU-00000000-0000-0000-0001-000000000001"),
)
JUNK = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(
        [None, True, False, 0, -1, 2**31, 2**63, 2**70, 1.5, 1e300, [], {}, [[]], {"": {}}, [None], ["gpu"]]
    ),
    st.text(max_size=20),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a message that something else can be put into."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, one in inner for place in places(one, (*path, name)))]


def put(message: Any, place: tuple[Any, ...], junk: Any) -> Any:
    if not place:
        return junk
    changed = copy.deepcopy(message)
    inner = changed
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = junk
    return changed


@pytest.mark.parametrize("name", sorted(MESSAGES))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_junk_is_refused_and_nothing_breaks(admin: Asker, name: str, data: st.DataObject) -> None:
    admin.put("/v1/profiles/tiny", json=PROFILE)
    address, message = MESSAGES[name]
    body = put(message, data.draw(st.sampled_from(places(message))), data.draw(JUNK))

    response = admin.post(address, data=json.dumps(body), content_type="application/json")

    assert response.status_code in {200, 201, 404, 409, 422}, response.text
    if response.status_code >= 400:
        assert response.json["code"] != "internal"


@pytest.mark.parametrize("noun", ["nodes", "devices", "failures", "quarantines", "conflicts", "events"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_junk_in_an_address_is_refused_and_nothing_breaks(admin: Asker, noun: str, data: st.DataObject) -> None:
    word = (
        data.draw(st.one_of(st.sampled_from(WORDS), st.text(min_size=1, max_size=20)))
        .encode("utf-8", "replace")
        .decode()
    )
    name = data.draw(st.sampled_from(["limit", "cursor", "order", "state", "device", "node", "type", "since", "id"]))

    listed = admin.get(f"/v1/{noun}", query_string={name: word})
    shown = admin.get(f"/v1/{noun}/{word.replace('/', '%2F').replace('?', '%3F').replace('#', '%23') or 'x'}")

    assert listed.status_code in {200, 404, 409, 422}, listed.text
    assert shown.status_code in {200, 404, 405, 409, 422}, shown.text
