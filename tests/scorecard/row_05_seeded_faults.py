# SPDX-License-Identifier: Apache-2.0
"""Row 5: do the other rows find faults that are put in on purpose? A check that finds nothing proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from registry.services.audit import Held
from tests.forgery import FORGERIES
from tests.live.server import LiveServer
from tests.scorecard import (
    row_02_power_losses,
    row_03_admissions,
    row_04_linearizable,
    row_06_retries,
    row_07_forgeries,
    row_08_halves,
)
from tests.scorecard.ground import folder, records
from tests.scorecard.measured import Measured, Progress

ADMISSIONS, LOSSES, OPERATIONS, CHANGES = 3_000, 30, 160, 120


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Put in the first `n` faults, one after the other, each under the row that is there for it."""
    seen: dict[str, int] = {}
    for name, find in list(FINDERS.items())[:n]:
        seen[name] = find(seed, engine)
        progress(1)
    return Measured(len(seen), {"faults not caught": sum(not count for count in seen.values())}, seen)


@contextmanager
def _faulty(engine: str, fault: str) -> Iterator[LiveServer]:
    with records(engine) as url, folder() as here:
        server = LiveServer(here, url)
        server.module = "tests.scorecard.faulty"
        server.environment["SCORECARD_FAULT"] = fault
        server.start()
        try:
            yield server
        finally:
            server.kill()


def _under_admissions(seed: int, engine: str) -> int:
    with _faulty(engine, "a decision cache of one second") as server:
        return row_03_admissions.race(server, ADMISSIONS, seed, _nobody).wrong["admissions of a held node"]


def _in_histories(seed: int, engine: str) -> int:
    with _faulty(engine, "a decision cache of one second") as server:
        return sum(row_04_linearizable.judge(server, OPERATIONS, seed, _nobody).wrong.values())


def _under_retries(seed: int, engine: str) -> int:
    with _faulty(engine, "no answers kept") as server:
        wrong = row_06_retries.retry(server, CHANGES, seed, _nobody).wrong
    return min(wrong["effects twice"], wrong["other bodies accepted"])


def _under_power_losses(seed: int, engine: str) -> int:
    return row_02_power_losses.run(LOSSES, seed, engine, _nobody, "synchronous=NORMAL").wrong["writes or events lost"]


def _in_halves(seed: int, engine: str) -> int:
    wrong = row_08_halves.run(LOSSES, seed, engine, _nobody, "no transaction").wrong
    return wrong["states without event"] + wrong["events without state"]


def _without_checkpoint(seed: int, engine: str) -> int:
    with row_07_forgeries.stage(engine) as set_up:
        set_up.prepare()
        measured = row_07_forgeries.forge_all(set_up, Held(), len(FORGERIES), seed, _nobody)
    return measured.wrong["forgeries not found"]


def _nobody(_: int) -> None:
    """Nobody watches."""


FINDERS: dict[str, Callable[[int, str], int]] = {
    "under row 3, with a decision cache of one second": _under_admissions,
    "under row 2, with synchronous=NORMAL": _under_power_losses,
    "under row 8, with no transaction": _in_halves,
    "under row 7, with no checkpoint held": _without_checkpoint,
    "under row 4, with a decision cache of one second": _in_histories,
    "under row 6, with no answers kept": _under_retries,
}
"""What each fault makes the row count that must not be."""
