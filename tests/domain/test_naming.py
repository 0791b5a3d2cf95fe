# SPDX-License-Identifier: Apache-2.0
"""Is a device that a tool merely counts the one that stands there in the list, and nobody where that is not certain?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from registry.domain.naming import (
    Roll,
    has_counted,
    is_counted,
    lay_to_node,
    names_another,
    told_in_boot,
    without_device,
)
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Report, ReportedFailure, device_by_index

FAIL = CheckStatus.FAIL


def line(number: int, **changes: Any) -> DeviceEntry:
    """The GPU in the slot of this number."""
    plain = DeviceEntry(
        "gpu", "nvidia", slot=f"0000:{number:02x}:00.0", uuid=f"GPU-{number}", serial=f"serial-{number}"
    )
    return replace(plain, **changes)


def report(**fields: Any) -> Report:
    return Report("node-a", "r-1", "b-1", "i-1", "p", **fields)


def at(roll: Roll, index: int) -> str | None:
    found = roll.find(device_by_index("gpu", index))
    return found.uuid or found.slot if found else None


@pytest.mark.parametrize(
    ("ref", "is_one"),
    [("gpu:0", True), ("gpu:12", True), ("efa:1", True), ("gpu:01", False), ("GPU-1", False), ("0000:01:00.0", False)],
)
def test_a_reference_that_counts_is_told_from_names(ref: str, is_one: bool) -> None:
    assert is_counted(ref) is is_one


def test_lines_are_counted_in_their_order() -> None:
    roll = Roll.of([line(7), line(3)])

    assert [at(roll, index) for index in range(3)] == ["GPU-7", "GPU-3", None]


def test_the_index_that_was_printed_goes_before_the_order() -> None:
    roll = Roll.of([line(1, readings={"index": 1}), line(2, readings={"index": 3}), line(3)])

    assert [at(roll, index) for index in range(4)] == [None, "GPU-1", None, "GPU-2"]


def test_an_index_that_stands_twice_counts_for_neither() -> None:
    roll = Roll.of([line(1, readings={"index": 0}), line(2, readings={"index": 0})])

    assert at(roll, 0) is None


def test_a_gpu_that_does_not_answer_keeps_its_number_on_the_bus() -> None:
    silent = line(2, uuid=None, serial=None)

    roll = Roll.of([silent, line(1), line(3)])

    assert [at(roll, index) for index in range(3)] == ["GPU-1", silent.slot, "GPU-3"]


def test_nothing_is_counted_where_nobody_knows_the_place_of_one_that_does_not_answer() -> None:
    roll = Roll.of([line(2, uuid=None, serial=None), line(1, slot=None)])

    assert at(roll, 0) is None


def test_nothing_is_counted_in_a_list_that_lacks_devices() -> None:
    assert at(Roll.of([line(1), line(2)], frozenset({"gpu"})), 0) is None


def test_each_kind_is_counted_for_itself() -> None:
    efa = DeviceEntry("efa", "amazon", slot="0000:50:00.0", name="rdmap80s0")
    roll = Roll.of([efa, line(1)])

    assert at(roll, 0) == "GPU-1"
    assert roll.find("efa:0") is efa
    assert roll.find("rdmap80s0") is efa


def test_a_serial_that_two_lines_share_means_neither() -> None:
    roll = Roll.of([line(1, serial="S"), line(2, serial="S")])

    assert roll.find("S") is None
    assert roll.find("GPU-2") is not None


def test_results_and_faults_are_put_to_the_slot() -> None:
    roll = Roll.of([line(1), line(2, slices=("MIG-1",))])

    assert roll.settle(CheckResult("dcgm.diag", FAIL, "gpu:1")).device == "0000:02:00.0"
    for ref in ("gpu:1", "GPU-2", "serial-2", "MIG-1"):
        placed = roll.place(ReportedFailure("f-1", "dcgm_faulty_memory", device=ref))
        assert (placed.device, placed.slot) == (None, "0000:02:00.0")


def test_a_line_without_a_slot_is_named_by_its_uuid() -> None:
    roll = Roll.of([line(1, slot=None)])

    placed = roll.place(ReportedFailure("f-1", "dcgm_faulty_memory", device="gpu:0"))

    assert (placed.device, placed.slot) == ("GPU-1", None)


def test_what_means_no_line_stays_as_it_is() -> None:
    roll = Roll.of([line(1)])
    failure, check = ReportedFailure("f-1", "xid_79", device="gpu:5"), CheckResult("dcgm.diag", FAIL, "serial-9")

    assert roll.place(failure) == failure
    assert roll.settle(check) == check


def test_a_fault_that_was_placed_has_an_id_of_its_own_and_always_the_same() -> None:
    failure = ReportedFailure("f-1", "dcgm_faulty_memory", device="gpu:0")
    placed = Roll.of([line(1)]).place(failure)

    assert placed.failure_id != failure.failure_id
    assert placed == Roll.of([line(1)]).place(failure)
    assert placed.failure_id != Roll.of([line(2)]).place(failure).failure_id != without_device(failure).failure_id


def test_what_nobody_can_place_is_the_nodes_and_says_whom_the_tool_named() -> None:
    told = report(
        checks=(CheckResult("dcgm.diag", FAIL, "gpu:3", None, "memory"), CheckResult("gpu.ecc", FAIL, "GPU-1")),
        failures=(ReportedFailure("f-1", "dcgm_faulty_memory", device="gpu:3", message="memory"),),
    )

    laid = lay_to_node(told)

    assert has_counted(told)
    assert not has_counted(laid)
    assert [(one.device, one.message) for one in laid.checks] == [(None, "gpu:3: memory"), ("GPU-1", None)]
    assert [(one.device, one.message) for one in laid.failures] == [(None, "gpu:3: memory")]


def test_a_fault_without_a_time_is_told_once_in_a_boot_and_one_with_a_time_once() -> None:
    undated = ReportedFailure("f-1", "dcgm_faulty_memory")
    dated = replace(undated, occurred_at=datetime(2026, 11, 29, tzinfo=UTC))

    assert told_in_boot(undated, "b-1") == told_in_boot(undated, "b-1") != told_in_boot(undated, "b-2")
    assert told_in_boot(dated, "b-1") == dated


@pytest.mark.parametrize(
    ("ref", "serial", "uuid", "another"),
    [
        (None, "1650", "GPU-00000000-0000-4000-8000-000000000001", False),
        ("1650", "1650", None, False),
        ("1651", "1650", None, True),
        ("1651", None, "GPU-00000000-0000-4000-8000-000000000001", False),
        ("[N/A]", "1650", None, False),
        ("0000:10:00.0", "1650", None, False),
        ("gpu:3", "1650", None, False),
        ("GPU-00000000-0000-4000-8000-00000000000A", "1650", "GPU-00000000-0000-4000-8000-00000000000a", False),
        ("GPU-00000000-0000-4000-8000-000000000002", "1650", "GPU-00000000-0000-4000-8000-000000000001", True),
        ("GPU-00000000-0000-4000-8000-000000000002", "1650", None, False),
        ("MIG-GPU-00000000-0000-4000-8000-000000000002/1/0", "1650", None, False),
    ],
)
def test_what_contradicts_the_unit_in_a_slot_means_another_card(
    ref: str | None, serial: str | None, uuid: str | None, another: bool
) -> None:
    assert names_another(ref, serial=serial, uuid=uuid) is another
