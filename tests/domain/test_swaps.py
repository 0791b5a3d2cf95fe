# SPDX-License-Identifier: Apache-2.0
"""Does a fault that goes with the card blame the card, and one that stays behind the slot?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from registry.domain.swaps import Neighbour, Seen, SwapVerdict, Visit, judge_swaps

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
XID = "gpu.fallen_off_bus"


def day(number: float) -> datetime:
    return BEGIN + timedelta(days=number)


def seen(node: str, slot: str | None, first: float, last: float | None = None, **more: str) -> Seen:
    return Seen(
        more.get("kind", XID), node, slot, day(first), day(first if last is None else last), more.get("machine")
    )


def test_without_a_fault_there_is_nothing_to_compare() -> None:
    judged = judge_swaps([], [Visit("a", "1", day(0))], [])

    assert (judged.verdict, judged.kind) == (SwapVerdict.NO_FAULT, None)


def test_the_same_fault_in_two_places_followed_the_card() -> None:
    judged = judge_swaps([seen("b", "2", 9), seen("a", "1", 3)], [], [])

    assert judged.verdict is SwapVerdict.FOLLOWED_CARD
    assert judged.sentence == (
        f"The fault followed the card: {XID} was seen in slot 1 of a and again in slot 2 of b. "
        "Failed in 2 slots of 2 nodes."
    )
    assert (judged.slots, judged.nodes) == (2, 2)


def test_two_slots_of_one_node_are_two_places() -> None:
    judged = judge_swaps([seen("a", "1", 3), seen("a", "2", 9)], [], [])

    assert (judged.verdict, judged.slots, judged.nodes) == (SwapVerdict.FOLLOWED_CARD, 2, 1)
    assert judged.sentence.endswith("Failed in 2 slots of 1 node.")


def test_another_fault_elsewhere_is_another_fault() -> None:
    judged = judge_swaps([seen("a", "1", 3), seen("b", "2", 9, kind="gpu.ecc.dbe")], [Visit("b", "2", day(5))], [])

    assert judged.verdict is not SwapVerdict.FOLLOWED_CARD


def test_the_fault_seen_in_most_places_decides() -> None:
    places = [seen("a", "1", 1), seen("b", "2", 2), seen("c", "3", 90, kind="gpu.ecc.dbe")]

    assert judge_swaps(places, [], []).kind == XID


def test_one_machine_under_two_names_is_one_place() -> None:
    judged = judge_swaps([seen("a", "1", 3, machine="CH-1"), seen("b", "1", 9, machine="CH-1")], [], [])

    assert (judged.verdict, judged.slots) == (SwapVerdict.NOT_SWAPPED, 1)


def test_one_slot_address_on_two_names_is_doubted_unless_the_chassis_are_known() -> None:
    doubtful = judge_swaps([seen("a", "1", 3), seen("b", "1", 9)], [], [])
    certain = judge_swaps([seen("a", "1", 3, machine="CH-1"), seen("b", "1", 9, machine="CH-2")], [], [])

    assert doubtful.verdict is certain.verdict is SwapVerdict.FOLLOWED_CARD
    assert "make sure that these are two machines" in doubtful.sentence
    assert "make sure" not in certain.sentence


def test_a_fault_that_another_card_shows_in_the_slot_stayed_there() -> None:
    judged = judge_swaps([seen("a", "1", 3)], [Visit("b", "2", day(5))], [Neighbour(XID, "a", "1", "1654", day(8))])

    assert judged.verdict is SwapVerdict.STAYED_WITH_SLOT
    assert judged.sentence.startswith("The fault stayed with the slot: ")
    assert "Another card, 1654, showed it in slot 1 of a on 2026-01-09T00:00:00Z." in judged.sentence


def test_another_cards_other_fault_says_nothing() -> None:
    judged = judge_swaps(
        [seen("a", "1", 3)], [Visit("b", "2", day(5))], [Neighbour("gpu.ecc.dbe", "a", "1", "1654", day(8))]
    )

    assert judged.verdict is SwapVerdict.NOT_SEEN_AGAIN


@pytest.mark.parametrize(
    "visits",
    [
        [],
        [Visit("a", "1", day(0))],
        [Visit("a", "1", day(5))],  # taken out and put back
        [Visit("b", "2", day(1)), Visit("a", "1", day(2))],  # elsewhere before it failed
    ],
)
def test_a_card_that_was_nowhere_else_since_is_not_swapped(visits: list[Visit]) -> None:
    judged = judge_swaps([seen("a", "1", 3)], visits, [Neighbour(XID, "a", "1", "1654", day(1))])

    assert judged.verdict is SwapVerdict.NOT_SWAPPED
    assert "Failed in 1 slot of 1 node." in judged.sentence


def test_without_slots_nodes_are_compared() -> None:
    judged = judge_swaps([seen("a", None, 3), seen("b", None, 9)], [], [])

    assert "seen in node a and again in node b" in judged.sentence
