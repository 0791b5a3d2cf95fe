# SPDX-License-Identifier: Apache-2.0
"""Does the doctor name each thing that is wrong with a server's host, and change nothing?"""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from registry.admin import findings
from registry.admin.findings import GIB, State, look_at_clock_steps
from registry.domain.policy import Policy
from registry.services import life
from registry.store.database import open_database
from registry.store.engines import SqliteGate
from tests.admin.conftest import Run
from tests.admin.test_host_commands import damage
from tests.postgres import Server

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - what shutil.disk_usage returns, by its own names

NAMES = [
    "disk",
    "fsync",
    "database",
    "migrations",
    "guards",
    "keys",
    "clock",
    "life_sign",
    "checkpoint",
    "checkpoint_file",
    "checkpoint_url",
    "safe_mode",
    "clock_steps",
]


def examine(run: Run, **settings: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Run the doctor; its exit code and its findings by name."""
    result = run("doctor", "--output", "json", **settings)
    document = json.loads(result.stdout)
    assert document["ok"] == (result.exit_code == 0)
    return result.exit_code, {one["name"]: one for one in document["checks"]}


def test_a_new_host_is_fit(migrated: Run) -> None:
    code, found = examine(migrated)
    told = migrated("doctor").stdout

    assert code == 0
    assert list(found) == NAMES
    assert {one["state"] for one in found.values()} <= {"ok", "warn", "skipped"}
    assert found["checkpoint"]["found"] == found["life_sign"]["found"] == "none yet"
    assert all(name in told for name in NAMES)


def test_looking_changes_nothing(migrated: Run, folder: Path) -> None:
    migrated("token", "create", "--role", "operator", "--name", "alice")
    before = migrated("audit", "verify").stdout

    examine(migrated)

    assert migrated("audit", "verify").stdout == before
    assert {path.name for path in folder.iterdir()} <= {
        *("pratique.db", "pratique.db-wal", "pratique.db-shm", "pratique.db.lock", "pratique.db.migrate.lock"),
        *("pratique.pepper", "pratique.signing"),
    }


def test_no_database_is_told_and_none_is_made(run: Run, folder: Path) -> None:
    code, found = examine(run)

    assert code == 1
    assert "pratique migrate" in found["database"]["remedy"]
    assert not folder.exists()


def drop_guard(folder: Path) -> None:
    damage(folder, "DROP TRIGGER event_no_delete")


def forget_migration(folder: Path) -> None:
    damage(folder, "DELETE FROM schema_migration")


def come_from_the_future(folder: Path) -> None:
    damage(folder, "INSERT INTO schema_migration (name, applied) VALUES ('9999_later', '2027-01-01')")


def change_pepper(folder: Path) -> None:
    (folder / "pratique.pepper").write_text("f" * 64)


def lose_key(folder: Path) -> None:
    (folder / "pratique.signing").unlink()


def write_over(folder: Path) -> None:
    (folder / "pratique.db-wal").unlink(missing_ok=True)
    (folder / "pratique.db").write_bytes(b"no database at all" * 500)


@pytest.mark.parametrize(
    ("harm", "name", "word"),
    [
        (drop_guard, "guards", "event_no_delete"),
        (forget_migration, "migrations", "pending: 0001_the_spine"),
        (come_from_the_future, "migrations", "9999_later"),
        (change_pepper, "keys", "secret"),
        (lose_key, "keys", "pratique.signing"),
        (write_over, "database", "cannot answer"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_what_must_not_be_served_fails(
    migrated: Run, folder: Path, harm: Callable[[Path], None], name: str, word: str
) -> None:
    harm(folder)

    code, found = examine(migrated)

    assert code == 1
    assert found[name]["state"] == "fail"
    assert word in found[name]["found"]
    assert found[name]["remedy"]


def test_keys_that_others_can_read_are_worth_a_word(migrated: Run, folder: Path) -> None:
    (folder / "pratique.pepper").chmod(0o644)

    code, found = examine(migrated)

    assert (code, found["keys"]["state"]) == (0, "warn")
    assert "pratique.pepper" in found["keys"]["found"]


@pytest.mark.parametrize(("free", "state"), [(GIB // 8, "fail"), (GIB, "warn"), (9 * GIB, "ok")])
def test_a_disk_that_fills_is_told(migrated: Run, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10 * GIB, 10 * GIB - free, free))

    assert examine(migrated)[1]["disk"]["state"] == state


@pytest.mark.parametrize(("seconds", "state"), [(0.004, "ok"), (0.05, "warn")])
def test_a_slow_disk_is_told_by_its_median(
    migrated: Run, monkeypatch: pytest.MonkeyPatch, seconds: float, state: str
) -> None:
    monkeypatch.setattr(findings, "measure_fsync", lambda _: [seconds, seconds, 3.0])

    found = examine(migrated)[1]["fsync"]

    assert found["state"] == state
    assert f"median {seconds * 1000:.2f} ms, worst 3000.00 ms" in found["found"]


def test_the_disk_is_really_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "fsync", asked.append)

    times = findings.measure_fsync(tmp_path)

    assert len(asked) == len(times) == findings.FSYNC_COUNT
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(migrated: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> list[float]:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(findings, "measure_fsync", refuse)

    code, found = examine(migrated)

    assert (code, found["fsync"]["state"]) == (1, "fail")
    assert "Read-only" in found["fsync"]["found"]


def test_an_unsafe_sqlite_is_worth_a_word(migrated: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "sqlite_gate", lambda: SqliteGate("3.45.1", is_safe=False, journal="delete"))

    assert examine(migrated)[1]["database"]["state"] == "warn"


def test_a_clock_behind_the_history_fails(migrated: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    migrated("token", "create", "--role", "operator", "--name", "alice")
    assert examine(migrated)[1]["clock"]["state"] == "ok"
    monkeypatch.setattr("registry.admin.doctor.utc_now", lambda: datetime.now(UTC) - timedelta(hours=1))

    code, found = examine(migrated)

    assert (code, found["clock"]["state"]) == (1, "fail")
    assert "behind the newest event" in found["clock"]["found"]


@pytest.mark.parametrize(("age", "state"), [(5, "ok"), (300, "warn")])
def test_a_server_that_stopped_is_told(migrated: Run, folder: Path, age: int, state: str) -> None:
    database = open_database(f"sqlite:///{folder / 'pratique.db'}")
    life.beat(database, datetime.now(UTC) - timedelta(seconds=age), Policy())
    database.close_all()

    code, found = examine(migrated)

    assert (code, found["life_sign"]["state"]) == (0, state)


@pytest.mark.parametrize(
    ("wall", "state"), [(1.0, State.OK), (1.4, State.OK), (3601.0, State.WARN), (-5.0, State.WARN)]
)
def test_a_clock_that_was_set_is_noticed(wall: float, state: State) -> None:
    assert look_at_clock_steps(timedelta(seconds=wall), timedelta(seconds=1)).state is state


def test_postgresql_tells_of_itself(run: Run, postgres: Server, postgres_template: str) -> None:
    """The tests' own server trades durability for speed, so the doctor has something to find."""
    url = postgres.create_database("doctored", template=postgres_template)
    keys = {"SECRET_KEY": "k" * 40, "SIGNING_KEY": "ab" * 32}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE pratique_doctored LOGIN")
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO pratique_doctored"))
    plain = url.replace("postgres@", "pratique_doctored@")

    code, as_owner = examine(run, DATABASE_URL=url, **keys)
    _, as_guest = examine(run, DATABASE_URL=plain, **keys)
    nobody = examine(run, DATABASE_URL=url.replace("doctored", "no_such_database"), **keys)

    assert code == 1
    assert as_owner["database"]["state"] == "fail"
    assert "fsync is off" in as_owner["database"]["found"]
    assert [as_owner[name]["state"] for name in ("disk", "fsync")] == ["skipped", "skipped"]
    assert (as_owner["owner"]["state"], as_guest["owner"]["state"]) == ("warn", "ok")
    assert nobody[0] == 1
    assert nobody[1]["database"]["state"] == "fail"
