# SPDX-License-Identifier: Apache-2.0
"""Does every row of the scorecard hold in its short form, and is it kept and told as it was measured?"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from registry.services import health
from tests.bench.test_titan import SMALL
from tests.project import ROOT
from tests.scorecard import page, row_13_documents, row_17_titan
from tests.scorecard.__main__ import measure
from tests.scorecard.ledger import Ledger
from tests.scorecard.measured import Measured, NotRun, Progress, together
from tests.scorecard.rows import ROWS, Row

SHORT = {
    "killed servers": ("sqlite", 1),
    "killed PostgreSQL": ("postgresql", 1),
    "power losses": ("sqlite", 20),
    "admissions": ("sqlite", 400),
    "linearizable": ("postgresql", 32),
    "seeded faults": ("sqlite", 4),
    "retries": ("sqlite", 30),
    "forgeries": ("sqlite", 22),
    "halves": ("sqlite", 10),
    "failing disk": ("sqlite", 24),
    "clock jumps": ("postgresql", 3),
    "partitions": ("postgresql", 1),
    "roles": ("sqlite", 300),
    "documents": ("sqlite", 9),
    "stories": ("sqlite", 2),
    "rate": ("sqlite", 200),
    "boot storm": ("sqlite", 10),
    "size": ("sqlite", 1_000),
    "Titan": ("sqlite", 1),
}
"""An engine and an N for each row that is built."""


TIMED = {"rate", "size"}


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if row.run], ids=lambda row: row.name)
def test_a_row_holds_in_its_short_form(row: Row) -> None:
    engine, n = SHORT[row.name]
    run = partial(row_17_titan.run, path=SMALL) if row.name == "Titan" else row.run
    assert run is not None
    done: list[int] = []

    measured = run(n, 1, engine, done.append)

    # How fast it is says nothing here: others run beside.
    assert measured.is_met or row.name in TIMED, measured
    assert measured.n >= n
    assert sum(measured.seen.values()) > 0
    assert sum(done) >= n


def test_an_answer_outside_of_the_document_is_named_with_its_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "liveness", lambda: 1 // 0)
    monkeypatch.setattr(row_13_documents, "operations", lambda: [("/health/live", "GET")])

    measured = row_13_documents.run(1, 1, "sqlite", lambda _: None)

    assert measured.wrong == {row_13_documents.OUTSIDE: 1}
    assert measured.seen["GET /health/live: Server error"] == 1


def test_all_seventeen_rows_are_there() -> None:
    assert [row.number for row in ROWS] == sorted(row.number for row in ROWS)
    assert {row.number for row in ROWS} == set(range(1, 18))
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_every_module_of_a_row_is_used() -> None:
    modules = {path.stem for path in (ROOT / "tests" / "scorecard").glob("row_*.py")}

    assert modules == {row.run.__module__.rpartition(".")[2] for row in ROWS if row.run}


class Counting:
    """A row that does as it is told and remembers in which parts."""

    def __init__(self, wrong: int = 0, breaks_at: int = 99) -> None:
        self.parts: list[tuple[int, int]] = []
        self.wrong, self.breaks_at = wrong, breaks_at

    def __call__(self, n: int, seed: int, engine: str, progress: Progress) -> Measured:
        assert engine == "sqlite"
        if len(self.parts) == self.breaks_at:
            raise KeyboardInterrupt
        self.parts.append((n, seed))
        progress(n)
        return Measured(n, {"faults": self.wrong}, {"trials": n})


def row_of(run: Counting) -> Row:
    return Row(1, "counting", "what is counted", 100, 10, ("sqlite",), run=run)


def test_a_row_that_was_interrupted_goes_on_where_it_stopped(tmp_path: Path) -> None:
    broken, whole = Counting(breaks_at=2), Counting()
    console = Console(quiet=True)

    with pytest.raises(KeyboardInterrupt):
        measure(row_of(broken), "sqlite", 25, 7, Ledger(tmp_path / "kept.json"), console)
    entry = measure(row_of(whole), "sqlite", 25, 7, Ledger(tmp_path / "kept.json"), console)
    again = measure(row_of(whole), "sqlite", 25, 7, Ledger(tmp_path / "kept.json"), console)

    assert broken.parts + whole.parts == [(10, 7), (10, 8), (5, 9)]
    assert entry.measured == again.measured == Measured(25, {"faults": 0}, {"trials": 25})


def test_another_n_or_seed_is_measured_anew(tmp_path: Path) -> None:
    run = Counting()
    ledger = Ledger(tmp_path / "kept.json")

    for wanted, seed in ((5, 1), (5, 2), (6, 2)):
        measure(row_of(run), "sqlite", wanted, seed, ledger, Console(quiet=True))

    assert run.parts == [(5, 1), (5, 2), (6, 2)]


def test_the_page_tells_what_was_missed_met_not_built_and_not_run(tmp_path: Path) -> None:
    def nowhere(n: int, seed: int, engine: str, progress: Progress) -> Measured:
        raise NotRun("the disk is elsewhere")

    rows = [
        Row(1, "good", "lost", 100, 10, ("sqlite",), run=Counting()),
        Row(2, "bad", "found", 100, 10, ("sqlite",), run=Counting(wrong=1)),
        Row(3, "later", "seen", 100, target="none"),
        Row(4, "away", "gone", 100, 10, ("sqlite",), run=nowhere),
    ]
    ledger = Ledger(tmp_path / "kept.json")
    for row in rows:
        if row.run:
            measure(row, "sqlite", 20, 1, ledger, Console(quiet=True))

    lines = page.write(rows, Ledger(tmp_path / "kept.json")).splitlines()

    assert "| 1 | lost | 0 | sqlite | 0 faults | met | 20 of 100 | 1 |" in lines
    assert "| 2 | found | 0 | sqlite | 2 faults | **missed** | 20 of 100 | 1 |" in lines
    assert "| 3 | seen | none | | not built yet | | 0 of 100 | |" in lines
    assert "| 4 | gone | 0 | sqlite | not run: the disk is elsewhere |  | 0 of 100 | 1 |" in lines
    place = next(line for line in lines if line.startswith("| 1 | sqlite | 20 trials |"))
    assert re.search(r"\| \d{4}-\d\d-\d\d \| pratique .*SQLite.* CPUs, .* \| \d+\.\d\d \| [0-9a-f]{12} \|$", place)


def test_parts_add_up() -> None:
    parts = [Measured(1, {"a": 0, "b": 1}, {"c": 2}), Measured(2, {"a": 0, "b": 0}, {"c": 3})]

    assert together(parts) == Measured(3, {"a": 0, "b": 1}, {"c": 5})
    assert not together(parts).is_met
    assert not Measured(0, {"a": 0}).is_met
