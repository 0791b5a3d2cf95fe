# SPDX-License-Identifier: Apache-2.0
"""Are the arguments of commands read as their help says?"""

from __future__ import annotations

from datetime import timedelta

import click
import pytest

from registry.cli.kinds import Duration, Moment, given, paired


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("2d", 172_800), ("0", 0)],
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: int) -> None:
    assert Duration().convert(text, None, None) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "m", "15 m", "-5s", "1.5h", "15x", "9" * 20 + "d"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


def test_a_time_needs_its_offset() -> None:
    assert Moment().convert("2026-11-29T12:00:00+01:00", None, None) == "2026-11-29T12:00:00+01:00"
    with pytest.raises(click.BadParameter):
        Moment().convert("2026-11-29T12:00:00", None, None)


def test_only_what_was_given_is_sent() -> None:
    assert given(a=1, b=None, c="", d=False, e=(), f=0, g="x") == {"a": 1, "f": 0, "g": "x"}


def test_a_pair_keeps_what_follows_its_first_separator() -> None:
    assert paired("nvidia_smi_xml=a=b", "=", "NAME=FILE") == ("nvidia_smi_xml", "a=b")
    with pytest.raises(click.BadParameter):
        paired("nonsense", "=", "NAME=FILE")
