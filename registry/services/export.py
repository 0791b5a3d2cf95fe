# SPDX-License-Identifier: Apache-2.0
"""How does the whole history leave? As lines, piece by piece, in memory that does not grow with it.

Each piece is read in a snapshot of its own: entries are never changed, so that pieces fit together, and a reader that
is slow or goes away holds nothing open. The stream ends at what was the newest entry when it began; the sequence of the
last line that came is the cursor to go on from.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from registry.domain.events import BODY_VERSION
from registry.store import history
from registry.store.database import Database
from registry.store.history import SealedRow

PIECE = 1000
"""Entries in one piece: some 600 kB of text, and a few milliseconds of reading."""

CSV_COLUMNS = ("sequence", "at", "type", "actor", "node", "serial", "subjects", "data", "prev_hash", "hash")

_END = f',"v":{BODY_VERSION}}}'
"""How every body ends: keys are sorted, and `v` is the last of them."""


_DATA, _AFTER_DATA = ',"data":', ',"sequence":'
"""Between these the data of an event stands in its body: quotes inside a text have a backslash, so these are ours."""


def export_events(db: Database, *, after: int) -> Iterator[str]:
    """Yield the history as NDJSON, oldest first, from after a sequence on; each text holds many whole lines."""
    yield from _pieces(db, after, lambda rows: "".join(map(_line, rows)))


def export_csv(db: Database, *, after: int) -> Iterator[str]:
    """Yield the history as CSV with a header; text is kept to the character."""
    pieces = _pieces(db, after, _table)
    first = next(pieces, "")  # before the header: a store that cannot answer must not look like an empty history
    yield ",".join(CSV_COLUMNS) + "\r\n" + first
    yield from pieces


def _pieces(db: Database, after: int, write: Callable[[Sequence[SealedRow]], str]) -> Iterator[str]:
    with db.read() as snapshot:
        last = snapshot.sequence()
    while after < last:
        with db.read() as snapshot:
            rows = history.sealed_rows(snapshot, after, last, PIECE)
        if not rows:
            return
        yield write(rows)
        after = rows[-1][0]


def _line(row: SealedRow) -> str:
    """Write one entry around its body as it stands: reading it in and out again would cost ten times as much."""
    _, body, prev_hash, hash_ = row
    if body.endswith(_END):
        return f'{body[: -len(_END)]},"prev_hash":"{prev_hash}","hash":"{hash_}"}}\n'
    # An entry that somebody has edited is shown as it is now: whether the chain holds is for `verify` to say.
    return json.dumps({"body": body, "prev_hash": prev_hash, "hash": hash_}, ensure_ascii=False) + "\n"


def _table(rows: Sequence[SealedRow]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(map(_cells, rows))
    return text.getvalue()


def _cells(row: SealedRow) -> tuple[Any, ...]:
    sequence, body, prev_hash, hash_ = row
    told = json.loads(body)
    actor, data = told["actor"], told["data"]
    subjects = " ".join(f"{one['kind']}:{one['id']}" for one in told["subjects"])
    return (
        sequence,
        told["at"],
        told["type"],
        f"{actor['kind']}:{actor['name']}",
        data.get("node"),
        data.get("serial"),
        subjects,
        body[body.index(_DATA) + len(_DATA) : body.rindex(_AFTER_DATA)],
        prev_hash,
        hash_,
    )
