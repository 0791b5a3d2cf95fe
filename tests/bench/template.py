# SPDX-License-Identifier: Apache-2.0
"""What rows does one machine leave behind? It lives its life through the real services, and is then cut into stencils.

Whatever is its own in those rows (ids, names, digests) becomes a blank, so that the rows of any other machine are made
by filling the blanks in: every column, JSON and hashes included, says what the services would have written.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from api.reports_body import glance_over, report_of
from registry.domain.actors import Actor, ActorKind
from registry.domain.glance import Glance
from registry.domain.policy import Policy
from registry.domain.reports import Report
from registry.domain.roles import Role
from registry.services.reports import accept_glance
from registry.services.tokens import create_token, hash_of
from registry.store.database import Database, open_database
from registry.store.migrations import migrate
from tests.bench import machine

MODEL = 16_000_000
"""The number of the machine that is copied; no fleet has so many."""

STEP_SECONDS = 30
PER_NODE = (
    "node",
    "instance",
    "boot",
    "node_state",
    "node_list",
    "board",
    "device",
    "identifier",
    "placement",
    "token",
)
"""Tables that hold nothing but rows of machines and their tokens."""

EVENTS_OF_FIRST_GPU = 16
"""So many changes has the GPU in the first slot, in a fleet of any size: pages of its history cost what they cost."""

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_MILLISECONDS = 1_790_000_000_000

Blank = Callable[[int], str]
"""Gives what stands in a blank for machine number N."""


@dataclass(frozen=True, slots=True)
class Stencil:
    """A text with blanks."""

    text: str
    blanks: tuple[Blank, ...]

    def fill(self, number: int) -> str:
        """Give the text of machine `number`."""
        return self.text % tuple([blank(number) for blank in self.blanks])


@dataclass(frozen=True, slots=True)
class EventStencil:
    """An event before it has a sequence; `subjects` are kind, id and ordinal."""

    at: int
    type: str
    before: Stencil
    after: Stencil
    subjects: tuple[tuple[str, Blank, int], ...]


@dataclass(frozen=True, slots=True)
class Template:
    """All rows of one machine. `tables` maps a table to its columns and rows; `ids` counts the ids in them."""

    tables: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]
    events: tuple[EventStencil, ...]
    blanks: tuple[Blank, ...]


def fill_row(row: Sequence[Any], number: int) -> tuple[Any, ...]:
    """Give a row of machine `number`."""
    return tuple([column.fill(number) if type(column) is Stencil else column for column in row])


def make_template(events: int, pepper: bytes, now: datetime) -> Template:
    """Let the model live until it has so many events and is admitted `now`, and cut its rows."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'model.db'}"
        migrate(url)
        db = open_database(url)
        _live(db, events, pepper, now)
        made = _cut(db, pepper)
        db.close_all()
    return made


def _live(db: Database, events: int, pepper: bytes, now: datetime) -> None:
    changes = _changes(db, events)
    at = now - timedelta(seconds=STEP_SECONDS * (len(changes) + 4))
    actor, policy = Actor(ActorKind.NODE, machine.node_name(MODEL)), Policy()
    system = Actor(ActorKind.SYSTEM, "pratique")
    create_token(db, role=Role.NODE, name="bench", node=machine.node_name(MODEL), pepper=pepper, actor=system, now=at)
    tags: dict[int, str] = {}
    for number, (slot, tag) in enumerate([(0, machine.TAG)] * 2 + changes + [(0, machine.TAG)] * 2):
        tags[slot] = tag
        seen, read = report_said(MODEL, f"report-{number}", tags)
        answer = accept_glance(db, seen, read, actor=actor, policy=policy, now=at)
        at += timedelta(seconds=STEP_SECONDS)
    assert answer["admission"]["admitted"], answer


def report_said(number: int, report_id: str, tags: dict[int, str] | None = None) -> tuple[Glance, Callable[[], Report]]:
    """The report of a machine as the door reads it: at a glance, and in full."""
    raw = json.dumps(machine.report(number, report_id, tags=tags)).encode()
    body, name = json.loads(raw), machine.node_name(number)
    seen = glance_over(body, name, raw)
    assert seen is not None
    return seen, lambda: report_of(body, name, raw)


@lru_cache(maxsize=1)
def digests(number: int) -> dict[str, str]:
    """By which digests a machine's row tells that its report is the same again."""
    seen, _ = report_said(number, "any")
    return {"said": seen.said, "list": seen.list_digest}


