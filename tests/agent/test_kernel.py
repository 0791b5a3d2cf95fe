# SPDX-License-Identifier: Apache-2.0
"""Is the kernel log read on from where it was left, and is what it said in this boot not forgotten?"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from registry.agent.kernel import KernelLog
from registry.agent.memory import Memory
from registry.collectors import boot as boots
from registry.collectors.boot import Boot
from registry.collectors.running import ToolFailed, ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus, Findings
from tests.agent.machine import FakeMachine
from tests.clock import NOON


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def refuse(_: object) -> bytes:
    raise ToolMissing("there is no journalctl here")


def open_log(machine: FakeMachine, run: object = refuse) -> KernelLog:
    assert callable(run)
    boot = boots.collect(machine.root, refuse)
    memory = Memory(machine.root / "memory.json", boot.boot_id)
    return KernelLog(machine.root, run, boot, memory, lambda: NOON)


def codes(found: Findings) -> list[str]:
    return [failure.code for failure in found.failures]


def statuses(found: Findings) -> list[CheckStatus]:
    return [check.status for check in found.checks]


def test_a_log_without_an_xid_passes_at_the_first_look_and_at_every_later_one(machine: FakeMachine) -> None:
    log = open_log(machine)

    assert [statuses(log.read()) for _ in range(2)] == [[CheckStatus.PASS]] * 2


def test_each_look_tells_what_was_added_since_the_last(machine: FakeMachine) -> None:
    log = open_log(machine)
    told = [codes(log.read())]

    for number in (13, 79):
        machine.log_xid(0, number)
        told.append(codes(log.read()))

    assert [*told, codes(log.read())] == [[], ["xid_13"], ["xid_79"], []]


def test_a_blocking_xid_fails_the_check_until_the_next_boot(machine: FakeMachine) -> None:
    log = open_log(machine)
    machine.log_xid(1, 79)
    log.read()

    assert statuses(log.read()) == [CheckStatus.FAIL]
    (check,) = log.read().checks
    assert (check.device, "xid_79" in (check.message or "")) == (machine.slot(1), True)


def test_a_failing_check_names_no_code_because_the_fault_is_told_by_itself(machine: FakeMachine) -> None:
    """A server would take it for a second fault when the first had to wait in the spool."""
    machine.log_xid(1, 79)

    found = open_log(machine).read()

    assert [check.code for check in found.checks] == [None]
    assert codes(found) == ["xid_79"]


def test_in_the_next_boot_nothing_of_it_is_left(machine: FakeMachine) -> None:
    machine.log_xid(1, 79)
    log = open_log(machine)
    log.read()
    log._memory.save()

    machine.boot()
    assert statuses(open_log(machine).read()) == [CheckStatus.PASS]


def test_it_is_remembered_when_the_kernel_has_overwritten_the_line(machine: FakeMachine) -> None:
    log = open_log(machine)
    machine.log_xid(1, 79)
    log.read()
    log._memory.save()
    (machine.root / "dev/kmsg").write_text("6,1,0,-;Linux version 6.8.0\n")

    assert statuses(open_log(machine).read()) == [CheckStatus.FAIL]


def test_an_agent_that_begins_anew_gives_the_same_ids(machine: FakeMachine) -> None:
    machine.log_xid(1, 79)

    first, second = (open_log(machine).read().failures for _ in range(2))

    assert [one.failure_id for one in first] == [one.failure_id for one in second]
    assert [one.occurred_at for one in first] == [one.occurred_at for one in second]


def test_half_a_line_is_read_when_it_is_whole(machine: FakeMachine) -> None:
    log = open_log(machine)
    with (machine.root / "dev/kmsg").open("a") as device:
        device.write("4,900,227986636,-;NVRM: Xid (PCI:0000:18:00): 7")
        device.flush()
        assert codes(log.read()) == []

        device.write("9, pid=1, name=x, GPU has fallen off the bus.\n")
        device.flush()

        assert codes(log.read()) == ["xid_79"]


def test_without_the_device_the_journal_is_asked(machine: FakeMachine) -> None:
    (machine.root / "dev/kmsg").unlink()
    asked, now = [], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+0000")

    def journal(command: object) -> bytes:
        asked.append(command)
        return (
            f"{now} host kernel: Linux version 6.8.0\n"
            f"{now} host kernel: NVRM: Xid (PCI:0000:18:00): 48, pid=1, name=x, DBE\n"
        ).encode()

    found = open_log(machine, journal).read()

    assert codes(found) == ["xid_48"]
    assert len(asked) == 1


def test_a_log_that_nobody_may_read_is_no_log_without_faults(machine: FakeMachine) -> None:
    (machine.root / "dev/kmsg").unlink()

    with pytest.raises(ToolFailed, match="may not be read, and there is no journalctl"):
        open_log(machine).read()


def test_an_empty_log_is_no_log_without_faults(machine: FakeMachine) -> None:
    (machine.root / "dev/kmsg").write_text("")

    with pytest.raises(PartUnreadable, match="empty"):
        open_log(machine).read()


def test_a_line_is_as_old_as_the_kernel_says_whatever_the_clock_showed_at_the_start(machine: FakeMachine) -> None:
    """A wrong clock is set right, or a right one wrong: what is told from then on is dated by the clock of then."""
    log = open_log(machine)
    machine.log_xid(1, 79)
    (before,) = log.read().failures
    log._memory.save()
    machine.set_clock(timedelta(days=400))
    machine.log_xid(2, 79)

    (after,) = log.read().failures
    whole = {one.slot: one for one in open_log(machine).read().failures}

    assert before.occurred_at is not None
    assert after.occurred_at is not None
    assert timedelta(days=399) < after.occurred_at - before.occurred_at < timedelta(days=401)
    assert {one.failure_id for one in whole.values()} == {before.failure_id, after.failure_id}


def test_the_same_fault_again_is_a_longer_story_to_an_agent_that_begins_anew(machine: FakeMachine) -> None:
    machine.log_xid(1, 13)
    (first,) = open_log(machine).read().failures
    machine.log_xid(1, 13)

    (whole,) = open_log(machine).read().failures

    assert whole.failure_id == first.failure_id
    assert (first.count, whole.count) == (1, 2)
    assert whole.last_at is not None
    assert first.last_at is not None
    assert whole.last_at > first.last_at


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's own log may not be read here")
def test_the_kernels_own_log_is_read_without_waiting() -> None:
    log = KernelLog(Path("/"), refuse, Boot("boot"), Memory(Path("/nonexistent"), "boot"), lambda: NOON)

    for _ in range(2):
        with suppress(PartUnreadable):  # a container's may be empty
            assert log.read().checks
    log.close()
