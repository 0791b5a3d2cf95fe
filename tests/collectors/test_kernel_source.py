# SPDX-License-Identifier: Apache-2.0
"""Does an agent read each line of the kernel once, from wherever it can, over restarts of its own and of the node?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from registry.collectors.kernel_source import Cursor, collect, read_since
from registry.collectors.running import Runner, ToolFailed, ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Findings
from tests.collectors.kernel_logs import (
    BOOT_ID,
    BOOT_TIME,
    OFF_BUS,
    ORDINARY,
    OTHER_BOOT_ID,
    RECEIVED_AT,
    Lines,
    dmesg_raw,
    journal_precise,
    kmsg,
    only,
    results,
    wall,
)

START = [(0.0, "Linux version 6.8.0"), (5.0, ORDINARY), (6.0, ORDINARY), (7.0, ORDINARY)]
FAULT = (1843.308145, OFF_BUS)


def make_node(root: Path, *, boot_id: str = BOOT_ID, log: bytes | None = None, btime: int | None = None) -> Path:
    for folder in ("proc/sys/kernel/random", "dev"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n")
    seconds = int(BOOT_TIME.timestamp()) if btime is None else btime
    (root / "proc/stat").write_text(f"cpu  1 2 3\nbtime {seconds}\nprocesses 9\n")
    (root / "dev/kmsg").unlink(missing_ok=True)
    if log is not None:
        (root / "dev/kmsg").write_bytes(log)
    return root


def nothing_installed(command: Sequence[str]) -> bytes:
    raise ToolMissing(command[0])


def answer(**outputs: bytes | Exception) -> Runner:
    def run(command: Sequence[str]) -> bytes:
        output = outputs.get(command[0], ToolMissing(command[0]))
        if isinstance(output, Exception):
            raise output
        return output

    return run


def look(root: Path, cursor: Cursor | None, run: Runner = nothing_installed) -> tuple[Findings, Cursor]:
    findings, cursor = collect(root, run, received_at=RECEIVED_AT, cursor=cursor)
    return findings, kept(cursor)


def kept(cursor: Cursor) -> Cursor:
    """The cursor after a restart of the agent."""
    again = Cursor.from_text(cursor.to_text())
    assert again == cursor
    return again


def via_kmsg(root: Path, lines: Lines) -> Runner:
    make_node(root, log=kmsg(lines))
    return nothing_installed


def via_journal(root: Path, lines: Lines) -> Runner:
    make_node(root)
    return answer(journalctl=journal_precise(lines))


def via_dmesg(root: Path, lines: Lines) -> Runner:
    make_node(root)
    return answer(journalctl=ToolFailed("no journal"), dmesg=dmesg_raw(lines))


SOURCES = pytest.mark.parametrize("via", [via_kmsg, via_journal, via_dmesg])
Via = Callable[[Path, Lines], Runner]


@SOURCES
def test_each_line_is_read_once(tmp_path: Path, via: Via) -> None:
    first, cursor = look(tmp_path, None, via(tmp_path, START))
    second, cursor = look(tmp_path, cursor, via(tmp_path, [*START, FAULT]))
    third, cursor = look(tmp_path, cursor, via(tmp_path, [*START, FAULT]))
    fourth, _ = look(tmp_path, cursor, via(tmp_path, [*START, FAULT, (2000.0, OFF_BUS)]))

    assert (first.failures, third.failures) == ((), ())
    assert (only(second).code, only(second).occurred_at) == ("xid_79", wall(FAULT[0]))
    assert only(fourth).occurred_at == wall(2000.0)
    assert [results(one)[0][0] for one in (first, second, third, fourth)] == ["pass", "fail", "pass", "fail"]


@SOURCES
def test_the_first_look_tells_what_happened_before_the_agent_started(tmp_path: Path, via: Via) -> None:
    findings, _ = look(tmp_path, None, via(tmp_path, [*START, FAULT]))

    assert only(findings).code == "xid_79"


def test_records_that_share_a_sequence_number_are_told_apart(tmp_path: Path) -> None:
    def log(count: int) -> bytes:
        return "".join(f"4,3973,22799663{at},-;{OFF_BUS}\n" for at in range(count)).encode()

    _, cursor = look(make_node(tmp_path, log=log(4)), None)
    findings, _ = look(make_node(tmp_path, log=log(7)), cursor)

    assert only(findings).count == 3


def test_a_ring_buffer_that_has_lost_its_place_is_read_again_under_the_same_ids(tmp_path: Path) -> None:
    before, cursor = look(make_node(tmp_path, log=kmsg([*START, FAULT])), None)

    after, _ = look(make_node(tmp_path, log=kmsg([FAULT, (3000.0, ORDINARY)]).replace(b",3000,", b",3004,")), cursor)

    assert only(after).failure_id == only(before).failure_id


def test_a_new_boot_is_read_from_its_beginning(tmp_path: Path) -> None:
    before, cursor = look(make_node(tmp_path, log=kmsg([*START, FAULT])), None)

    node = make_node(tmp_path, boot_id=OTHER_BOOT_ID, log=kmsg([*START, FAULT]), btime=1_800_000_000)
    after, cursor = look(node, cursor)

    assert only(after).failure_id != only(before).failure_id
    assert cursor.boot_id == OTHER_BOOT_ID
    assert cursor.boot_time == datetime.fromtimestamp(1_800_000_000, UTC)


def test_the_boots_time_is_kept_when_the_clock_moves(tmp_path: Path) -> None:
    _, cursor = look(make_node(tmp_path, log=kmsg(START)), None)

    node = make_node(tmp_path, log=kmsg([*START, FAULT]), btime=int(BOOT_TIME.timestamp()) + 2)
    findings, _ = look(node, cursor)

    assert only(findings).occurred_at == wall(FAULT[0])


def test_without_the_boots_time_the_faults_time_is_unknown(tmp_path: Path) -> None:
    node = make_node(tmp_path, log=kmsg([*START, FAULT]))
    (node / "proc/stat").write_text("cpu 1 2 3\n")

    findings, cursor = look(node, None)

    assert (only(findings).occurred_at, cursor.boot_time) == (None, None)


def test_another_source_is_read_from_its_beginning(tmp_path: Path) -> None:
    _, cursor = look(tmp_path, None, via_kmsg(tmp_path, START))

    looked = read_since(tmp_path, via_journal(tmp_path, [*START, FAULT]), cursor)

    assert (looked.start, looked.cursor.source) == (0, "journalctl")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"boot_id": 1}', '{"boot_id": "a", "boot_time": "x"}'])
def test_a_damaged_cursor_is_none(text: str) -> None:
    assert Cursor.from_text(text) is None


@pytest.mark.parametrize(
    ("run", "reasons"),
    [
        (nothing_installed, ("/dev/kmsg: No such file", "journalctl: not installed", "dmesg: not installed")),
        (answer(journalctl=b"", dmesg=ToolFailed("timed out")), ("journalctl: printed nothing", "dmesg: timed out")),
    ],
    ids=["nothing", "silence"],
)
def test_a_log_that_cannot_be_read_is_refused_with_every_reason(
    tmp_path: Path, run: Runner, reasons: tuple[str, ...]
) -> None:
    with pytest.raises(PartUnreadable) as refusal:
        collect(make_node(tmp_path), run, received_at=RECEIVED_AT)

    assert all(reason in refusal.value.detail for reason in reasons)


def test_a_complaint_in_place_of_a_log_is_no_log(tmp_path: Path) -> None:
    run = answer(dmesg=b"dmesg: read kernel buffer failed: Operation not permitted\n")

    with pytest.raises(PartUnreadable, match="not permitted"):
        collect(make_node(tmp_path), run, received_at=RECEIVED_AT)


def test_a_node_that_does_not_name_its_boot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PartUnreadable, match="which boot"):
        collect(tmp_path, nothing_installed, received_at=RECEIVED_AT)
