# SPDX-License-Identifier: Apache-2.0
"""Is it said truly where print and record differ, and what each ruling would do?"""

from __future__ import annotations

import pytest

from registry.domain.conflict_sides import DIFFERENT, SAME, Agreement, compare, ways
from registry.domain.known import ConflictRule


def test_each_field_says_how_print_and_record_stand_to_each_other() -> None:
    printed = {"serial": "1", "uuid": "GPU-a", "model": "H100", "slot": ""}
    recorded = {"serial": "2", "uuid": "GPU-a", "module_id": "3", "slot": None}
    assert [(one.name, one.printed, one.recorded, one.agreement) for one in compare(printed, recorded)] == [
        ("serial", "1", "2", Agreement.DIFFERS),
        ("uuid", "GPU-a", "GPU-a", Agreement.SAME),
        ("model", "H100", None, Agreement.NOT_RECORDED),
        ("module_id", None, "3", Agreement.NOT_PRINTED),
    ]


def test_a_leading_zero_is_a_difference() -> None:
    (line,) = compare({"serial": "0320117100219"}, {"serial": "320117100219"})
    assert line.agreement is Agreement.DIFFERS


@pytest.mark.parametrize("rule", ConflictRule)
def test_both_ways_are_told_for_every_contradiction(rule: ConflictRule) -> None:
    same, different = ways(rule, involved=1, is_known=False)
    assert (same.word, different.word) == (SAME, DIFFERENT)
    assert same.does.startswith("From now on")
    assert different.does.startswith("From now on")
    assert different.why_not is None


@pytest.mark.parametrize(
    ("rule", "involved", "words"),
    [
        (ConflictRule.UUID_REPEATED, 1, "cannot be in both"),
        (ConflictRule.IDS_DISAGREE, 2, "involves 2 recorded devices"),
        (ConflictRule.BOARD_TAKEN, 0, "involves 0 recorded devices"),
    ],
)
def test_the_same_device_is_no_way_where_it_cannot_be_told_which(rule: ConflictRule, involved: int, words: str) -> None:
    assert words in str(ways(rule, involved=involved, is_known=False)[0].why_not)


@pytest.mark.parametrize(
    ("rule", "is_known", "words"),
    [
        (ConflictRule.SERIAL_ON_TWO_NODES, True, "bears its UUID"),
        (ConflictRule.SERIAL_ON_TWO_NODES, False, "does not bear the serial"),
        (ConflictRule.BOARD_TAKEN, True, "on the same board"),
        (ConflictRule.TWO_NODES, False, "in this slot of this instance is a device of its own on a board of its own"),
        (ConflictRule.SERIAL_DIFFERS, False, "identifiers that no other device bears"),
    ],
)
def test_another_device_is_told_as_what_it_will_be(rule: ConflictRule, is_known: bool, words: str) -> None:
    assert words in ways(rule, involved=1, is_known=is_known)[1].does
