# SPDX-License-Identifier: Apache-2.0
"""Is a transaction whole, alone and durable, from any thread and any process, on both engines?"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from registry.domain.errors import InvalidField, StoreUnavailable
from registry.domain.events import Draft, EventType
from registry.store import engines
from registry.store.database import Database, Duplicate, from_micros, new_id, open_database, sqlite_gate, to_micros
from registry.store.history import page_events
from registry.store.snapshots import Snapshot, Transaction
from registry.store.verifying import verify_chain
from tests.store.drafts import ALICE, make_draft

ROOT = Path(__file__).resolve().parents[2]
PROFILE = "INSERT INTO profile (name, body, updated_at) VALUES (?, ?, 1)"
APPENDER = """
import sys
from datetime import UTC, datetime
from registry.store.database import open_database
from tests.store.drafts import make_draft
database = open_database(sys.argv[1])
for number in range(int(sys.argv[2])):
    with database.write(datetime(2026, 11, 29, tzinfo=UTC)) as transaction:
        transaction.record(make_draft("node-a", number=number))
"""

ENDLESS_APPENDER = """
import sys
from datetime import UTC, datetime
from registry.store.database import open_database
from tests.store.drafts import make_draft
database = open_database(sys.argv[1])
while True:
    with database.write(datetime(2026, 11, 29, tzinfo=UTC)) as transaction:
        transaction.record(make_draft("node-a"))
        sequence = transaction.flush()
    print(sequence, flush=True)
