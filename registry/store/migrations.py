# SPDX-License-Identifier: Apache-2.0
"""Does the database have the schema and the guards that this code needs, and how does it get them?"""

from __future__ import annotations

import fcntl
import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import peewee
from playhouse.migrations import Migration, Runner

from registry.domain.errors import StoreUnavailable
from registry.store.database import Database, Snapshot
from registry.store.engines import DRIVER_ERRORS, WriterQueue, make_peewee, sqlite_path, translate
from registry.store.fingerprints import list_fingerprints

MIGRATION_LOCK = 0x7072617469717566
"""Key of PostgreSQL's advisory lock of whoever migrates. Session-wide: go round a pooler in transaction mode."""

GUARDED_TABLES = ("event", "event_subject", "subtree", "identifier")

_REFUSED = {"sqlite": ("update", "delete", "replace"), "postgresql": ("update", "delete", "truncate")}

GUARDS: dict[str, frozenset[str]] = {
    engine: frozenset(f"{table}_no_{act}" for table in GUARDED_TABLES for act in acts)
    for engine, acts in _REFUSED.items()
}
"""The triggers without which the history would not only grow."""

_HISTORY_EXISTS = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migration'",
    "postgresql": "SELECT 1 WHERE to_regclass('schema_migration') IS NOT NULL",
}
# A trigger of the right name guards nothing when it stands on another table, refuses nothing, or is disabled.
_TRIGGERS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' "
    "AND substr(name, 1, length(tbl_name) + 4) = tbl_name || '_no_' AND sql LIKE '%RAISE(ABORT%'",
    "postgresql": "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') "
    "AND pg_table_is_visible(c.oid) AND starts_with(t.tgname::text, c.relname || '_no_') "
    "AND p.prosrc LIKE '%RAISE EXCEPTION%'",
}


class NotReady(Exception):
    """The database must not be served as it is. `sentences` say what is wrong and what to do, one each."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__(" ".join(sentences))
        self.sentences = tuple(sentences)


def migrate(url: str) -> list[str]:
    """Bring the database at `url` to this code's schema and return the names of what was applied.

    Processes that migrate at once wait for each other. Raises NotReady when the database is newer than this code or
    ends up without its guards, StoreUnavailable when it cannot answer.
    """
    path = sqlite_path(url)
    database = make_peewee(url)
    try:
        with _lock(database, path):
            applied = _apply(database)
    except peewee.PeeweeException as error:
        meaning = translate(error.__cause__ or error.__context__ or error)
        if path is not None:
            meaning.add_note(f"the database file is {path}")
        raise meaning from error
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    except OSError as error:
        raise StoreUnavailable(f"the database cannot be made: {error}") from error
    finally:
        database.close()
    _demand_guards(url)
    return applied


def pending(database: Database) -> list[str]:
    """Return the names of the migrations that this database still lacks."""
    applied = _applied(database)
    return [name for name in known() if name not in applied]


def is_new(database: Database) -> bool:
    """Tell whether there is no database yet, or nothing in it."""
    return (database.path is not None and not database.path.exists()) or not _applied(database)


def unknown(database: Database) -> list[str]:
    """Return the names of migrations that this database has and this code does not: a newer release was here."""
    return sorted(_applied(database) - set(known()))


def known() -> list[str]:
    """Return the names of this code's migrations, in their order."""
    return [migration.name for migration in Migration.load_directory(str(_directory()))]


def check_guards(database: Database) -> list[str]:
    """Return the names of the triggers that are missing or disabled."""
    with database.read() as snapshot:
        return find_missing_guards(snapshot)


def find_missing_guards(snapshot: Snapshot) -> list[str]:
    """Return the names of the triggers that are missing or disabled in this view."""
    present = {name for (name,) in snapshot.all(_TRIGGERS[snapshot.engine])}
    return sorted(GUARDS[snapshot.engine] - present)


def list_faults(database: Database, fingerprints: Mapping[str, str] | None = None) -> list[str]:
    """Say in sentences why this database must not be served: none when all is well.

    `fingerprints` are those of the keys in use, by name; a key that the database does not know yet is no fault.
    """
    faults = []
    if newer := unknown(database):
        faults.append(_newer(newer))
    if lacking := pending(database):
        return [*faults, f"The database lacks {', '.join(lacking)}. Run `pratique migrate`."]
    if missing := check_guards(database):
        faults.append(
            f"The history is not guarded: {', '.join(missing)} is missing or disabled. Find out who removed it, "
            "run `pratique audit verify`, and restore the database or the trigger."
        )
    with database.read() as snapshot:
        stored = list_fingerprints(snapshot)
    for name, value in sorted((fingerprints or {}).items()):
        if stored.get(name, value) != value:
            faults.append(f"The {name} key is not the one this database was made with. Give the first one back.")
    return faults


def refuse_to_serve(database: Database, fingerprints: Mapping[str, str] | None = None) -> None:
    """Raise NotReady unless the schema fits this code, every guard stands and the keys are those of this database."""
    if faults := list_faults(database, fingerprints):
        raise NotReady(faults)


def _newer(names: list[str]) -> str:
    return f"The database is newer than this program: it has {', '.join(names)}. Install the newer release."


def _directory() -> Path:
    """Find the installed migrations without importing them. Raises NotReady when they were not installed."""
    spec = importlib.util.find_spec("migrations")
    if spec is None or not spec.submodule_search_locations:
        raise NotReady(["The migrations are not installed beside this program. Install the whole distribution."])
    return Path(spec.submodule_search_locations[0])


def _applied(database: Database) -> set[str]:
    if database.path is not None and not database.path.exists():
        return set()
    with database.read() as snapshot:
        return list_applied(snapshot)


def list_applied(snapshot: Snapshot) -> set[str]:
    """Return the names of the migrations that this view has; none in an empty database."""
    if snapshot.one(_HISTORY_EXISTS[snapshot.engine]) is None:
        return set()
    return {name for (name,) in snapshot.all("SELECT name FROM schema_migration")}


@contextmanager
def _lock(database: peewee.Database, path: Path | None) -> Iterator[None]:
    """Keep everybody else from migrating. Neither the runner nor the engines do so by themselves."""
    if path is None:
        database.connect()
        database.execute_sql(f"SELECT pg_advisory_lock({MIGRATION_LOCK})")
        yield  # the lock goes with the connection
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_name(f"{path.name}.migrate.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with closing(WriterQueue(path)) as queue, queue.turn():  # a running server waits until the schema stands
            # Made here because SQLite would let everybody on this host read it; its other files take after it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            database.connect()
            yield
    finally:
        os.close(descriptor)


def _apply(database: peewee.Database) -> list[str]:
    runner: Any = Runner(database, str(_directory()))
    if newer := [migration.name for migration in runner.status() if migration.path is None]:
        raise NotReady([_newer(newer)])
    applied: list[str] = runner.up()
    # The runner turns foreign keys off while it works on SQLite, and does not look afterwards.
    if isinstance(database, peewee.SqliteDatabase) and database.execute_sql("PRAGMA foreign_key_check").fetchone():
        raise NotReady(["A migration left rows that refer to nothing. Restore the backup and report this."])
    return applied


def _demand_guards(url: str) -> None:
    database = Database(url)
    try:
        refuse_to_serve(database)
    finally:
        database.close_all()
