# SPDX-License-Identifier: Apache-2.0
"""How does a fleet get into a database without a million reports? Its rows are written straight, alike and true.

One machine lives through the real services (`tests.bench.template`); the others get its rows with names of their own.
The history has a valid chain: `pratique audit verify` agrees. What was loaded is kept for the next run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from registry.domain.actors import Actor, ActorKind
from registry.domain.events import GENESIS
from registry.services.checkpoints import keep_subtrees
from registry.services.quarantine import OpenQuarantines, open_quarantines
from registry.store import nodes
from registry.store.database import open_database
from registry.store.engines import sqlite
from registry.store.migrations import migrate
from registry.store.values import to_micros
from tests.bench import machine, template
from tests.bench.serving import served_policy
from tests.bench.template import Template, fill_row
from tests.postgres import DURABLE, Server
from tests.project import ROOT

BATCH = 5_000
HELD_SHARE = 0.01
"""Of all nodes, so many have a GPU in quarantine: nodes that are not measured."""

Rows = Iterator[tuple[Any, ...]]
Tick = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a fleet is."""

    name: str
    devices: int
    events: int

    @property
    def nodes(self) -> int:
        """Machines in it."""
        return self.devices // machine.DEVICES

    @property
    def measured(self) -> int:
        """Those, from the first on, that are reported for and asked about; the others may be put in quarantine."""
        return self.nodes // 2


SMALL = Size("small", 10_000, 100_000)
LARGE = Size("large", 1_000_000, 5_000_000)
FLEET = Size("fleet", 12_500 * machine.DEVICES, 5_000_000)
"""100,000 GPUs with their EFAs."""


def digest() -> str:
    """Tell fleets apart that were made by another template."""
    files = (Path(str(one.__file__)).read_bytes() for one in (machine, template))
    return hashlib.sha256(b"".join(files)).hexdigest()[:8]


def fleet(engine: str, size: Size, data: Path, pepper: bytes, server: Server | None = None) -> str:
    """Return the address of a fleet that is kept in `data`, loaded unless it is there from an earlier run.

    On PostgreSQL it is in `server`, whose folder must be kept too. A fleet of an earlier day is brought up to date as
    any other: by later migrations, and by what each node's next report would put into its row.
    """
    name = _name(size)
    mark = data / f"{name}.{engine}"
    url = server.url(name) if server else f"sqlite:///{data / name}.db"
    is_there = is_loaded(engine, size, data)
    if not is_there:
        mark.unlink(missing_ok=True)
        if server:
            server.drop_database(name)
            server.create_database(name)
        else:
            for old in data.glob(f"{name}.db*"):
                old.unlink()
        fill(url, size, pepper)
    if not is_there or json.loads(mark.read_text()) != _made_by():
        migrate(url)
        _say_again(url, size)
    mark.write_text(json.dumps(_made_by()))
    return url


@contextmanager
def kept(
    engine: str, sizes: Sequence[Size], data: Path, pepper: bytes, preload: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[list[str], Server | None]]:
    """Give the addresses of fleets in `data` while the block lasts, and their PostgreSQL.

    `preload` is what slows its disk; fleets are loaded without it. Whoever PostgreSQL runs as must reach the folder.
    """
    if engine == "sqlite":
        yield [fleet(engine, size, data, pepper) for size in sizes], None
        return
    if preload and not all(is_loaded(engine, size, data) for size in sizes):
        with kept(engine, sizes, data, pepper):
            pass
    server = Server(data=data / "postgresql", settings=DURABLE, environment=preload)
    try:
        yield [fleet(engine, size, data, pepper, server) for size in sizes], server
    finally:
        server.stop()


def is_loaded(engine: str, size: Size, data: Path) -> bool:
    """Tell whether this fleet is there, made by migrations that still are what they were."""
    mark = data / f"{_name(size)}.{engine}"
    return mark.exists() and json.loads(mark.read_text())["migrations"].items() <= _made_by()["migrations"].items()


def _name(size: Size) -> str:
    return f"fleet_{size.name}_{size.devices}_{size.events}_{digest()}"


def _made_by() -> dict[str, Any]:
    """By what the rows of a fleet would be made today: the migrations, and how reports are told apart."""
    files = sorted((ROOT / "migrations").glob("0*.py"))
    hashes = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    return {"migrations": hashes, "said": _said(0)}


def _said(number: int) -> dict[str, str]:
    """By which digests a node's row tells that its report is the same again."""
    seen, _ = template.report_said(number, "any")
    return {
        "policy": served_policy().digest,
        "said": seen.said,
        "list": seen.list_digest,
        "firmware": seen.firmware_digest,
    }


def _say_again(url: str, size: Size) -> None:
    """Let every node's row tell its report by the digests of today, and keep the subtrees of the history.

    A server that began with five million entries would hash them all while it is measured.
    """
    db = open_database(url)
    with db.write(datetime.now(UTC)) as tx:
        for number in range(size.nodes):
            state = nodes.find_state_by_name(tx, machine.node_name(number))
            assert state is not None
            for known in state.digest.values():
                known.update(_said(number))
            nodes.save_state(tx, state)
    keep_subtrees(db, now=datetime.now(UTC))
    db.close_all()


