# SPDX-License-Identifier: Apache-2.0
"""Are states, ages, times and numbers said so that nobody has to guess?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from api.console import words
from registry.domain.capacity import CapacityState
from registry.domain.checks import CheckStatus
from registry.domain.node_status import NodeStatus
from registry.domain.quarantine import ReleasePolicy
from tests.clock import NOON

STATES = ("in_service", "quarantined", "missing", "detached", "conflict", "unidentified")


@pytest.mark.parametrize("word", [*STATES, *NodeStatus, *CapacityState, *CheckStatus])
def test_every_state_has_a_tone_and_a_sign_of_its_own_shape(word: str) -> None:
    assert str(word) in words.TONES
    assert words.sign(word) == words.SIGNS[words.TONES[str(word)]]


def test_signs_are_told_apart_without_colour() -> None:
    assert len(set(words.SIGNS.values())) == len(words.SIGNS)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7_199, "119 min ago"),
        (7_200, "2 h ago"),
        (172_799, "47 h ago"),
        (172_800, "2 d ago"),
        (-3_600, "in 60 min"),
    ],
)
def test_an_age_is_said_in_the_unit_that_fits(seconds: int, said: str) -> None:
    assert words.age(NOON - timedelta(seconds=seconds), NOON) == said


def test_a_time_is_utc_to_the_second_from_text_or_value() -> None:
    assert words.clock(NOON) == words.clock("2026-11-29T12:00:00.123456Z") == "2026-11-29 12:00:00 UTC"
    assert words.exact(NOON) == "2026-11-29T12:00:00Z"


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.9999, "99.9 %"),
        (0.0004, "0 %"),
        (0.1234, "12.3 %"),
        (-0.5, "-50 %"),
        (2, "200 %"),
    ],
)
def test_what_is_nearly_all_is_not_said_to_be_all(share: float, said: str) -> None:
    assert words.percent(share) == said.replace(" ", "\u00a0")


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (1234567, "1\u202f234\u202f567"), (2.0, "2"), (0.694, "0.69"), (1234.5, "1\u202f234.5")],
)
def test_thousands_are_kept_apart_as_no_point_is(value: float, said: str) -> None:
    assert words.number(value) == said


def test_a_name_is_one_part_of_an_address() -> None:
    assert words.segment("a/b ?#") == "a%2Fb%20%3F%23"


def test_a_command_in_a_sentence_is_shown_as_one_and_nothing_of_it_is_markup() -> None:
    assert words.typed("run `a <b>` <now>") == "run <code>a &lt;b&gt;</code> &lt;now&gt;"
    assert words.typed("one ` alone") == "one ` alone"


@pytest.mark.parametrize("policy", ReleasePolicy)
def test_what_ends_a_hold_is_said_in_a_sentence(policy: ReleasePolicy) -> None:
    assert words.ending(str(policy)).startswith("Ends ")


def test_an_event_is_told_by_what_it_has() -> None:
    assert words.tell(
        {"from_node": "a", "code": "", "slot": None, "to": ["x"]}, ("code", "slot", "from_node", "to", "at")
    ) == ("from node a, to ['x']")
