# SPDX-License-Identifier: Apache-2.0
"""Is a contradiction shown, and can a person rule on it?"""

from __future__ import annotations

import pytest

from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, codes, gpu, send
from tests.clock import Clock


def disagree(operator: Asker, node: Asker, clock: Clock) -> str:
    """Let a known UUID come with another serial, and return the conflict's id."""
    admit(operator, node, clock)
    clock.advance(31)
    devices = [{**gpu(SERIALS[0], 0x10), "serial": "1654000000077"}, gpu(SERIALS[1], 0x11)]
    assert "identity_conflict" in codes(send(node, devices=devices)["admission"])
    (conflict,) = operator.get("/v1/conflicts?state=open").json["items"]
    found: str = conflict["id"]
    return found


@pytest.mark.parametrize("ruling", ["same_device", "different_devices"])
def test_a_person_rules_once(operator: Asker, node: Asker, clock: Clock, ruling: str) -> None:
    address = f"/v1/conflicts/{disagree(operator, node, clock)}/resolve"

    ruled = operator.post(address, json={"reason": "looked at the board", "as": ruling})
    again = operator.post(address, json={"reason": "looked at the board", "as": ruling})

    assert (ruled.status_code, ruled.json["state"]) == (200, "resolved")
    assert (again.status_code, again.json["code"]) == (409, "not_open")
    assert operator.get(address.removesuffix("/resolve")).json == ruled.json
    assert operator.get("/v1/conflicts?state=open").json["items"] == []
    assert len(operator.get("/v1/conflicts").json["items"]) == 1


def test_a_ruling_says_which(operator: Asker) -> None:
    refused = operator.post("/v1/conflicts/x/resolve", json={"reason": "x", "as": "unsure"})

    assert [error["pointer"] for error in refused.json["errors"]] == ["/as"]
    assert operator.post("/v1/conflicts/x/resolve", json={"reason": "x", "as": "same_device"}).status_code == 404


def test_one_conflict_is_shown_as_its_list_shows_it(operator: Asker, node: Asker, clock: Clock) -> None:
    shown = operator.get(f"/v1/conflicts/{disagree(operator, node, clock)}")

    assert [shown.json] == operator.get("/v1/conflicts").json["items"]
    assert operator.get("/v1/conflicts/nobody").json["code"] == "not_found"
