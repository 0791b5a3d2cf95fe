# SPDX-License-Identifier: Apache-2.0
"""Does every list take every filter that it says it takes, in both orders?"""

from __future__ import annotations

import pytest

from api.v1 import conflicts, devices, events, failures, nodes, quarantines
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit
from tests.clock import Clock

FILTERS = {
    "nodes": nodes.FILTERS,
    "devices": devices.FILTERS,
    "failures": failures.FILTERS,
    "quarantines": quarantines.FILTERS,
    "conflicts": conflicts.FILTERS,
    "events": events.FILTERS,
}
VALUES = {
    "device": SERIALS[0],
    "since": "2026-01-01T00:00:00Z",
    "until": "2027-01-01T00:00:00Z",
    "actor": "node:node-a",
}


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("noun", sorted(FILTERS))
def test_a_filter_is_taken(operator: Asker, node: Asker, clock: Clock, noun: str, order: str) -> None:
    admit(operator, node, clock)
    query = {name: VALUES.get(name, "x") for name in FILTERS[noun]}

    alone = {
        name: operator.get(f"/v1/{noun}", query_string={name: value, "order": order}) for name, value in query.items()
    }
    together = operator.get(f"/v1/{noun}", query_string=query)

    assert {name: response.status_code for name, response in alone.items() if response.status_code != 200} == {}
    assert together.json == {"items": [], "next": None}
