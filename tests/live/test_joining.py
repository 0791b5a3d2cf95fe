# SPDX-License-Identifier: Apache-2.0
"""Is a join token traded as often as it may be and not once more, whatever happens at the same moment?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.live.machines import all_events
from tests.live.racing import Request, post_from_processes
from tests.live.server import Caller, LiveServer


def join_token(server: LiveServer, **changes: Any) -> dict[str, Any]:
    expires_at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    wish = {"role": "join", "name": "pool", "pattern": "join-*", "uses": 1, "expires_at": expires_at, **changes}
    made = server.admin.post("/v1/tokens", wish)
    assert made.status_code == 201, made.text
    told: dict[str, Any] = made.json()
    return told


def test_twenty_nodes_that_want_one_use_at_once_get_one_token(server: LiveServer) -> None:
    held = join_token(server)
    trades = [
        Request(f"{server.url}/v1/join", held["token"], {"node": f"join-{number}", "provider_id": f"i-{number}"})
        for number in range(20)
    ]

    answers = post_from_processes(trades)

    assert sorted(answer.status for answer in answers) == [201] + [403] * 19
    assert {answer.body["because"] for answer in answers if answer.status == 403} == {"used_up"}
    (made,) = server.admin.get(f"/v1/tokens?joined_with={held['id']}")["items"]
    assert made["id"] == next(answer.body["id"] for answer in answers if answer.status == 201)


def test_one_instance_that_asks_twenty_times_at_once_gets_one_token(server: LiveServer, auditor: Caller) -> None:
    held = join_token(server, uses=20)
    trade = Request(f"{server.url}/v1/join", held["token"], {"node": "join-twin", "provider_id": "i-twin"})

    answers = post_from_processes([trade] * 20)

    assert sorted(answer.status for answer in answers) == [201] + [409] * 19
    assert server.admin.get(f"/v1/tokens?id={held['id']}")["items"][0]["used"] == 1
    refused = [one for one in all_events(auditor, type="join.refused") if one["data"]["token"] == held["id"]]
    assert len(refused) == 1  # the first is news
