# SPDX-License-Identifier: Apache-2.0
"""Is a promise judged by what was seen, split by whose fault it was, and not at all where nothing was seen?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.failures import Cause
from registry.domain.policy import Policy
from registry.domain.policy_file import PolicyError, parse_policy
from registry.domain.slo import (
    BURN_RULES,
    NODE_DAY,
    AlertLevel,
    Measured,
    Objective,
    ObjectiveName,
    Standing,
    burn_rate,
    judge,
    windows_of,
)
from tests.project import ROOT

AVAILABILITY, INTERRUPTIONS, GOODPUT = Policy().slo
NOTHING = Measured(0, {})


def seen(objective: Objective, usual: Measured, **windows: Measured) -> Standing:
    """Judge an objective by the same in every window but those named by their seconds."""
    others = {int(name.removeprefix("s")): one for name, one in windows.items()}
    return judge(objective, {length: others.get(length, usual) for length in windows_of(objective)})


def test_the_defaults_are_the_promised_ones() -> None:
    told = [(str(one.name), one.target_text, one.window_seconds) for one in Policy().slo]

    assert told == [
        ("availability", "95%", 30 * 86_400),
        ("interruptions", "6.5", 30 * 86_400),
        ("goodput", "90%", 30 * 86_400),
    ]


def test_the_thresholds_for_thirty_days_are_those_of_the_workbook() -> None:
    assert [round(rule.threshold(AVAILABILITY), 6) for rule in BURN_RULES] == [14.4, 6, 1]
    assert windows_of(AVAILABILITY) == (300, 1_800, 3_600, 21_600, 259_200, 2_592_000)


def test_where_nothing_was_seen_nothing_is_kept_and_nothing_broken() -> None:
    found = seen(AVAILABILITY, NOTHING)

    assert (found.actual, found.left, found.is_met, found.by_cause, found.alert) == (None, None, None, None, None)
    assert not any(burn.is_firing for burn in found.burns)


def test_a_share_is_what_is_left_when_each_causes_part_is_taken_away() -> None:
    found = seen(AVAILABILITY, Measured(1000, {Cause.HARDWARE: 20, Cause.USER: 5}))

    assert found.actual == pytest.approx(0.975)
    assert found.left == pytest.approx(0.5)
    assert found.is_met is True
    assert found.by_cause == {
        Cause.HARDWARE: 0.02,
        Cause.DRIVER: 0,
        Cause.PLATFORM: 0,
        Cause.USER: 0.005,
        Cause.UNKNOWN: 0,
    }


def test_a_promise_that_is_broken_has_less_than_nothing_left() -> None:
    found = seen(GOODPUT, Measured(100, {Cause.PLATFORM: 15}))

    assert found.is_met is False
    assert found.left == pytest.approx(-0.5)


def test_a_program_that_fails_by_itself_interrupts_nothing_of_the_platforms() -> None:
    bad = {Cause.HARDWARE: 4, Cause.DRIVER: 1, Cause.PLATFORM: 1, Cause.USER: 50, Cause.UNKNOWN: 2}
    found = seen(INTERRUPTIONS, Measured(1000 * NODE_DAY, bad))

    assert found.actual == pytest.approx(6)
    assert found.is_met is True
    assert found.by_cause is not None
    assert (found.by_cause[Cause.USER], found.by_cause[Cause.UNKNOWN]) == (50, 2)


@pytest.mark.parametrize(
    ("short", "long", "level"),
    [(80, 80, AlertLevel.PAGE), (0, 80, None), (80, 0, None), (79, 80, AlertLevel.PAGE), (71, 80, None)],
)
def test_an_hour_wakes_somebody_up_when_it_was_bad_and_still_is(
    short: int, long: int, level: AlertLevel | None
) -> None:
    found = seen(
        AVAILABILITY,
        Measured(100, {}),
        s300=Measured(100, {Cause.HARDWARE: short}),
        s3600=Measured(100, {Cause.HARDWARE: long}),
    )

    assert found.alert is level


def test_what_smoulders_for_three_days_is_a_ticket_and_worse_goes_before_it() -> None:
    slow = Measured(100, {Cause.DRIVER: 6})
    ticket = seen(AVAILABILITY, Measured(100, {}), s21600=slow, s259200=slow)
    worse = Measured(100, {Cause.DRIVER: 31})
    page = seen(AVAILABILITY, Measured(100, {}), s1800=worse, s21600=worse, s259200=worse)

    assert ticket.alert is AlertLevel.TICKET
    assert page.alert is AlertLevel.PAGE


def test_one_interruption_in_a_small_fleet_wakes_nobody_up() -> None:
    few = Measured(NODE_DAY, {Cause.HARDWARE: 2})

    assert seen(INTERRUPTIONS, few).alert is None
    assert seen(INTERRUPTIONS, replace(few, bad={Cause.HARDWARE: 2, Cause.USER: 9})).alert is None
    assert seen(INTERRUPTIONS, replace(few, bad={Cause.HARDWARE: 3})).alert is AlertLevel.PAGE


@given(st.integers(1, 10**18), st.data())
def test_what_goes_wrong_burns_and_more_burns_faster(total: int, data: st.DataObject) -> None:
    less = data.draw(st.integers(0, total))
    more = data.draw(st.integers(less, total))
    rates = [burn_rate(GOODPUT, Measured(total, {Cause.HARDWARE: bad})) for bad in (less, more)]

    assert rates[0] is not None
    assert rates[1] is not None
    assert 0 <= rates[0] <= rates[1]
    actual = seen(GOODPUT, Measured(total, {Cause.HARDWARE: more})).actual
    assert actual is not None
    assert 0 <= actual <= 1


# --- in the policy file -----------------------------------------------------------------------------------------------


def test_what_a_file_promises_is_taken_and_the_rest_kept() -> None:
    found = parse_policy(
        '[slo]\navailability = { target = "99.95%" }\ninterruptions = { target = "2.34", window = "7d" }'
    )

    assert found.slo == (
        Objective(ObjectiveName.AVAILABILITY, 99_950, 30 * 86_400),
        Objective(ObjectiveName.INTERRUPTIONS, 2_340, 7 * 86_400),
        GOODPUT,
    )
    assert [one.target_text for one in found.slo] == ["99.95%", "2.34", "90%"]
    assert found.digest != Policy().digest


def test_the_example_promises_what_is_built_in() -> None:
    example = (ROOT / "deploy/policy.example.toml").read_text()

    assert example.count("[slo]") == 1
    assert parse_policy(example).slo == Policy().slo


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("slo = 1", ["slo"]),
        ("[slo]\nuptime = {}", ["slo.uptime"]),
        ("[slo]\ngoodput = {}", ["slo.goodput"]),
        ('[slo]\ngoodput = "90%"', ["slo.goodput"]),
        ('[slo]\ngoodput = { goal = "90%" }', ["slo.goodput.goal"]),
        *(
            (f"[slo]\ngoodput = {{ target = {value} }}", ["slo.goodput.target"])
            for value in ('"100%"', '"0%"', '"0.000%"', '"90"', "90", "0.9", '"99.9999%"', '"-1%"')
        ),
        *(
            (f"[slo]\ninterruptions = {{ target = {value} }}", ["slo.interruptions.target"])
            for value in ('"0"', '"6.5%"', "6.5", '"1.2345"')
        ),
        ('[slo]\navailability = { window = "2d" }', ["slo.availability.window"]),
        ('[slo]\navailability = { window = "400d" }', ["slo.availability.window"]),
        ("[slo]\navailability = { window = 30 }", ["slo.availability.window"]),
    ],
)
def test_what_cannot_be_promised_is_told_with_its_key(text: str, keys: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)

    assert [one.key for one in caught.value.problems] == keys