def fill(url: str, size: Size, pepper: bytes) -> None:
    """Make the schema in an empty database and put a fleet into it, with a progress bar."""
    write = _into_sqlite if url.startswith("sqlite") else _into_postgresql
    now = datetime.now(UTC)
    migrate(url)
    model = template.make_template(size.events // size.nodes, pepper, now)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(f"{url.partition(':')[0]} {size.name}: rows", total=_count(model, size.nodes))
        write(url, _tables(model, size.nodes, now, lambda rows: progress.advance(task, rows)))
    _hold_some(url, size, now)
    _analyse(url)


def _count(model: Template, nodes: int) -> int:
    rows = sum(len(rows) for _, rows in model.tables.values())
    return nodes * (rows + len(model.events) + sum(len(one.subjects) for one in model.events))


def _tables(model: Template, nodes: int, now: datetime, tick: Tick) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
    for table, (columns, rows) in model.tables.items():
        yield table, columns, _ticking((fill_row(row, n) for n in range(nodes) for row in rows), tick)
    head = [0, GENESIS]
    event_columns = ("sequence", "at", "type", "body", "prev_hash", "hash")
    yield "event", event_columns, _ticking(_events(model, nodes, head), tick)
    yield "event_subject", ("kind", "id", "ordinal", "event"), _ticking(_subjects(model, nodes), tick)
    yield "chain_head", ("id", "sequence", "hash"), iter([(1, *head)])
    yield "service_life", ("id", "last_at"), iter([(1, to_micros(now))])


def _ticking(rows: Rows, tick: Tick) -> Rows:
    while batch := list(islice(rows, BATCH)):
        yield from batch
        tick(len(batch))


def _events(model: Template, nodes: int, head: list[Any]) -> Rows:
    """The history: what happened first, on every machine; then what happened next. So one machine's lie far apart."""
    sequence, hash_ = head
    for one in model.events:
        for number in range(nodes):
            sequence += 1
            body = f"{one.before.fill(number)}{sequence}{one.after.fill(number)}"
            before, hash_ = hash_, hashlib.sha256(f"{hash_}{body}".encode()).hexdigest()
            yield sequence, one.at, one.type, body, before, hash_
    head[:] = [sequence, hash_]


def _subjects(model: Template, nodes: int) -> Rows:
    """The subjects of these events, in the order of their key."""
    of: dict[tuple[str, str], list[tuple[template.Blank, int, int]]] = {}
    for index, one in enumerate(model.events):
        for kind, blank, ordinal in one.subjects:
            of.setdefault((kind, blank(0)), []).append((blank, ordinal, index))
    for kind in sorted({kind for kind, _ in of}):
        mine = [of[key] for key in sorted(of) if key[0] == kind]
        for number in range(nodes):
            for subject in mine:
                id_ = subject[0][0](number)
                for _, ordinal, index in subject:
                    yield kind, id_, ordinal, index * nodes + number + 1


def _into_sqlite(url: str, tables: Iterable[tuple[str, tuple[str, ...], Rows]]) -> None:
    """Write with guards and indexes off, and put them back: they would be asked for each of millions of rows."""
    with closing(sqlite.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-1000000", "foreign_keys=OFF"):
            connection.execute(f"PRAGMA {pragma}")
        put_back = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
        ).fetchall()
        for kind, name, _ in put_back:
            connection.execute(f"DROP {kind} {name}")
        connection.execute("BEGIN")
        for table, columns, rows in tables:
            connection.execute(f"DELETE FROM {table}")
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)
        for _, _, sql in put_back:
            connection.execute(sql)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")


def _into_postgresql(url: str, tables: Iterable[tuple[str, tuple[str, ...], Rows]]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # no foreign key is looked up, no guard asked
        connection.execute("SET maintenance_work_mem = '1GB'")
        put_back = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND NOT EXISTS "
            "(SELECT 1 FROM pg_constraint WHERE conname = indexname)"
        ).fetchall()
        for name, _ in put_back:
            connection.execute(f"DROP INDEX {name}".encode())
        for table, columns, rows in tables:
            connection.execute(f"DELETE FROM {table}".encode())
            with connection.cursor().copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)
        for _, sql in put_back:
            connection.execute(sql.encode())


def _hold_some(url: str, size: Size, now: datetime) -> None:
    """Put GPUs of nodes that are not measured into quarantine, through the real service."""
    count = max(1, int(size.nodes * HELD_SHARE))
    targets = [{"device": machine.serial(size.nodes - 1 - at, machine.GPUS - 1)} for at in range(count)]
    db = open_database(url)
    actor = Actor(ActorKind.OPERATOR, "alice")
    command = OpenQuarantines(targets=tuple(targets), reason="fell off the bus twice")
    items = open_quarantines(db, command, actor=actor, now=now)
    db.close_all()
    assert all(one["outcome"] == "opened" for one in items), items[0]


def _analyse(url: str) -> None:
    """Let PostgreSQL learn what is in the tables, when everything is, as its autovacuum does by itself.

    SQLite learns nothing by itself, and the service never runs ANALYZE: with statistics a SQLite that was built with
    STAT4 plans a statement anew for each other value of a parameter, which costs four times what the statement does.
    """
    if url.startswith("sqlite"):
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
