# SPDX-License-Identifier: Apache-2.0
"""Do both sides of each contradiction stand beside each other, and do the ways to resolve it do as they say?"""

from __future__ import annotations

import pytest

from registry.domain.conflict_sides import DIFFERENT, SAME
from registry.domain.errors import InvalidField, NotFound
from registry.services.conflict_view import SIDES_MAX, ConflictCard, get_card, list_cards
from registry.services.conflicts import resolve_conflict
from registry.services.devices import show_device
from registry.services.pages import PageRequest
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, serial, uuid
from tests.services.disputes import a, b, conflicts, rule
from tests.services.test_conflicts import RULES


def cards(fleet: Fleet, **filters: str) -> tuple[ConflictCard, ...]:
    return list_cards(fleet.db, filters, EVERYTHING, now=fleet.clock.now).cards


def only(fleet: Fleet) -> ConflictCard:
    (card,) = cards(fleet, state="open")
    return card


def resolve(fleet: Fleet, card: ConflictCard, as_: str) -> None:
    resolve_conflict(fleet.db, card.conflict["id"], reason="x", as_=as_, actor=ALICE, now=fleet.clock.now)


def test_another_serial_stands_beside_the_recorded_one(fleet: Fleet) -> None:
    RULES["serial_differs"](fleet)
    card = only(fleet)
    (side,) = card.sides
    told = {one.name: (one.printed, one.recorded, str(one.agreement)) for one in side.lines}
    assert told["serial"] == (serial(9), serial(1), "differs")
    assert told["uuid"] == (uuid(1), uuid(1), "same")
    assert told["node"] == ("node-a", "node-a", "same")
    assert (side.device.serial, side.state, side.node) == (serial(1), "conflict", "node-a")
    assert get_card(fleet.db, card.conflict["id"], now=fleet.clock.now) == card


@pytest.mark.parametrize("name", RULES)
def test_a_way_that_is_told_as_possible_is_taken_and_one_that_is_not_is_refused(fleet: Fleet, name: str) -> None:
    RULES[name](fleet)
    for card in cards(fleet, state="open"):
        same, different = card.ways
        assert different.why_not is None
        if same.why_not is not None:
            with pytest.raises(InvalidField):
                resolve(fleet, card, SAME)
        resolve(fleet, card, DIFFERENT if same.why_not else SAME)
    assert conflicts(fleet, state="open") == []


def test_a_unit_that_bears_the_uuid_already_is_told_to_be_the_other_device(fleet: Fleet) -> None:
    b(fleet, gpu(1))
    a(fleet, gpu(9, at=1))
    a(fleet, gpu(9, at=1, serial=serial(1)))
    for card in cards(fleet, state="open"):
        is_told = "bears its UUID" in card.ways[1].does
        assert is_told == (card.conflict["rule"] == "serial_on_two_nodes")


def test_a_serial_on_hundreds_shows_a_few_of_them_and_says_how_many_more(fleet: Fleet) -> None:
    RULES["too_many_units"](fleet)
    card = cards(fleet, state="open")[0]
    assert len(card.sides) == min(SIDES_MAX, len(card.conflict["devices"]))
    assert card.more == len(card.conflict["devices"]) - len(card.sides)


def test_resolved_ones_are_found_with_who_and_why(fleet: Fleet) -> None:
    RULES["serial_differs"](fleet)
    rule(fleet, SAME, "read the label")
    (card,) = cards(fleet, state="resolved")
    assert (card.conflict["resolved_as"], card.conflict["resolve_reason"]) == (SAME, "read the label")
    assert cards(fleet, state="open") == ()
    assert show_device(fleet.db, uuid(1), now=fleet.clock.now)["state"] == "in_service"


def test_pages_end_and_what_is_not_there_is_said(fleet: Fleet) -> None:
    RULES["serial_differs"](fleet)
    page = list_cards(fleet.db, {}, PageRequest(1), now=fleet.clock.now)
    assert (len(page.cards), page.next) == (1, None)
    with pytest.raises(NotFound):
        get_card(fleet.db, "nobody", now=fleet.clock.now)
