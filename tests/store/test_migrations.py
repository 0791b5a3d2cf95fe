# SPDX-License-Identifier: Apache-2.0
"""Does the schema come to be once, whoever asks at once, and is a database refused that has not the right one?"""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from registry.domain.errors import StoreUnavailable
from registry.store import migrations
from registry.store.database import Database, open_database
from registry.store.fingerprints import insert_fingerprint
from registry.store.migrations import (
    GUARDS,
    NotReady,
    check_guards,
    known,
    list_faults,
    migrate,
    pending,
    refuse_to_serve,
)

ROOT = Path(__file__).resolve().parents[2]
MIGRATE = "import sys; from registry.store.migrations import migrate; print(*migrate(sys.argv[1]))"


def test_an_empty_database_lacks_everything_and_is_refused(empty_database_url: str) -> None:
    db = open_database(empty_database_url)

    assert pending(db) == known()
    with pytest.raises(NotReady, match="pratique migrate"):
        refuse_to_serve(db)
    db.close_all()


def test_migrate_applies_each_migration_once(empty_database_url: str) -> None:
    assert migrate(empty_database_url) == known()
    assert migrate(empty_database_url) == []

    db = open_database(empty_database_url)
    assert pending(db) == []
    assert check_guards(db) == []
    refuse_to_serve(db)
    db.close_all()


def test_four_processes_migrate_at_once(empty_database_url: str) -> None:
    command = [sys.executable, "-c", MIGRATE, empty_database_url]
    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = [process.communicate(timeout=60)[0].split() for process in started]

    assert [process.returncode for process in started] == [0, 0, 0, 0]
    assert sorted(map(len, printed)) == [0, 0, 0, len(known())]


def test_the_folder_of_a_new_sqlite_database_is_made(tmp_path: Path) -> None:
    assert migrate(f"sqlite:///{tmp_path}/some/where/registry.db") == known()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreUnavailable, match="cannot be made"):
        migrate(f"sqlite:///{tmp_path}/file/registry.db")


@pytest.mark.parametrize("table", migrations.GUARDED_TABLES)
def test_a_guard_that_was_removed_is_named(db: Database, now: datetime, table: str) -> None:
    with db.write(now) as transaction:
        on = "" if db.engine == "sqlite" else f" ON {table}"
        transaction.execute(f"DROP TRIGGER {table}_no_delete{on}")

    assert check_guards(db) == [f"{table}_no_delete"]
    with pytest.raises(NotReady, match=f"{table}_no_delete"):
        refuse_to_serve(db)
    with pytest.raises(NotReady, match=f"{table}_no_delete"):
        migrate(db.url)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize("how", ["DISABLE TRIGGER", "ENABLE REPLICA TRIGGER"])
def test_a_guard_that_does_not_fire_is_named(db: Database, now: datetime, how: str) -> None:
    with db.write(now) as transaction:
        transaction.execute(f"ALTER TABLE event {how} event_no_update")

    assert check_guards(db) == ["event_no_update"]


def test_a_guard_that_refuses_nothing_any_more_is_named(db: Database, now: datetime) -> None:
    idle = {
        "sqlite": (
            "DROP TRIGGER event_no_update",
            "CREATE TRIGGER event_no_update BEFORE UPDATE ON event BEGIN SELECT 1; END",
        ),
        "postgresql": (
            "CREATE OR REPLACE FUNCTION event_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
        ),
    }
    with db.write(now) as transaction:
        for statement in idle[db.engine]:
            transaction.execute(statement)

    assert "event_no_update" in check_guards(db)


def test_every_guard_is_listed(db: Database) -> None:
    catalogue = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    }
    with db.read() as snapshot:
        present = {name for (name,) in snapshot.all(catalogue[db.engine])}

    assert present == GUARDS[db.engine]


def test_a_database_of_a_newer_release_is_refused(db: Database, now: datetime) -> None:
    with db.write(now) as transaction:
        transaction.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_later', '2099-01-01')")

    with pytest.raises(NotReady, match="9999_later"):
        refuse_to_serve(db)
    with pytest.raises(NotReady, match="newer"):
        migrate(db.url)


def test_another_key_than_the_one_it_was_made_with_is_refused(db: Database, now: datetime) -> None:
    with db.write(now) as transaction:
        insert_fingerprint(transaction, "secret", "aaa")
        insert_fingerprint(transaction, "secret", "bbb")

    assert list_faults(db, {"secret": "aaa", "signing": "ccc"}) == []
    with pytest.raises(NotReady, match="secret key"):
        refuse_to_serve(db, {"secret": "bbb"})


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_migrations_that_are_not_installed_are_told(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations.importlib.util, "find_spec", lambda _: None)

    with pytest.raises(NotReady, match="not installed"):
        migrate(db.url)
