# SPDX-License-Identifier: Apache-2.0
"""Does the disk of the power losses keep what was synced, and nothing else, when syncs run beside one another?"""

from __future__ import annotations

from tests.scorecard.power import DATABASE, LOG, _Disk
from tests.scorecard.strace import Act


def disk_after(*acts: Act) -> dict[str, bytes]:
    disk = _Disk({DATABASE: bytearray(), LOG: bytearray()})
    for act in acts:
        disk.do(act)
    return {name: bytes(kept) for name, kept in disk.kept.items()}


def test_a_sync_of_one_file_takes_nothing_from_a_sync_of_another_that_runs_beside() -> None:
    kept = disk_after(
        Act("write", LOG, b"promised"),
        Act("write", DATABASE, b"page"),
        Act("sync begun", LOG, number=1),
        Act("sync begun", DATABASE, number=2),
        Act("sync", DATABASE, number=2),
        Act("sync", LOG, number=1),
    )

    assert kept == {LOG: b"promised", DATABASE: b"page"}


def test_two_syncs_of_a_file_keep_what_was_written_before_each_began() -> None:
    kept = disk_after(
        Act("write", LOG, b"one"),
        Act("sync begun", LOG, number=1),
        Act("write", LOG, b"two", 3),
        Act("sync begun", LOG, number=2),
        Act("write", LOG, b"late", 6),
        Act("sync", LOG, number=1),
        Act("sync", LOG, number=2),
    )

    assert kept[LOG] == b"onetwo"
