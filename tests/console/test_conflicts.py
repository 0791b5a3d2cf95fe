# SPDX-License-Identifier: Apache-2.0
"""Can a person see what contradicts what, and rule on it knowing what that does?"""

from __future__ import annotations

import pytest
from flask import Flask

from api.context import standing
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import Fleet, gpu, serial
from tests.services.disputes import conflicts
from tests.services.test_conflicts import RULES


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """The records of the application: node-a prints another serial beside the UUID of GPU 1."""
    known = Fleet(standing(app).database, clock)
    RULES["serial_differs"](known)
    return known


def the_one(fleet: Fleet) -> str:
    (found,) = conflicts(fleet, state="open")
    return str(found["id"])


def test_no_conflict_is_said_and_explained(operator: Visitor) -> None:
    assert "No list contradicts the records." in operator.page("/console/conflicts")


def test_both_records_stand_side_by_side_and_the_difference_in_words(operator: Visitor, fleet: Fleet) -> None:
    shown = operator.page("/console/conflicts")
    assert "Serial differs on node-a" in shown
    assert f"Printed by node-a in {gpu(1).slot}, and on record:" in shown
    assert f"serial {serial(9)} {serial(1)} ✕ differ" in shown
    assert "uuid" in shown


def test_one_conflict_tells_what_each_way_does(operator: Visitor, fleet: Fleet) -> None:
    shown = operator.page(f"/console/conflicts/{the_one(fleet)}")
    assert "is taken for the recorded device" in shown
    assert "identifiers that no other device bears" in shown
    assert f"Type the serial {serial(9)} again" in shown


@pytest.mark.parametrize("as_", ["same_device", "different_devices"])
def test_a_ruling_ends_it_and_is_kept_with_its_reason(operator: Visitor, fleet: Fleet, as_: str) -> None:
    form = {"as": as_, "reason": "read the <label>", "retyped": serial(9)}
    told = operator.act(f"/console/conflicts/{the_one(fleet)}/resolve", form)
    assert f"The conflict on node-a was resolved as {as_.replace('_', ' ')}." in told
    (found,) = conflicts(fleet)
    assert (found["resolved_as"], found["resolved_by"], found["resolve_reason"]) == (
        *(as_, "operator:alice"),
        "read the <label>",
    )
    assert "read the <label>" in operator.page("/console/conflicts?state=resolved")
    assert "It ends" not in operator.page(f"/console/conflicts/{found['id']}")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"retyped": serial(1)}, "typed again is not"),
        ({"reason": " "}, "reason is empty"),
        ({"as": "both"}, "the way to resolve it must be"),
    ],
)
def test_what_is_not_meant_is_not_done_and_stays_typed(
    operator: Visitor, fleet: Fleet, wrong: dict[str, str], said: str
) -> None:
    form = {"as": "same_device", "reason": "as it was", "retyped": serial(9), **wrong}
    answer = operator.post(f"/console/conflicts/{the_one(fleet)}/resolve", form)
    assert answer.status_code == 422
    assert said in words_of(answer)
    assert len(conflicts(fleet, state="open")) == 1
    if wrong.get("reason") is None:
        assert "as it was" in answer.text


def test_a_way_that_is_not_possible_says_why(operator: Visitor, app: Flask, clock: Clock) -> None:
    fleet = Fleet(standing(app).database, clock)
    RULES["uuid_repeated"](fleet)
    found = conflicts(fleet, state="open")[0]
    shown = operator.get(f"/console/conflicts/{found['id']}")
    assert "Not possible here:" in words_of(shown)
    assert 'value="same_device" required disabled' in shown.text
    form = {"as": "same_device", "reason": "x", "retyped": serial(1)}
    assert operator.post(f"/console/conflicts/{found['id']}/resolve", form).status_code == 422


def test_a_conflict_that_another_has_resolved_is_said(operator: Visitor, fleet: Fleet) -> None:
    address = f"/console/conflicts/{the_one(fleet)}/resolve"
    form = {"as": "same_device", "reason": "x", "retyped": serial(9)}
    operator.act(address, form)
    again = operator.post(address, form)
    assert again.status_code == 409
    assert "is resolved already" in words_of(again)


def test_filters_stand_in_the_address(operator: Visitor, fleet: Fleet) -> None:
    assert "Serial differs" in operator.page(f"/console/conflicts?device={serial(1)}&node=node-a&rule=serial_differs")
    assert "No conflict is like this." in operator.page("/console/conflicts?node=node-b")
    assert operator.get("/console/conflicts?rule=bad").status_code == 422
    assert operator.get("/console/conflicts/nobody").status_code == 404


def test_an_auditor_looks_and_may_not_rule(auditor: Visitor, fleet: Fleet) -> None:
    shown = auditor.get(f"/console/conflicts/{the_one(fleet)}")
    assert "An operator can resolve it." in words_of(shown)
    assert 'action="/console/conflicts/' not in shown.text
    assert auditor.post(f"/console/conflicts/{the_one(fleet)}/resolve", {"as": "same_device"}).status_code == 403
