# SPDX-License-Identifier: Apache-2.0
"""Is one fault one failure, however many lines it fills and however often the log is read?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.collectors import kernel_log
from registry.collectors.kernel_log import parse_new_lines
from registry.domain.errors import PartUnreadable
from tests.collectors.kernel_logs import (
    APPLICATION,
    BOOT_ID,
    BOOT_TIME,
    FORMS,
    OFF_BUS,
    ORDINARY,
    OTHER_BOOT_ID,
    RECEIVED_AT,
    SLOT,
    dmesg,
    dmesg_iso,
    only,
    read,
    results,
    wall,
)

THRICE = [(1108.0, OFF_BUS), (1300.0, APPLICATION), (1843.0, OFF_BUS), (2501.0, OFF_BUS)]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_code_on_the_same_gpu_is_one_failure_with_its_count_and_times(form: str) -> None:
    fault, _ = read(FORMS[form](THRICE)).failures

    assert (fault.code, fault.slot, fault.count) == ("xid_79", SLOT, 3)
    assert (fault.occurred_at, fault.last_at) == (wall(1108.0), wall(2501.0))


def test_one_code_on_two_gpus_is_two_failures() -> None:
    failures = read(dmesg([(1.0, OFF_BUS), (2.0, OFF_BUS.replace("5a", "6b"))])).failures

    assert [(one.slot, one.count) for one in failures] == [(SLOT, 1), ("0000:6b:00.0", 1)]


def test_lines_out_of_order_do_not_turn_time_back() -> None:
    fault = only(read(dmesg([(20.0, OFF_BUS), (30.0, OFF_BUS), (29.9, OFF_BUS)])))

    assert (fault.occurred_at, fault.last_at, fault.count) == (wall(20.0), wall(30.0), 3)


def test_lines_with_one_sequence_number_are_counted_each() -> None:
    data = "".join(f"4,3973,22799663{at},-;{OFF_BUS}\n" for at in range(7)).encode()

    assert only(read(data)).count == 7


@pytest.mark.parametrize("form", FORMS)
def test_a_longer_log_with_the_same_beginning_tells_of_the_same_failures(form: str) -> None:
    short = {one.code: one.failure_id for one in read(FORMS[form](THRICE[:2])).failures}
    again = {one.code: one.failure_id for one in read(FORMS[form](THRICE[:2])).failures}
    longer = {one.code: one.failure_id for one in read(FORMS[form]([*THRICE, (2600.0, ORDINARY)])).failures}

    assert short == again == longer
    assert len(set(short.values())) == 2


def test_a_first_sight_at_another_time_is_another_failure() -> None:
    assert only(read(dmesg([(1.0, OFF_BUS)]))).failure_id != only(read(dmesg([(2.0, OFF_BUS)]))).failure_id


def test_the_same_second_of_two_boots_is_two_failures() -> None:
    data = dmesg([(1108.0, OFF_BUS)])

    assert only(read(data)).failure_id != only(read(data, boot_id=OTHER_BOOT_ID)).failure_id


def test_a_dated_line_is_the_same_failure_in_the_next_boot() -> None:
    data = dmesg_iso([(1108.0, OFF_BUS)])

    assert only(read(data)).failure_id == only(read(data, boot_id=OTHER_BOOT_ID, boot_time=None)).failure_id


def test_a_date_without_a_year_is_another_failure_a_year_later() -> None:
    line = f"Nov 20 06:18:28 node-7 kernel: {OFF_BUS}\n".encode()

    now = only(kernel_log.parse(line, received_at=RECEIVED_AT))
    later = only(kernel_log.parse(line, received_at=RECEIVED_AT.replace(year=2027)))

    assert now.failure_id != later.failure_id


def test_one_id_is_never_used_with_two_times() -> None:
    data = dmesg([(1108.0, OFF_BUS)])

    told = [only(read(data, boot_time=at)) for at in (BOOT_TIME, BOOT_TIME + timedelta(seconds=1), None)]

    assert len({one.occurred_at for one in told}) == len({one.failure_id for one in told}) == 3


def test_a_log_of_more_faults_than_a_node_can_have_is_refused() -> None:
    lines = ((1.0, OFF_BUS.replace("0000:5a", f"{at:04x}:5a")) for at in range(kernel_log.MAX_FAILURES + 1))

    with pytest.raises(PartUnreadable, match="different faults"):
        read(dmesg(lines))


def test_a_driver_that_is_loaded_again_and_again_tells_of_its_newest_loads() -> None:
    """They are no faults, and however many there are they hinder none from being read."""
    again = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.158.01  Mon Jun  2 13:13:04 UTC 2025"
    loads = [(1000.0 + at, again) for at in range(2 * kernel_log.MAX_FAILURES)]

    findings = read(dmesg([(1.0, OFF_BUS), *loads]), boot_time=BOOT_TIME)

    told = [one.code for one in findings.failures]
    assert told == ["xid_79", *["driver_loaded"] * kernel_log.MAX_LOADS]
    assert findings.failures[-1].occurred_at == BOOT_TIME + timedelta(seconds=loads[-1][0])


def test_no_new_lines_are_no_fault() -> None:
    findings = parse_new_lines(b"", received_at=RECEIVED_AT, boot_time=BOOT_TIME, boot_id=BOOT_ID)

    assert (findings.failures, results(findings)) == ((), [("pass", None, None)])
