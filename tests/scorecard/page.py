# SPDX-License-Identifier: Apache-2.0
"""How is the scorecard told? One table: what each row promises, what was measured, how often, where and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.scorecard.ledger import Entry, Ledger
from tests.scorecard.measured import Measured
from tests.scorecard.rows import Row

HEAD = """# Scorecard

What was measured, as it was measured; written by `make scorecard`, never by hand. `make scorecard ROW=n` measures one
row, `SHARE=0.1` a tenth of each N, `N=` another N; a run that was interrupted goes on where it stopped. How each row is
measured stands in `tests/scorecard/row_NN_*.py`; a short form of each runs in the test suite.

| # | What is counted | Target | Engine | Measured | | N of full N | Seed |
|---|---|---|---|---|---|---|---|
"""
WHERE = """
What was seen beside, and where each row was measured (`code` changes with every change of the service or the harness;
fsync is the median of a 4 KiB write and fdatasync on the disk that was used):

| # | Engine | Seen beside | Date | Versions | Machine | fsync ms | Code |
|---|---|---|---|---|---|---|---|
"""


def write(rows: Sequence[Row], ledger: Ledger) -> str:
    """Write the page."""
    lines = [line for row in rows for line in _lines(row, ledger)]
    places = [line for row in rows for line in _places(row, ledger)]
    return HEAD + "\n".join(lines) + "\n" + WHERE + "\n".join(places) + "\n"


def _lines(row: Row, ledger: Ledger) -> Iterator[str]:
    if row.run is None:
        yield f"| {row.number} | {row.title} | {row.target} | | not built yet | | 0 of {row.full:,} | |"
        return
    for engine in row.engines:
        entry = ledger.get(row.name, engine)
        measured, verdict, done, seed = "not run yet", "", 0, ""
        if entry is not None:
            measured, verdict, done, seed = told(entry), _verdict(entry), entry.measured.n, str(entry.seed)
        what = f"{row.number} | {row.title} | {row.target} | {engine}"
        yield f"| {what} | {measured} | {verdict} | {done:,} of {row.full:,} | {seed} |"


def told(entry: Entry) -> str:
    """What went wrong, each with its count; zeros are said."""
    if entry.not_run is not None:
        return f"not run: {entry.not_run}"
    return named(entry.measured)


def named(measured: Measured) -> str:
    """The counts of what must not happen."""
    return ", ".join(f"{count:,} {what}" for what, count in measured.wrong.items())


def _verdict(entry: Entry) -> str:
    if entry.not_run is not None:
        return ""
    return "met" if entry.measured.is_met else "**missed**"


def _places(row: Row, ledger: Ledger) -> Iterator[str]:
    for engine in row.engines if row.run is not None else ():
        entry = ledger.get(row.name, engine)
        if entry is None or entry.not_run is not None:
            continue
        seen = ", ".join(f"{count:,} {what}" for what, count in entry.measured.seen.items())
        where = entry.where
        place = f"{where['date']} | {where['versions']} | {where['machine']} | {where['fsync_ms']} | {entry.code}"
        yield f"| {row.number} | {engine} | {seen} | {place} |"
