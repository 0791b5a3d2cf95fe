# SPDX-License-Identifier: Apache-2.0
"""Is a GPU called hot only against neighbours that do the same work, and only when it lasts?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.heat import THERMAL, Gpu, Times, Verdict, compare
from registry.domain.policy import Policy
from registry.domain.reports import CheckStatus
from tests.clock import NOON

POLICY = Policy()
BLANKS = [9223372036854775794, 2147483632, 65535, 510, 2112, 0, -1, None, True, "61", float("nan"), float("inf")]


def card(
    number: int, celsius: Any = 60, watts: Any = 600, percent: Any = 98, *, model: str | None = "nvidia H100"
) -> Gpu:
    readings = {"temperature_celsius": celsius, "power_watts": watts, "utilization_percent": percent}
    return Gpu(f"card {number}", f"slot {number}", model, readings)


def eight(hot: Any = 60, **changes: Any) -> list[Gpu]:
    """Eight GPUs at work; number 3 has another temperature, or whatever the changes say."""
    return [card(at) if at != 3 else card(3, hot, **changes) for at in range(8)]


def look(entries: list[Gpu], *, after: float = 0, before: Verdict | None = None, **policy: Any) -> Verdict:
    since: dict[str, Times] = before.since if before else {}
    return compare(entries, since, replace(POLICY, **policy), NOON + timedelta(seconds=after))


def statuses(verdict: Verdict) -> list[CheckStatus]:
    assert {one.name for one in verdict.results} <= {THERMAL}
    return [one.status for one in verdict.results]


def lasting(entries: list[Gpu], **policy: Any) -> Verdict:
    """What two looks say that stand a whole window apart."""
    return look(entries, after=300, before=look(entries, **policy), **policy)


def test_neighbours_of_one_warmth_pass() -> None:
    assert statuses(look(eight())) == [CheckStatus.PASS]
    assert statuses(lasting(eight(69.9))) == [CheckStatus.PASS]


def test_ten_degrees_more_are_a_warning_once_they_have_lasted() -> None:
    first = look(eight(70))
    almost = look(eight(70), after=299, before=first)
    lasted = look(eight(70), after=300, before=almost)

    assert statuses(first) == statuses(almost) == [CheckStatus.PASS]
    assert statuses(lasted) == [CheckStatus.WARN]


def test_a_finding_names_the_gpu_and_the_numbers_it_was_decided_from() -> None:
    (found,) = lasting(eight(76, watts=612)).results

    assert found.device == "slot 3"
    assert found.code == "gpu.thermal.neighbour_outlier"
    told = str(found.message)
    assert all(text in told for text in ("76 °C", "612 W", "16 °C above", "7 neighbours", "60 °C", "12:00:00Z"))


@pytest.mark.parametrize(
    ("hot", "counts", "expected"),
    [
        (74.9, True, CheckStatus.WARN),
        (75, True, CheckStatus.FAIL),
        (75, False, CheckStatus.WARN),
        (140, False, CheckStatus.WARN),
    ],
)
def test_fifteen_degrees_more_fail_only_where_heat_counts(hot: float, counts: bool, expected: CheckStatus) -> None:
    assert statuses(lasting(eight(hot), heat_counts=counts)) == [expected]


def test_the_second_margin_has_to_last_by_itself() -> None:
    warm = look(eight(70), heat_counts=True)
    fierce = look(eight(80), after=200, before=warm, heat_counts=True)
    early = look(eight(80), after=499, before=fierce, heat_counts=True)
    late = look(eight(80), after=500, before=early, heat_counts=True)

    assert statuses(early) == [CheckStatus.WARN]
    assert statuses(late) == [CheckStatus.FAIL]


def test_a_reading_that_wavers_about_the_margin_is_one_story() -> None:
    hot = lasting(eight(70))
    wavering = look(eight(67), after=330, before=hot)
    cool = look(eight(66.9), after=360, before=wavering)

    assert statuses(wavering) == [CheckStatus.WARN]
    assert statuses(cool) == [CheckStatus.PASS]
    assert cool.since == {}


def test_a_moment_of_coolness_begins_the_window_anew() -> None:
    first = look(eight(70))
    cool = look(eight(60), after=200, before=first)
    again = look(eight(70), after=230, before=cool)

    assert statuses(cool) == [CheckStatus.PASS]
    assert statuses(look(eight(70), after=330, before=again)) == [CheckStatus.PASS]


@pytest.mark.parametrize("blank", BLANKS)
def test_a_number_that_is_no_temperature_is_no_outlier_and_moves_no_median(blank: Any) -> None:
    assert statuses(lasting(eight(blank))) == [CheckStatus.PASS]
    blanks = [card(at, blank) for at in range(4, 8)]
    assert statuses(lasting([*[card(at) for at in range(3)], card(3, 70), *blanks])) == [CheckStatus.WARN]


@pytest.mark.parametrize("unread", [None, "N/A", True, float("nan"), 2147483632])
def test_where_the_load_is_unknown_nothing_is_said(unread: Any) -> None:
    entries = [card(at, 90 if at == 3 else 60, unread, unread) for at in range(8)]

    assert lasting(entries) == Verdict((), {})


def test_a_loaded_gpu_is_not_compared_with_idle_ones() -> None:
    entries = [
        card(at, *((74, 640, 99) if at in (1, 4) else (celsius, 70, 0))) for at, celsius in enumerate(range(29, 53, 3))
    ]

    assert lasting(entries) == Verdict((), {})


def test_an_idle_gpu_that_is_still_hot_is_no_outlier() -> None:
    entries = [card(at, 60 if at == 3 else 35, 75, 0) for at in range(8)]

    assert lasting(entries) == Verdict((), {})


def test_load_is_told_by_power_and_only_without_it_by_use() -> None:
    by_power = [card(at, 70 if at == 3 else 60, 600, None) for at in range(8)]
    by_use = [card(at, 70 if at == 3 else 60, None, 97) for at in range(8)]
    stronger = [card(at, 70 if at == 3 else 60, 760 if at == 3 else 600, 97) for at in range(8)]

    assert statuses(lasting(by_power)) == statuses(lasting(by_use)) == [CheckStatus.WARN]
    assert "97 % busy" in str(lasting(by_use).results[0].message)
    assert statuses(lasting(stronger)) == [CheckStatus.PASS]


def test_another_model_is_no_neighbour_and_neither_is_one_without_a_name() -> None:
    mixed = [card(at, 60) for at in range(4)]
    mixed += [card(at, 80, model="nvidia H100 NVL") for at in range(4, 6)]
    mixed += [card(at, 80, model=None) for at in range(6, 8)]

    assert statuses(lasting(mixed)) == [CheckStatus.PASS]


def test_two_neighbours_are_too_few() -> None:
    assert lasting([card(0, 90), card(1), card(2)]) == Verdict((), {})
    assert statuses(lasting([card(0, 90), card(1), card(2), card(3)])) == [CheckStatus.WARN]


def test_another_card_in_the_slot_begins_anew() -> None:
    first = look(eight(80))
    swapped = [card(at) if at != 3 else card(9, 80) for at in range(8)]

    assert statuses(look(swapped, after=300, before=first)) == [CheckStatus.PASS]


def test_what_was_hot_for_long_stays_so_while_it_cannot_be_compared() -> None:
    hot = lasting(eight(80))
    idle = look(eight(50, watts=70, percent=0), after=330, before=hot)
    again = look(eight(80), after=360, before=idle)
    cooled = look(eight(60), after=360, before=idle)

    assert statuses(idle) == []
    assert statuses(again) == [CheckStatus.WARN]
    assert statuses(cooled) == [CheckStatus.PASS]


def test_a_card_that_left_the_list_is_forgotten() -> None:
    gone = [one for one in eight() if one.key != "card 3"]

    assert look(gone, after=330, before=lasting(eight(80))).since == {}


@given(st.lists(st.tuples(st.integers(1, 150), st.integers(1, 10_000), st.integers(0, 100)), max_size=9))
def test_no_gpu_is_called_hot_that_is_not_ten_degrees_above_the_coolest(cards: list[tuple[int, int, int]]) -> None:
    entries = [card(at, *readings) for at, readings in enumerate(cards)]
    coolest = min((celsius for celsius, _, _ in cards), default=0)

    for found in lasting(entries).results:
        if found.status is not CheckStatus.PASS:
            hot = next(one for one in entries if one.name == found.device)
            assert hot.readings["temperature_celsius"] >= coolest + POLICY.heat_warn_celsius  # type: ignore[operator]
