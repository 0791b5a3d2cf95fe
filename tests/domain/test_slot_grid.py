# SPDX-License-Identifier: Apache-2.0
"""Does the grid of a node show what is there, what is not, and what nobody expected?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from registry.domain.decision import DeviceRef
from registry.domain.slot_grid import Cell, CellState, Grid, grid_of
from tests.clock import NOON


def cell(number: int, state: CellState = CellState.IN_SERVICE, *, age: int = 0) -> Cell:
    """The cell of a GPU in the slot of its number, placed so many seconds before noon."""
    ref = DeviceRef(f"d{number}", "gpu", f"16500000000{number:02d}", f"GPU-{number}", f"0000:{number:02x}:00.0")
    return Cell("gpu", state, ref, since=NOON - timedelta(seconds=age))


def states(grid: Grid) -> list[str]:
    return [str(one.state) for one in grid.cells]


def test_slots_stand_in_the_order_of_their_addresses_and_those_without_one_last() -> None:
    nowhere = replace(cell(0), device=DeviceRef("d0"))
    grid = grid_of("gpu", [nowhere, cell(3), cell(1)], [cell(2, CellState.MISSING)], count=3, expected=4)
    assert [one.slot for one in grid.cells] == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0", None]
    assert states(grid) == ["in_service", "missing", "in_service", "in_service"]


@pytest.mark.parametrize(
    ("listed", "missing", "expected", "unseen"),
    [(2, 0, 4, 2), (2, 1, 4, 1), (2, 2, 4, 0), (0, 0, 1, 1), (4, 0, 4, 0), (2, 0, None, 0)],
)
def test_what_was_expected_and_never_seen_has_cells_too(
    listed: int, missing: int, expected: int | None, unseen: int
) -> None:
    gone = [cell(9 + at, CellState.MISSING) for at in range(missing)]
    grid = grid_of("gpu", [cell(at) for at in range(listed)], gone, count=listed, expected=expected)
    assert states(grid).count("never_seen") == unseen


def test_the_one_that_came_last_is_the_one_too_many() -> None:
    grid = grid_of("gpu", [cell(1, age=60), cell(2, age=5), cell(3, age=60)], [], count=3, expected=2)
    assert states(grid) == ["in_service", "unexpected", "in_service"]
    assert grid.sentence == "3 of 2 listed; 1 too many."


def test_nobody_is_called_one_too_many_who_came_with_another() -> None:
    grid = grid_of("gpu", [cell(1, age=60), cell(2, age=60), cell(3, age=60)], [], count=3, expected=2)
    assert states(grid) == ["in_service"] * 3


def test_all_of_a_kind_that_is_not_expected_are_too_many() -> None:
    assert states(grid_of("efa", [cell(1), cell(2)], [], count=2, expected=0)) == ["unexpected"] * 2


def test_what_is_worse_than_unexpected_is_said_instead() -> None:
    held = cell(2, CellState.QUARANTINED, age=5)
    assert states(grid_of("gpu", [cell(1, age=60), held], [], count=2, expected=1)) == ["in_service", "quarantined"]


@pytest.mark.parametrize(
    ("count", "expected", "sentence"),
    [
        (8, 8, "8 of 8 listed."),
        (7, 8, "7 of 8 listed; 1 short."),
        (None, 8, "No list has come yet; 8 expected."),
        (None, None, "No list has come yet."),
        (3, None, "3 listed; nobody said how many to expect."),
    ],
)
def test_a_sentence_says_how_many_of_how_many(count: int | None, expected: int | None, sentence: str) -> None:
    assert Grid("gpu", (), count, expected).sentence == sentence


def test_devices_are_told_apart_by_the_end_of_serial_then_uuid_then_by_name() -> None:
    serial = DeviceRef(serial="1650000000042", uuid="GPU-x-000000000007")
    assert Cell("gpu", CellState.IN_SERVICE, serial).tail == "000042"
    assert Cell("gpu", CellState.IN_SERVICE, DeviceRef(uuid="GPU-x-000000000007")).tail == "000007"
    assert Cell("efa", CellState.IN_SERVICE, name="rdmap80s0").tail == "rdmap80s0"
    assert Cell("gpu", CellState.NEVER_SEEN).tail is None