"""


def profiles(db: Database) -> list[str]:
    with db.read() as snapshot:
        return [name for (name,) in snapshot.all("SELECT name FROM profile ORDER BY name")]


def end_connections(db: Database) -> None:
    with psycopg.connect(db.url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


def test_what_is_written_is_there_with_its_event(db: Database, now: datetime) -> None:
    with db.write(now) as transaction:
        transaction.execute(PROFILE, ("a", "{}"))
        transaction.record(make_draft("node-a", "node-b", slot="0000:53:00.0"))

    with db.read() as snapshot:
        (event,) = page_events(snapshot)
        rows = snapshot.all("SELECT kind, id, ordinal, event FROM event_subject ORDER BY id")
    assert profiles(db) == ["a"]
    assert (event.sequence, event.at, event.data) == (1, now, {"slot": "0000:53:00.0"})
    assert rows == [("node", "node-a", 1, 1), ("node", "node-b", 1, 1)]


def test_an_exception_undoes_everything_and_is_raised_again(db: Database, now: datetime) -> None:
    def fail() -> None:
        with db.write(now) as transaction:
            transaction.execute(PROFILE, ("a", "{}"))
            transaction.record(make_draft("node-a"))
            transaction.flush()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()

    assert profiles(db) == []
    with db.read() as snapshot:
        assert snapshot.sequence() == 0
        assert page_events(snapshot) == []


def test_an_event_that_cannot_be_sealed_undoes_the_change_it_records(db: Database, now: datetime) -> None:
    def record() -> None:
        with db.write(now) as transaction:
            transaction.execute(PROFILE, ("a", "{}"))
            transaction.record(Draft(EventType.PROFILE_SET, ALICE, (), {"share": 0.5}))  # type: ignore[dict-item]

    with pytest.raises(ValueError, match="float"):
        record()

    assert profiles(db) == []


def test_an_inner_write_joins_the_outer_one(db: Database, now: datetime) -> None:
    with db.write(now) as outer:
        with db.write(now + timedelta(hours=1)) as inner, db.read() as view, db.touch(now) as touched:
            assert inner is outer is view is touched
            inner.execute(PROFILE, ("a", "{}"))
            inner.record(make_draft("node-a"))
        assert view.one("SELECT name FROM profile") == ("a",)
        outer.record(make_draft("node-a"))

    with db.read() as snapshot:
        assert [(e.sequence, e.at, e.subjects[0][1]) for e in page_events(snapshot)] == [(1, now, 1), (2, now, 2)]


def test_an_exception_in_an_inner_write_undoes_the_outer_one(db: Database, now: datetime) -> None:
    def fail() -> None:
        with db.write(now) as outer:
            outer.execute(PROFILE, ("a", "{}"))
            with db.write(now) as inner:
                inner.execute(PROFILE, ("b", "{}"))
                raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert profiles(db) == []


def test_flush_gives_the_sequence_and_goes_on_counting(db: Database, now: datetime) -> None:
    with db.write(now) as transaction:
        assert transaction.flush() == transaction.sequence() == 0
        transaction.record(make_draft("node-a"))
        transaction.record(make_draft("node-a"))
        assert transaction.flush() == transaction.sequence() == 2
        transaction.record(make_draft("node-a"))

    with db.read() as snapshot:
        assert snapshot.all("SELECT ordinal, event FROM event_subject ORDER BY event") == [(1, 1), (2, 2), (3, 3)]
        assert verify_chain(snapshot).ok


def test_an_event_with_more_subjects_than_one_query_asks_for(db: Database, now: datetime) -> None:
    names = [f"node-{number}" for number in range(450)]
    for _ in range(2):
        with db.write(now) as transaction:
            transaction.record(make_draft(*names))

    with db.read() as snapshot:
        assert snapshot.one("SELECT count(*), min(ordinal), max(ordinal) FROM event_subject") == (900, 1, 2)


def test_a_snapshot_sees_nothing_that_is_committed_after_its_first_look(db: Database, now: datetime) -> None:
    def write() -> None:
        with db.write(now) as transaction:
            transaction.execute(PROFILE, ("a", "{}"))

    with db.read() as snapshot:
        before = snapshot.one("SELECT count(*) FROM profile")
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        after = snapshot.one("SELECT count(*) FROM profile")

    assert before == after == (0,)
    assert profiles(db) == ["a"]


def test_a_look_sees_what_is_there_now_and_leaves_no_transaction_open(db: Database, now: datetime) -> None:
    def count() -> int:
        return db.look(lambda snapshot: int((snapshot.one("SELECT COUNT(*) FROM profile") or (0,))[0]))

    assert count() == 0
    with db.write(now) as transaction:
        transaction.execute(PROFILE, ("a", "{}"))
        assert count() == 1

    assert count() == 1
    assert db.look(lambda snapshot: engines.is_in_transaction(snapshot._connection)) is False


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_look_opens_a_connection_again_that_was_lost_while_idle(db: Database, now: datetime) -> None:
    assert db.look(Snapshot.sequence) == 0
    end_connections(db)

    assert db.look(Snapshot.sequence) == 0


def test_a_touch_writes_without_events(db: Database, now: datetime) -> None:
    with db.touch(now) as transaction:
        transaction.execute(PROFILE, ("a", "{}"))
    with pytest.raises(AssertionError, match="durable"), db.touch(now) as transaction:
        transaction.record(make_draft("node-a"))

    assert profiles(db) == ["a"]


def test_a_write_inside_a_read_or_touch_is_a_mistake(db: Database, now: datetime) -> None:
    for outer in (db.read, lambda: db.touch(now)):
        with outer(), pytest.raises(AssertionError, match="cannot begin"), db.write(now):
            pass
    with db.write(now) as transaction:
        transaction.execute(PROFILE, ("still works", "{}"))


def test_durability_is_full_for_a_write_and_relaxed_for_a_touch(db: Database, now: datetime) -> None:
    setting = "PRAGMA synchronous" if db.engine == "sqlite" else "SHOW synchronous_commit"
    full, relaxed = {"sqlite": ((2,), (1,)), "postgresql": (("on",), ("off",))}[db.engine]

    with db.touch(now) as transaction:
        assert transaction.one(setting) == relaxed
    with db.write(now) as transaction:
        assert transaction.one(setting) == full


@pytest.mark.parametrize(("body", "updated_at"), [("\ud800", 1), ("{}", 2**63), ("{}", 2**200), ("{}", -(2**63) - 1)])
def test_a_value_that_no_database_keeps_is_an_invalid_field(
    db: Database, now: datetime, body: str, updated_at: int
) -> None:
    with pytest.raises(InvalidField), db.write(now) as transaction:
        transaction.execute("INSERT INTO profile (name, body, updated_at) VALUES ('a', ?, ?)", (body, updated_at))

    assert profiles(db) == []


def test_a_key_that_is_there_is_a_duplicate(db: Database, now: datetime) -> None:
    with pytest.raises(Duplicate), db.write(now) as transaction:
        transaction.many(PROFILE, [("a", "{}"), ("a", "{}")])

    assert profiles(db) == []


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_file_that_vanishes_is_store_unavailable_and_never_made_anew(db: Database, now: datetime) -> None:
    assert db.path is not None
    with db.write(now) as transaction:
        transaction.record(make_draft("before"))
    aside = db.path.rename(db.path.with_suffix(".aside"))

    for span in (db.read, lambda: db.write(now), lambda: db.touch(now)):
        with pytest.raises(StoreUnavailable, match="cannot be reached"), span():
            pass
    assert not db.path.exists()

    aside.rename(db.path)
    with db.read() as snapshot:
        assert snapshot.sequence() == 1


def test_wrong_sql_is_told_as_what_it_is(db: Database) -> None:
    for mistake in ("SELECT 1 FROM nowhere", "SELEC 1"):
        with pytest.raises(Exception, match=r"nowhere|SELEC") as caught, db.read() as snapshot:
            snapshot.execute(mistake)
        assert not isinstance(caught.value, StoreUnavailable)


def test_percent_signs_and_question_marks_in_values_pass(db: Database, now: datetime) -> None:
    with db.write(now) as transaction:
        transaction.execute(PROFILE, ("100 % sure?", "%s"))

    with db.read() as snapshot:
        assert snapshot.all("SELECT body FROM profile WHERE name LIKE '100 %' AND name = ?", ("100 % sure?",)) == [
            ("%s",)
        ]


def test_iterate_streams_and_may_be_left_early(db: Database, now: datetime) -> None:
    with db.write(now) as transaction:
        transaction.many(PROFILE, [(f"{number:04}", "{}") for number in range(3000)])

    with db.read() as snapshot:
        rows = snapshot.iterate("SELECT name FROM profile WHERE name > ? ORDER BY name", ("0001",))
        others = snapshot.iterate("SELECT name FROM profile ORDER BY name")
        assert [next(rows), next(others), next(rows)] == [("0002",), ("0000",), ("0003",)]
        assert sum(1 for _ in others) == 2999
        rows.close()
        assert snapshot.one("SELECT count(*) FROM profile") == (3000,)


def test_eight_threads_append_one_chain(db: Database, now: datetime) -> None:
    def append(worker: int) -> None:
        for number in range(50):
            with db.write(now) as transaction:
                transaction.record(make_draft("node-a", f"worker-{worker}", number=number))
        db.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(8)))

    with db.read() as snapshot:
        report = verify_chain(snapshot)
    assert (report.ok, report.entries, report.reason) == (True, 400, None)


def test_processes_append_one_chain(database_url: str, db: Database) -> None:
    command = [sys.executable, "-c", APPENDER, database_url, "40"]
    started = [subprocess.Popen(command, cwd=ROOT) for _ in range(4)]
    assert [process.wait(60) for process in started] == [0, 0, 0, 0]

    with db.read() as snapshot:
        report = verify_chain(snapshot)
    assert (report.ok, report.entries, report.reason) == (True, 160, None)


def test_what_was_acknowledged_survives_a_kill(database_url: str, db: Database) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS_APPENDER, database_url], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(100)]
        process.kill()
        acknowledged += map(int, process.stdout.read().split())

    with db.write(datetime(2026, 11, 29, tzinfo=UTC)), db.read() as snapshot:  # after whatever was still under way
        report = verify_chain(snapshot)
    assert (report.ok, report.reason) == (True, None)
    assert acknowledged[-1] <= report.entries <= acknowledged[-1] + 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_its_own_connections(db: Database, now: datetime) -> None:
    with db.write(now) as transaction:
        transaction.execute(PROFILE, ("parent", "{}"))

    child = os.fork()
    if child == 0:
        try:
            with db.write(now) as transaction:
                transaction.execute(PROFILE, ("child", "{}"))
        except BaseException:  # noqa: BLE001 - a child of the test run must end here, whatever happens
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert profiles(db) == ["child", "parent"]


def test_connections_of_threads_that_ended_are_closed(db: Database, now: datetime) -> None:
    for _ in range(5):
        thread = threading.Thread(target=profiles, args=(db,))
        thread.start()
        thread.join()
    profiles(db)

    assert len(db._durable._open) <= 2


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_connection_that_was_lost_while_idle_is_opened_again(db: Database, now: datetime) -> None:
    profiles(db)
    end_connections(db)

    with db.write(now) as transaction:
        transaction.execute(PROFILE, ("a", "{}"))

    assert profiles(db) == ["a"]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_connection_that_is_lost_in_the_middle_is_store_unavailable(db: Database, now: datetime) -> None:
    def write() -> None:
        with db.write(now) as transaction:
            transaction.execute(PROFILE, ("a", "{}"))
            end_connections(db)
            transaction.execute(PROFILE, ("b", "{}"))

    with pytest.raises(StoreUnavailable):
        write()

    assert profiles(db) == []


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_writer_waits_for_writers_elsewhere_only_so_long(
    db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_MILLISECONDS", 50)
    other = open_database(db.url)

    with db.write(now), pytest.raises(StoreUnavailable, match="LockNotAvailable"), other.write(now):
        pass
    other.close_all()


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_stricter_default_of_the_server_does_not_make_a_writer_look_back(db: Database, now: datetime) -> None:
    with psycopg.connect(db.url, autocommit=True) as other:
        other.execute(f"ALTER DATABASE {other.info.dbname} SET default_transaction_isolation = 'repeatable read'")

    def append(worker: int) -> None:
        for _ in range(10):
            with db.write(now) as transaction:
                transaction.record(make_draft(f"worker-{worker}"))
        db.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    with db.read() as snapshot:
        assert verify_chain(snapshot).entries == 40


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "default", ["default_transaction_read_only = on", "default_transaction_isolation = 'serializable'"]
)
def test_what_moves_in_one_statement_is_written_whatever_the_servers_defaults_are(
    db: Database, now: datetime, default: str
) -> None:
    with psycopg.connect(db.url, autocommit=True) as other:
        other.execute(f"ALTER DATABASE {other.info.dbname} SET {default}")

    def work(tx: Transaction, items: Sequence[int]) -> list[str]:
        tx.execute("INSERT INTO outage (from_at, to_at) VALUES (?, ?)", (0, items[0]))
        return [str(tx.one("SHOW transaction_isolation"))]

    assert db.move(7, work, now) == "('read committed',)"


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_database_that_is_gone_is_store_unavailable(database_url: str) -> None:
    db = open_database(database_url.replace("test_", "never_made_"))

    with pytest.raises(StoreUnavailable, match="no connection") as caught, db.read():
        pass
    assert "never_made" not in caught.value.detail
    assert "never_made" in caught.value.__notes__[0]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_file_that_is_locked_cannot_be_opened_or_is_no_database_is_store_unavailable(
    db: Database, now: datetime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.db").write_text("no database at all, and long enough to have a header of one hundred bytes " * 3)
    monkeypatch.setattr(engines, "BUSY_MILLISECONDS", 50)
    impatient = open_database(db.url)

    with pytest.raises(StoreUnavailable), open_database(f"sqlite:///{tmp_path}/text.db").read() as snapshot:
        snapshot.sequence()
    with pytest.raises(StoreUnavailable), open_database(f"sqlite:///{tmp_path}/no/such/folder.db").write(now):
        pass
    holder = engines.sqlite.connect(str(db.path), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable), impatient.write(now):
        pass
    holder.close()
    impatient.close_all()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_writer_waits_for_writers_of_its_process_only_so_long(
    db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_MILLISECONDS", 50)

    with db.write(now), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: db.write(now).__enter__())
        assert isinstance(waiting.exception(5), StoreUnavailable)


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        ("3.6.23", True),
        ("3.7.0", False),
        ("3.40.1", False),
        ("3.44.5", False),
        ("3.44.6", True),
        ("3.45.0", False),
        ("3.50.6", False),
        ("3.50.7", True),
        ("3.51.0", False),
        ("3.51.2", False),
        ("3.51.3", True),
        ("3.53.4", True),
    ],
)
def test_versions_that_can_corrupt_a_wal_database_get_a_rollback_journal(version: str, is_safe: bool) -> None:
    gate = sqlite_gate(version)

    assert (gate.version, gate.is_safe, gate.journal) == (version, is_safe, "wal" if is_safe else "delete")


def test_an_unsafe_sqlite_uses_a_rollback_journal_with_extra_care(
    tmp_path: Path, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "sqlite_gate", lambda: sqlite_gate("3.40.1"))
    (tmp_path / "careful.db").touch()
    db = open_database(f"sqlite:///{tmp_path}/careful.db")

    for span in (db.touch, db.write):
        with span(now) as transaction:
            assert transaction.one("PRAGMA journal_mode") == ("delete",)
            assert transaction.one("PRAGMA synchronous") == (3,)
    db.close_all()


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "mysql://a/b", "/tmp/a.db"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:////absolute/path"):
        open_database(url)


def test_times_come_back_exactly(now: datetime) -> None:
    moment = now + timedelta(microseconds=123457)

    assert from_micros(to_micros(moment)) == moment
    assert to_micros(moment) % 1_000_000 == 123457
    assert from_micros(None) is None
    with pytest.raises(TypeError):
        to_micros(moment.replace(tzinfo=None))


def test_ids_sort_in_the_order_they_were_made(now: datetime) -> None:
    ids = [new_id(now) for _ in range(1000)] + [new_id(now + timedelta(milliseconds=1))]

    assert ids == sorted(set(ids))
    assert ids[0][14] == "7"
    assert ids[0][19] in "89ab"
