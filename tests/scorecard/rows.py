# SPDX-License-Identifier: Apache-2.0
"""Which rows does the scorecard have, and how often is each tried?"""

from __future__ import annotations

from dataclasses import dataclass

from tests.scorecard import (
    row_01_killed_postgresql,
    row_01_killed_servers,
    row_02_power_losses,
    row_03_admissions,
    row_04_linearizable,
    row_05_seeded_faults,
    row_06_retries,
    row_07_forgeries,
    row_08_halves,
    row_09_failing_disk,
    row_10_clock_jumps,
    row_11_partitions,
    row_12_roles,
    row_13_documents,
    row_13_stories,
    row_14_rate,
    row_15_boot_storm,
    row_16_size,
    row_17_titan,
)
from tests.scorecard.ground import BOTH, SQLITE
from tests.scorecard.measured import Run

POSTGRESQL = ("postgresql",)


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `full` is the N it is meant for, `part` how many trials are done and kept at a time.

    One that is not built yet has no `run`.
    """

    number: int
    name: str
    title: str
    full: int
    part: int = 1
    engines: tuple[str, ...] = BOTH
    run: Run | None = None
    target: str = "0"


ROWS = (
    Row(
        1,
        "killed servers",
        "acknowledged quarantines, releases, failures lost when `kill -9` takes all server processes under 4 writers",
        1_000,
        25,
        run=row_01_killed_servers.run,
    ),
    Row(
        1,
        "killed PostgreSQL",
        "the same when `kill -9` takes all of PostgreSQL under 4 writers",
        100,
        10,
        POSTGRESQL,
        run=row_01_killed_postgresql.run,
    ),
    Row(
        2,
        "power losses",
        "acknowledged writes with an event lost, or the file unreadable, over simulated power losses (writes recorded "
        "with strace; unsynced ones dropped, reordered, torn at 512 and 4,096 bytes)",
        2_000,
        500,
        SQLITE,
        run=row_02_power_losses.run,
    ),
    Row(
        3,
        "admissions",
        "admissions of a quarantined device begun after the acknowledgement, of concurrent admissions over 4 workers",
        1_000_000,
        50_000,
        run=row_03_admissions.run,
    ),
    Row(
        4,
        "linearizable",
        "histories of single devices that are not linearizable; views of several devices that are torn, in as many "
        "operations each",
        100_000,
        5_000,
        run=row_04_linearizable.run,
    ),
    Row(
        5, "seeded faults", "seeded faults that the other rows do not catch", 6, 6, SQLITE, run=row_05_seeded_faults.run
    ),
    Row(
        6,
        "retries",
        "duplicate effects of mutations and reports retried through a proxy that drops, resets and stalls; "
        "same key with another body accepted",
        20_000,
        1_000,
        run=row_06_retries.run,
    ),
    Row(
        7,
        "forgeries",
        "mutations of the history (11 kinds, triggers put back, a checkpoint held) not detected; false alarms",
        10_000,
        500,
        run=row_07_forgeries.run,
    ),
    Row(
        8,
        "halves",
        "state without event or event without state, over crash images",
        2_000,
        500,
        SQLITE,
        run=row_08_halves.run,
    ),
    Row(
        9,
        "failing disk",
        "wrong acknowledgements or admissions on EIO and ENOSPC at every n-th fsync, write and open",
        6_000,  # all of them, alone and beside another process; in one part, so that none is left out
        6_000,
        SQLITE,
        run=row_09_failing_disk.run,
    ),
    Row(
        10,
        "clock jumps",
        "early releases, passes counted twice and order changes over clock jumps of one second to ten years",
        200,
        20,
        run=row_10_clock_jumps.run,
    ),
    Row(
        11,
        "partitions",
        "wrong decisions, more than 5 seconds to be right again, and nodes stale by the service's own outage, over "
        "partitions of node, server and PostgreSQL",
        100,
        25,
        POSTGRESQL,
        run=row_11_partitions.run,
    ),
    Row(
        12,
        "roles",
        "routes x roles x ownership wrongly allowed; secrets found in logs, database, errors",
        2_000,
        1_000,
        run=row_12_roles.run,
    ),
    Row(
        13,
        "documents",
        "requests made up from the OpenAPI document: 5xx, undocumented status, error that is no problem document",
        20_000,
        2_000,
        run=row_13_documents.run,
    ),
    Row(
        13,
        "stories",
        "random stories of 50 acts that service and model tell differently",
        20_000,
        200,
        run=row_13_stories.run,
    ),
    Row(
        14,
        "rate",
        "417 reports a second for ten minutes, and p99 of admission meanwhile",
        250_200,
        250_200,
        run=row_14_rate.run,
        target="held, < 100 ms",
    ),
    Row(
        15,
        "boot storm",
        "a boot storm of nodes with 40 devices each: errors, nodes not decided; memory of the server",
        10_000,
        10_000,
        run=row_15_boot_storm.run,
        target="0; flat",
    ),
    Row(
        16,
        "size",
        "slowdown of admission, report and device history from 10 thousand to 1 million devices and from 0.1 to 5 "
        "million events",
        1_000_000,
        1_000_000,
        run=row_16_size.run,
        target="<= 1.3",
    ),
    Row(
        17,
        "Titan",
        "counts that differ after a replay of Titan's record (37,343 rows)",
        1,
        engines=SQLITE,
        run=row_17_titan.run,
    ),
)
