# SPDX-License-Identifier: Apache-2.0
"""Does one sentence say why a device is in its state?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from registry.domain.csv_cells import safe_cell
from registry.domain.device_words import HoldTold, PlaceTold, sentence_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(days=1)
HERE = PlaceTold("node-a", "0000:10:00.0", AT)


def held(**changes: object) -> HoldTold:
    given = {"owner": "rule:xid_79", "reason": "fell off.", "opened_at": AT, "release_policy": "manual", **changes}
    return HoldTold(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "until a person releases it: fell off."),
        ({"release_policy": "after_passes"}, "until clean runs after a restart earn its release: fell off."),
        ({"release_policy": "at_expiry", "expires_at": LATER}, "until 2026-01-02T00:00:00Z: fell off."),
        ({"is_permanent": True}, "for good: fell off."),
    ],
)
def test_a_hold_says_whose_it_is_why_and_how_it_ends(change: dict[str, object], told: str) -> None:
    said = sentence_of("quarantined", holds=[held(**change)], place=HERE, conflict=None, failures=3)

    assert said == f"Held by rule:xid_79 since 2026-01-01T00:00:00Z, {told}"


def test_the_oldest_hold_is_told_and_the_others_are_counted() -> None:
    holds = [held(owner="operator:bob", opened_at=LATER), held(), held(owner="operator:eve", opened_at=LATER)]

    said = sentence_of("quarantined", holds=holds, place=HERE, conflict=None, failures=0)

    assert said.startswith("Held by rule:xid_79")
    assert said.endswith(" 2 more holds stand on it.")


@pytest.mark.parametrize(
    ("state", "place", "failures", "told"),
    [
        ("in_service", HERE, 0, "In slot 0000:10:00.0 of node-a since 2026-01-01T00:00:00Z: no failure is on record."),
        (
            *("in_service", HERE, 1),
            "In slot 0000:10:00.0 of node-a since 2026-01-01T00:00:00Z: no hold stands on it; 1 failure is on record.",
        ),
        (
            "in_service",
            PlaceTold("node-a", None, AT),
            0,
            "In node-a since 2026-01-01T00:00:00Z: no failure is on record.",
        ),
        (
            *("missing", PlaceTold("node-a", None, AT, missing_since=LATER), 0),
            "In node-a since 2026-01-01T00:00:00Z, but the node has not listed it since 2026-01-02T00:00:00Z.",
        ),
        ("detached", None, 0, "On record, and in no node so far."),
        (
            "detached",
            PlaceTold("node-a", "s", AT, LATER),
            0,
            "In no node now: last in slot s of node-a until 2026-01-02T00:00:00Z.",
        ),
    ],
)
def test_a_place_says_where_and_since_when(state: str, place: PlaceTold | None, failures: int, told: str) -> None:
    assert sentence_of(state, holds=[], place=place, conflict=None, failures=failures) == told


def test_a_conflict_says_what_contradicts() -> None:
    said = sentence_of("conflict", holds=[], place=HERE, conflict="node-b lists it too.", failures=0)

    assert said == "Kept out: node-b lists it too."


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["x=1", "", -1, 1.5, None])
def test_other_cells_stay_as_they_are(value: object) -> None:
    assert safe_cell(value) == value
