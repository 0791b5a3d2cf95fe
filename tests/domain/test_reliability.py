# SPDX-License-Identifier: Apache-2.0
"""Do the formulas give the numbers that were published with them?"""

from __future__ import annotations

import math

import pytest

from registry.domain.reliability import (
    LLAMA_3,
    chance_of_failure,
    checkpoint_interval_seconds,
    failures_per_1000_node_days,
    mttf_seconds,
)

RATE = 6.50
GPUS_PER_NODE = 8


@pytest.mark.parametrize(("gpus", "percent"), [(256, 19.1), (1024, 57.1)])
def test_one_percent_a_year_is_much_for_a_month_of_many_gpus(gpus: int, percent: float) -> None:
    assert round(100 * chance_of_failure(gpus, yearly=0.01, days=30), 1) == percent


def test_a_chance_is_no_rate() -> None:
    assert chance_of_failure(0, yearly=0.5, days=30) == 0
    assert chance_of_failure(1, yearly=0.5, days=365) == 0.5
    with pytest.raises(ValueError, match="between 0 and 1"):
        chance_of_failure(1, yearly=1.1, days=1)


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.80), (131_072, 0.23)])
def test_the_time_to_failure_shrinks_with_the_job(gpus: int, hours: float) -> None:
    found = mttf_seconds(gpus / GPUS_PER_NODE, per_1000_node_days=RATE)

    assert round(found / 3600, 2) == hours


def test_what_never_fails_needs_no_checkpoint() -> None:
    assert mttf_seconds(100, per_1000_node_days=0) == math.inf
    assert checkpoint_interval_seconds(checkpoint_seconds=300, mttf=math.inf) == math.inf


def test_a_checkpoint_of_five_minutes_on_2048_nodes_is_taken_every_half_hour() -> None:
    mttf = mttf_seconds(2048, per_1000_node_days=RATE)

    assert round(checkpoint_interval_seconds(checkpoint_seconds=300, mttf=mttf)) == 1973


def test_the_rate_is_what_the_time_to_failure_is_made_of() -> None:
    assert failures_per_1000_node_days(13, 2000 * 86_400) == RATE
    assert failures_per_1000_node_days(0, 0) is None


def test_the_interruptions_of_llama_3_add_up_by_count() -> None:
    total = sum(one.count for one in LLAMA_3)
    of_gpus = sum(one.count for one in LLAMA_3 if one.category == "gpu")

    assert (total, of_gpus) == (419, 268)
    assert round(100 * of_gpus / total, 1) == 64.0
    assert len({one.component for one in LLAMA_3}) == len(LLAMA_3)