def _changes(db: Database, events: int) -> list[tuple[int, str]]:
    """Plan changes of asset tags, one event each, that end where they began: slot and tag."""
    left = events - 3 - 2 * machine.DEVICES - 2  # token, node, boot; registered and attached; two passes
    first = min(EVENTS_OF_FIRST_GPU, max(left, 0))
    others = max(left - first, 0)
    counts = [first, *(others // 7 + (slot < others % 7) for slot in range(7))]
    plan = []
    for turn in range(max(counts)):
        for slot, count in enumerate(counts):
            if turn < count:
                is_last = turn == count - 1 or count == 1
                plan.append((slot, machine.TAG if is_last else f"rack-{turn + 1:02d}"))
    return plan


# --- cutting ---------------------------------------------------------------------------------------------------------


def _cut(db: Database, pepper: bytes) -> Template:
    with db.read() as snapshot:
        tables = {}
        for table in PER_NODE:
            cursor = snapshot.execute(f"SELECT * FROM {table} ORDER BY 1")
            tables[table] = (tuple(one[0] for one in cursor.description), cursor.fetchall())
        events = snapshot.all("SELECT sequence, at, type, body FROM event ORDER BY sequence")
    texts = [str(value) for _, rows in tables.values() for row in rows for value in row]
    blanks = _blanks(texts, pepper, next(iter(_column(tables, "token", "hash"))))
    cut = _cutter(blanks)
    stencils = {name: (columns, [tuple(map(cut, row)) for row in rows]) for name, (columns, rows) in tables.items()}
    return Template(stencils, tuple(_event(row, cut) for row in events), tuple(blanks.values()))


def _column(tables: dict[str, Any], table: str, column: str) -> list[Any]:
    columns, rows = tables[table]
    return [row[columns.index(column)] for row in rows]


def _blanks(texts: Sequence[str], pepper: bytes, token_hash: str) -> dict[str, Blank]:
    """Everything of the model's own, with what stands there for another machine."""
    ids = sorted({found for text in texts for found in _ID.findall(text)})
    blanks: dict[str, Blank] = {}
    for index, one in enumerate(ids):
        blanks[one] = _id_blank(index)
        blanks[one[-12:]] = _tail_blank(index)
    for index, name in enumerate(machine.names(MODEL)):
        blanks[name] = _NAMES[index]
    for name, digest in digests(MODEL).items():
        blanks[digest] = _digest_blank(name)
    blanks[token_hash] = lambda number: hash_of(machine.secret(number), pepper)
    return blanks


def _digest_blank(name: str) -> Blank:
    return lambda number: digests(number)[name]


def _id_blank(index: int) -> Blank:
    def blank(number: int) -> str:
        moment = f"{_MILLISECONDS + number:012x}"
        return f"{moment[:8]}-{moment[8:]}-7{index:03x}-8000-{number:08x}{index:04x}"

    return blank


def _tail_blank(index: int) -> Blank:
    return lambda number: f"{number:08x}{index:04x}"


def _gpu_names(slot: int) -> list[Blank]:
    return [lambda number: machine.serial(number, slot), lambda number: machine.gpu_uuid(number, slot)]


def _mac_name(slot: int) -> Blank:
    return lambda number: machine.mac(number, slot)


_NAMES: tuple[Blank, ...] = (
    machine.node_name,
    machine.provider_id,
    machine.boot_id,
    *(blank for slot in range(machine.GPUS) for blank in _gpu_names(slot)),
    *(_mac_name(slot) for slot in range(machine.EFAS)),
)
"""Those of `machine.names`, one by one."""


def _cutter(blanks: dict[str, Blank]) -> Callable[[Any], Any]:
    own = re.compile("|".join(re.escape(one) for one in sorted(blanks, key=len, reverse=True)))

    def cut(value: Any) -> Any:
        if not isinstance(value, str) or not own.search(value):
            return value
        found = tuple(blanks[one] for one in own.findall(value))
        return Stencil("%s".join(part.replace("%", "%%") for part in own.split(value)), found)

    return cut


def _event(row: tuple[Any, ...], cut: Callable[[Any], Any]) -> EventStencil:
    sequence, at, type_, body = row
    before, mark, after = body.rpartition(f'"sequence":{sequence},"subjects":')
    assert mark, body
    subjects = []
    for one in json.loads(body)["subjects"]:
        id_ = cut(one["id"])
        assert isinstance(id_, Stencil), f"{one} belongs to no machine"
        subjects.append((one["kind"], id_.blanks[0], one["ordinal"]))
    return EventStencil(
        at, type_, _stencil(cut(before + '"sequence":')), _stencil(cut(',"subjects":' + after)), tuple(subjects)
    )


def _stencil(cut: Any) -> Stencil:
    return cut if isinstance(cut, Stencil) else Stencil(cut.replace("%", "%%"), ())
